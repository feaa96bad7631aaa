"""Agreement of the two ends of a link that both have been reset."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["GENERATION_BITS", "LinkSync", "Sync"]

GENERATION_BITS = 3


class Sync(data.Struct):
    """What one end tells the other.

    Members
    -------
    generation : counts the resets of the end that speaks
    heard : ``answer`` is valid
    answer : the generation of the other end that was heard last
    """

    generation: GENERATION_BITS
    heard: 1
    answer: GENERATION_BITS


class LinkSync(wiring.Component):
    """One end of a handshake like that of a connection: up when the other end has heard us.

    After a restart an end says its generation, and passes nothing else, until the other end has
    answered to that generation. What arrives before belongs to the time before the reset and is
    dropped by the owner (``up`` is low). An end that is up and hears another generation, or no
    answer, knows that the other end was reset. If it is still as its own restart left it, it asks
    again; else it is ``lost`` until it is restarted itself. So two ends that were both restarted
    and have not been ``used`` since come up, whatever the order and the number of their restarts
    (docs/ace.md, *On AXI*).

    Members
    -------
    restart : In(1)
    received : In(stream of Sync)
        Always taken.
    send : Out(stream of Sync)
        Goes before anything else. What is offered and not taken may give way to something newer.
    used : In(1)
        Traffic passes, or the engine has been given something to do.
    up : Out(1)
        Traffic may pass. Low as long as ``send`` has something to say.
    lost : Out(1)
        The other end was reset and this one, which had been used, was not.

    Notes
    -----
    What comes in t shows in t + 1. Generations wrap at 8: fewer restarts than that may fall
    within the time of flight of the link.
    """

    restart: In(1)
    received: In(stream.Signature(Sync))
    send: Out(stream.Signature(Sync))
    used: In(1)
    up: Out(1)
    lost: Out(1)

    def elaborate(self, platform):
        m = Module()
        generation = Signal(GENERATION_BITS)
        peer = Signal(GENERATION_BITS)
        heard = Signal()
        agreed = Signal()
        before = Signal()
        used = Signal()  # since our restart
        speak = Signal(init=1)
        came = self.received.payload
        answered = Signal()
        m.d.comb += [
            self.received.ready.eq(1),
            self.send.valid.eq(speak),
            self.send.payload.generation.eq(generation),
            self.send.payload.heard.eq(heard),
            self.send.payload.answer.eq(peer),
            self.up.eq(agreed & ~speak),
            answered.eq(came.heard & (came.answer == generation)),
        ]
        with m.If(self.send.valid & self.send.ready):
            m.d.sync += speak.eq(0)
        m.d.comb += used.eq(before | self.used)
        m.d.sync += before.eq(used)
        with m.If(self.received.valid):
            m.d.sync += peer.eq(came.generation)
            with m.If(agreed):
                with m.If(~answered | (came.generation != peer)):
                    m.d.sync += [
                        agreed.eq(answered & ~used),
                        self.lost.eq(used),
                        speak.eq(~used),
                    ]
            with m.Elif(~self.lost):
                m.d.sync += [heard.eq(1), agreed.eq(answered)]
                with m.If(~heard | (came.generation != peer) | ~answered):
                    m.d.sync += speak.eq(1)
        with m.If(self.restart):
            # What was heard from a peer that had been reset before us is still true.
            m.d.sync += [
                generation.eq(generation + 1),
                heard.eq(self.lost | (self.received.valid & agreed & used)),
                agreed.eq(0),
                before.eq(0),
                self.lost.eq(0),
                speak.eq(1),
            ]
        return m

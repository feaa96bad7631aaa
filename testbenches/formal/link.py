"""Links: no buffer overflows, no credit is lost, and no channel waits for ever."""

from __future__ import annotations

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal
from amaranth.lib.wiring import In

from rtl.link.link import Link
from rtl.link.receiver import LinkReceiver
from rtl.link.transmitter import LinkTransmitter
from testbenches.formal.property import Property

__all__ = ["LinkConservesCredits", "ReceiverReturnsCredits", "TransmitterIsFair"]


class ReceiverReturnsCredits(Property):
    """Towards any sender that respects its credits the input buffer loses no flit, and each credit
    comes back.

    In every cycle the sender's credits, the flits in the buffer and the credit on its way back
    are together ``depth``. So ``overrun`` stays low, and once the buffer is empty the sender has
    all its credits again. Sender and reader do otherwise as they like.

    Parameters
    ----------
    receiver : with one channel
    """

    def __init__(self, receiver: LinkReceiver):
        self.receiver = receiver
        super().__init__({"send": In(1), "read": In(1)})

    def state(self, m: Module) -> None:
        m.submodules.receiver = receiver = self.receiver
        depth = receiver.depth
        credits = Signal(range(depth + 1), init=depth)
        level = self.probe(m, "receiver.buffer.level", depth.bit_length())
        m.d.sync += credits.eq(credits - self.send + receiver.i.credit)
        m.d.comb += [
            receiver.i.valid.eq(self.send),
            receiver.o.ready.eq(self.read),
            Assume(~self.send | (credits != 0)),
            Assert(credits + level + receiver.i.credit == depth),
            Assert(~receiver.overrun),
            Assert(receiver.o.valid == (level != 0)),
            Cover((level == depth) & (credits == 0)),
        ]
        emptied = Signal()
        m.d.sync += emptied.eq(emptied | (level == depth))
        m.d.comb += Cover(emptied & (credits == depth))


class LinkConservesCredits(Property):
    """On a whole link, transmitter, flight and receiver, credits are never lost nor made.

    In every cycle the credits at the transmitter, the flits that it has put on the wire, that fly
    and that are buffered, and the credits on the wire and in flight back are together those of
    the start. What flies is taken from shift registers of ``latency`` cycles, which the flight
    must equal in both directions, flits included. Writer and reader do as they like.

    Parameters
    ----------
    link : with one channel; its flits have three free bits, head and last
    """

    def __init__(self, link: Link):
        self.link = link
        super().__init__({"valid": In(1), "ready": In(1), "bits": In(5)})

    def state(self, m: Module) -> None:
        m.submodules.link = link = self.link
        credits = self.probe(m, "link.transmitter.credits", link.credits.bit_length())
        level = self.probe(m, "link.receiver.buffer.level", link.credits.bit_length())
        sent = self.probe(m, "link.transmitter.o__valid", 1)
        flit = self.probe(m, "link.transmitter.o__flit", len(link.i.payload.as_value()))
        returned = self.probe(m, "link.receiver.i__credit", 1)
        arrives = self.probe(m, "link.receiver.i__valid", 1)
        arriving = self.probe(m, "link.receiver.i__flit", len(flit))
        comes_back = self.probe(m, "link.transmitter.o__credit", 1)
        m.d.comb += [
            link.i.valid.eq(self.valid),
            link.o.ready.eq(self.ready),
            link.i.payload.data.eq(self.bits[:3]),
            link.i.payload.head.eq(self.bits[3]),
            link.i.payload.last.eq(self.bits[4]),
        ]
        flying, back, data = [sent], [returned], flit
        for cycle in range(link.latency):
            flying.append(self.was(m, flying[-1], f"flying_{cycle + 1}"))
            back.append(self.was(m, back[-1], f"back_{cycle + 1}"))
            data = self.was(m, data, f"data_{cycle + 1}")
        under_way = sum(Cat(flying), 0) + sum(Cat(back), 0)
        emptied = Signal()
        m.d.sync += emptied.eq(emptied | (level == link.credits))
        m.d.comb += [
            Assert(credits + level + under_way == link.credits),
            Assert(~link.overrun),
            Assert(arrives == flying[-1]),
            Assert(~arrives | (arriving == data)),
            Assert(comes_back == back[-1]),
            Cover(emptied & (credits == link.credits)),
        ]


class TransmitterIsFair(Property):
    """A channel that could begin a packet is passed by a bounded number of packets of the others.

    Between the cycle in which a channel has a header and a credit for it, and its own packet's
    beginning, at most ``starvation_bound + channels - 1`` packets of other channels begin; one less
    where ``starvation_bound`` is at least ``channels - 1``, for whichever began last before the
    channel was due cannot be due itself in the turns that follow. Some channel waits for so many,
    no more. Writers
    keep to the stream rules (what is offered stays until it is taken); credits come back at any
    time, but never more than were used. Together with the rate, that in every cycle that it allows
    a flit leaves where one can, no channel waits for ever whose peers end their packets.

    Parameters
    ----------
    transmitter : with several channels, and one number of credits for all
    """

    def __init__(self, transmitter: LinkTransmitter):
        self.transmitter = transmitter
        channels = transmitter.channels
        super().__init__({name: In(channels) for name in ("valid", "last", "credit")})

    @property
    def bound(self) -> int:
        """Most packets that may pass one."""
        bound, others = self.transmitter.starvation_bound, self.transmitter.channels - 1
        return bound + others - (bound >= others)

    def state(self, m: Module) -> None:
        m.submodules.transmitter = transmitter = self.transmitter
        width = transmitter.channels
        most = transmitter.credits
        within, take, able, begins = (Signal(width, name=n) for n in ("in_", "take", "able", "new"))
        held = self.was(m, self.valid & ~take, "held")
        last = self.was(m, self.last, "last_before")
        m.d.comb += [
            transmitter.o.credit.eq(self.credit),
            begins.eq(take & ~within),
            Assume((held & ~self.valid) == 0),
            Assume((held & (self.last ^ last)) == 0),
        ]
        longest = Signal(width)
        for c in range(width):
            credits = self.probe(m, f"transmitter.credits_{c}", most.bit_length())
            stream = transmitter.i[c]
            m.d.comb += [
                stream.valid.eq(self.valid[c]),
                stream.payload.last.eq(self.last[c]),
                take[c].eq(stream.valid & stream.ready),
                able[c].eq(stream.valid & (credits != 0)),
                Assume(~self.credit[c] | (credits != most)),
            ]
            with m.If(take[c]):
                m.d.sync += within[c].eq(~self.last[c])
            waited = Signal(range(self.bound + 2), name=f"waited_{c}")
            others = (begins & ~(1 << c)).any()
            waits = able[c] & ~within[c]
            with m.If(begins[c]):
                m.d.sync += waited.eq(0)
            with m.Elif(waits & others & (waited <= self.bound)):
                m.d.sync += waited.eq(waited + 1)
            m.d.comb += [
                Assert(waited <= self.bound),
                Cover(waited == transmitter.starvation_bound),
                longest[c].eq(waited == self.bound),
            ]
        m.d.comb += [
            Cover(longest.any()),
            Assert(Mux(able.any(), take.any(), ~take.any())),
            Assert((take & ~able) == 0),
            Assert((take & (take - 1)) == 0),
        ]

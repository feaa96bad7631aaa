"""Shares the memory's read port between descriptor fetch and TX DMA."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.memory_port import BEATS_BITS, MemoryReadSignature
from rtl.ace.parameters import check_positive
from rtl.common.fifo import StreamFifo
from rtl.common.turns import Turns
from rtl.link.transmitter import STARVATION_BOUND

__all__ = ["MemoryReadArbiter"]


class MemoryReadArbiter(wiring.Component):
    """The users of one read port; bursts come back in the order of their requests.

    Descriptor fetch goes before TX DMA: it asks rarely, and everything waits for it; among several
    classes the higher goes first, with the starvation bound of the links. A request that was
    offered and not taken keeps its turn.

    Memory answers in the order in which it was asked, so a burst of the highest class waits for all
    that was asked for before it. Hence ``window``: without it every class would have its own under
    way, each burst that comes back would make room for the next one of the same class, and memory
    at its limit would be shared in equal parts, whatever the priority.

    Parameters
    ----------
    flit_bytes : of a beat
    bursts : bursts requested and not yet complete, of all users
    classes : how many have users of their own
    window : payload is asked for while no more than so many beats of it are under way, of all
        classes together; None: always

    Members
    -------
    user : In(MemoryReadSignature) × 2 * classes
        Descriptor fetch of every class, then TX DMA of every class.
    memory : Out(MemoryReadSignature)

    Notes
    -----
    No latency in either direction. A user that does not take its data blocks the others: all must
    reserve the room before they ask.
    """

    def __init__(
        self, *, flit_bytes: int, bursts: int, classes: int = 1, window: int | None = None
    ):
        for name, value in (("bursts", bursts), ("classes", classes)):
            check_positive(name, value)
        if window is not None and (not isinstance(window, int) or window < 0):
            raise ValueError(f"window must be an integer of at least 0, or None, not {window!r}")
        self.flit_bytes = flit_bytes
        self.bursts = bursts
        self.classes = classes
        self.window = window
        self.users = 2 * classes
        signature = MemoryReadSignature(flit_bytes=flit_bytes)
        super().__init__({"user": In(signature).array(self.users), "memory": Out(signature)})

    def elaborate(self, platform):
        m = Module()
        owner_shape = data.StructLayout({"user": range(self.users), "beats": BEATS_BITS})
        m.submodules.owners = owners = StreamFifo(shape=owner_shape, depth=self.bursts)
        # With one class fetch cannot ask so often that TX DMA would starve.
        bound = STARVATION_BOUND if self.users > 2 else None
        m.submodules.turns = turns = Turns(askers=self.users, bound=bound)

        out = self.memory.request
        back = self.memory.data
        asks = [user.request.valid for user in self.user]
        if self.window is not None:
            room = self._room(m, owners, turns)
            asks = [ask & room if n >= self.classes else ask for n, ask in enumerate(asks)]
        m.d.comb += [
            turns.asks.eq(Cat(asks)),
            turns.offered.eq(out.valid),
            turns.taken.eq(out.valid & out.ready),
            out.valid.eq(turns.asks.any() & owners.i.ready),
            owners.i.valid.eq(out.valid & out.ready),
            owners.i.payload.beats.eq(out.payload.beats),
        ]
        for number, user in enumerate(self.user):
            with m.If(turns.turn[number]):
                m.d.comb += [
                    out.payload.eq(user.request.payload),
                    user.request.ready.eq(out.ready & owners.i.ready),
                    owners.i.payload.user.eq(number),
                ]

        count = Signal(BEATS_BITS)
        last = Signal()
        m.d.comb += last.eq(count + 1 == owners.o.payload.beats)
        for number in range(self.users):
            beat = self.user[number].data
            m.d.comb += beat.payload.eq(back.payload)
            with m.If(owners.o.valid & (owners.o.payload.user == number)):
                m.d.comb += [beat.valid.eq(back.valid), back.ready.eq(beat.ready)]
        with m.If(back.valid & back.ready):
            with m.If(last):
                m.d.comb += owners.o.ready.eq(1)
                m.d.sync += count.eq(0)
            with m.Else():
                m.d.sync += count.eq(count + 1)
        return m

    def _room(self, m, owners, turns):
        """Whether payload may be asked for in this cycle; out of registers."""
        request, back = self.memory.request, self.memory.data
        under_way = Signal(range(self.window + (1 << BEATS_BITS)))
        asked, came = Signal(), Signal()
        m.d.comb += [
            asked.eq(request.valid & request.ready & turns.turn[self.classes :].any()),
            came.eq(back.valid & back.ready & (owners.o.payload.user >= self.classes)),
        ]
        m.d.sync += under_way.eq(under_way + Mux(asked, request.payload.beats, 0) - came)
        return under_way <= self.window

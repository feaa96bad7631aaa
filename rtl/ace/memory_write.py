"""Shares the memory's write port between the RX DMAs of the classes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.memory_port import MemoryWriteSignature
from rtl.ace.parameters import check_positive
from rtl.common.fifo import StreamFifo
from rtl.common.turns import Turns
from rtl.link.transmitter import STARVATION_BOUND

__all__ = ["MemoryWriteArbiter"]


class MemoryWriteArbiter(wiring.Component):
    """Several users of one write port; acknowledgements go to whose flit it was, as all come in
    order.

    A user keeps the port for a *run*: while it goes on to offer a flit in every cycle, up to
    ``run`` of them, so that bursts can be made of them. Then the lowest number goes first, with the
    starvation bound of the links, counted in runs.

    Parameters
    ----------
    users : how many
    flit_bytes : of a flit
    writes : flits written and not yet acknowledged, of all users together
    run : flits, a power of two

    Members
    -------
    user : In(MemoryWriteSignature) × users
    memory : Out(MemoryWriteSignature)

    Notes
    -----
    No latency in either direction.
    """

    def __init__(self, *, users: int, flit_bytes: int, writes: int, run: int = 16):
        for name, value in (("users", users), ("writes", writes), ("run", run)):
            check_positive(name, value)
        self.users = users
        self.writes = writes
        self.run = run
        signature = MemoryWriteSignature(flit_bytes=flit_bytes)
        super().__init__({"user": In(signature).array(users), "memory": Out(signature)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.turns = turns = Turns(askers=self.users, bound=STARVATION_BOUND)
        m.submodules.owners = owners = StreamFifo(shape=range(self.users), depth=self.writes)
        out = self.memory.request
        taken = Signal()
        last = Signal(self.users)  # who wrote in the cycle before, if the run may go on
        length = Signal(range(self.run))
        stays = Signal(self.users)
        chosen = Signal(self.users)
        m.d.comb += [
            turns.asks.eq(Cat(user.request.valid for user in self.user)),
            stays.eq(turns.asks & last),
            chosen.eq(Mux(stays.any(), stays, turns.turn)),
            turns.offered.eq(out.valid & ~stays.any()),
            turns.taken.eq(taken & ~stays.any()),
            out.valid.eq(turns.asks.any() & owners.i.ready),
            taken.eq(out.valid & out.ready),
            owners.i.valid.eq(taken),
            owners.o.ready.eq(self.memory.acknowledged),
        ]
        with m.If(taken):
            m.d.sync += [
                length.eq(Mux(stays.any(), length + 1, 1)),
                last.eq(Mux(stays.any() & (length == self.run - 1), 0, chosen)),
            ]
        with m.Elif(~stays.any()):
            m.d.sync += last.eq(0)
        for number, user in enumerate(self.user):
            m.d.comb += user.acknowledged.eq(
                self.memory.acknowledged & (owners.o.payload == number)
            )
            with m.If(chosen[number]):
                m.d.comb += [
                    out.payload.eq(user.request.payload),
                    user.request.ready.eq(out.ready & owners.i.ready),
                    owners.i.payload.eq(number),
                ]
        return m

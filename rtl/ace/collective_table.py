"""The collectives that are at work, and what is known against them."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.status import CompletionStatus

__all__ = ["STATUS_BITS", "CollectiveMark", "CollectiveQuery", "CollectiveTable"]

STATUS_BITS = 4


class CollectiveMark(wiring.Signature):
    """Something speaks against a collective, seen from the unit that found it."""

    def __init__(self):
        super().__init__({"valid": Out(1), "collective": Out(16), "status": Out(STATUS_BITS)})


class CollectiveQuery(wiring.Signature):
    """Whether a collective has been given up, seen from the unit that asks.

    Members
    -------
    collective : Out(16)
    void : In(1)
        In the same cycle. Once it is high it stays so until the collective is complete.
    """

    def __init__(self):
        super().__init__({"collective": Out(16), "void": In(1)})


class CollectiveTable(wiring.Component):
    """Holds the status of every collective that has begun and is not complete.

    The first mark counts; a collective that is marked is *void* from the next cycle on. Marks and
    queries of collectives that are not at work have no effect and are never void.

    Parameters
    ----------
    entries : collectives at work at once
    queries : units that ask
    marks : units that mark; of two marks in one cycle the first in order counts

    Members
    -------
    begin : In(stream of {collective, status})
        Refused while no entry is free, and while a collective of that id is at work.
    query : In(CollectiveQuery) × queries
    mark : In(CollectiveMark) × marks
    ended : In(1)
        The collective ``ending`` is complete.
    ending : In(16)
    status : Out(4)
        Of the collective ``ending``, in the same cycle; OK if it is not at work.

    Notes
    -----
    What is begun, marked or ended in t shows in t + 1.
    """

    def __init__(self, *, entries: int, queries: int, marks: int):
        self.entries = entries
        begin = data.StructLayout({"collective": 16, "status": STATUS_BITS})
        super().__init__(
            {
                "begin": In(stream.Signature(begin)),
                "query": In(CollectiveQuery()).array(queries),
                "mark": In(CollectiveMark()).array(marks),
                "ended": In(1),
                "ending": In(16),
                "status": Out(STATUS_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        used = Signal(self.entries)
        void = Signal(self.entries)
        collectives = Signal(data.ArrayLayout(unsigned(16), self.entries))
        statuses = Signal(data.ArrayLayout(unsigned(STATUS_BITS), self.entries))

        def match(collective):
            return Cat(
                used[entry] & (collectives[entry] == collective) for entry in range(self.entries)
            )

        begin = self.begin
        free = Signal(self.entries)
        m.d.comb += [
            free.eq(~used & (used + 1)),  # the lowest unused one
            begin.ready.eq(free.any() & ~match(begin.payload.collective).any()),
            void.eq(Cat(statuses[entry] != CompletionStatus.OK for entry in range(self.entries))),
        ]
        for query in self.query:
            m.d.comb += query.void.eq((match(query.collective) & void).any())
        ending = Signal(self.entries)
        m.d.comb += ending.eq(match(self.ending))
        for entry in range(self.entries):
            with m.If(ending[entry]):
                m.d.comb += self.status.eq(statuses[entry])
            for mark in reversed(self.mark):
                with m.If(mark.valid & (mark.collective == collectives[entry]) & ~void[entry]):
                    m.d.sync += statuses[entry].eq(mark.status)
            with m.If(ending[entry] & self.ended):
                m.d.sync += used[entry].eq(0)
            with m.If(begin.valid & begin.ready & free[entry]):
                m.d.sync += [
                    used[entry].eq(1),
                    collectives[entry].eq(begin.payload.collective),
                    statuses[entry].eq(begin.payload.status),
                ]
        return m

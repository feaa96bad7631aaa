"""Who may use which SRAM buffer: counters of fills and releases (docs/plan.md)."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["BUFFER_BITS", "EPOCH_BITS", "BufferEvent", "BufferQuery", "Scoreboard"]

EPOCH_BITS = 8
BUFFER_BITS = 8


class BufferQuery(wiring.Signature):
    """A question about one buffer, seen from the unit that asks.

    Members
    -------
    buffer : Out(8)
    epoch : Out(8)
        The use of the buffer, from 0, modulo 256.
    ok : In(1)
        In the same cycle. Stays high until the asking unit itself ends that use.
    """

    def __init__(self):
        super().__init__({"buffer": Out(BUFFER_BITS), "epoch": Out(EPOCH_BITS), "ok": In(1)})


class BufferEvent(wiring.Signature):
    """A count, seen from the unit that raises it: ``valid`` and the ``buffer`` it concerns."""

    def __init__(self):
        super().__init__({"valid": Out(1), "buffer": Out(BUFFER_BITS)})


class Scoreboard(wiring.Component):
    """Counts, for every buffer, how often it was filled and how often it was released.

    The planner gives every use of a buffer its number, the *epoch*. A unit may write into a
    buffer when all earlier uses were released (``releases == epoch``) and read it when its own
    use was filled (``fills == epoch + 1``), both modulo 256. Nobody competes for a buffer at run
    time, so the outcome depends on no timing.

    Parameters
    ----------
    buffers : number of buffers, 1 to 256
    writers : units that ask ``freed`` and raise ``fill``
    readers : units that ask ``filled`` and raise ``release``

    Members
    -------
    freed : In(BufferQuery) × writers
    filled : In(BufferQuery) × readers
    fill : In(BufferEvent) × writers
    release : In(BufferEvent) × readers

    Notes
    -----
    A count raised in cycle t is seen by the queries of cycle t + 1. Events of one cycle must
    concern different buffers within each kind; that follows from one owner per use. Queries of
    buffers that do not exist have no meaning.

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(self, *, buffers: int, writers: int, readers: int):
        if not isinstance(buffers, int) or not 1 <= buffers <= 256:
            raise ValueError(f"buffers must be an integer in 1..256, not {buffers!r}")
        for name, value in (("writers", writers), ("readers", readers)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a positive integer, not {value!r}")
        self.buffers = buffers
        self.writers = writers
        self.readers = readers
        super().__init__(
            {
                "freed": In(BufferQuery()).array(writers),
                "filled": In(BufferQuery()).array(readers),
                "fill": In(BufferEvent()).array(writers),
                "release": In(BufferEvent()).array(readers),
            }
        )

    def elaborate(self, platform):
        m = Module()
        kinds = (
            ("fills", self.fill, self.filled, 1),
            ("releases", self.release, self.freed, 0),
        )
        index_bits = max(1, (self.buffers - 1).bit_length())
        for name, events, queries, ahead in kinds:
            # Less what a query adds to its epoch: nothing is left to add between question and
            # answer, in whose cycle much follows.
            counts = Signal(
                data.ArrayLayout(unsigned(EPOCH_BITS), self.buffers),
                name=name,
                init=[-ahead % 2**EPOCH_BITS] * self.buffers,
            )
            raised = Signal(1 << index_bits, name=f"raised_{name}")
            m.d.comb += raised.eq(
                reduce(or_, (event.valid << event.buffer[:index_bits] for event in events))
            )
            for number in range(self.buffers):
                with m.If(raised[number]):
                    m.d.sync += counts[number].eq(counts[number] + 1)
            for query in queries:
                # Every buffer is compared while the one asked about is found.
                m.d.comb += query.ok.eq(
                    Cat(
                        (query.buffer[:index_bits] == number) & (counts[number] == query.epoch)
                        for number in range(self.buffers)
                    ).any()
                )
        return m

"""The engine's counters."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.layouts import RECORD_BYTES
from rtl.ace.status import DimEvents

__all__ = ["COUNTER_BITS", "Counters", "DimCounters", "EngineCounters", "engine_counters"]

COUNTER_BITS = 48
"""2**48 cycles are more than two days at 1.25 GHz."""

_count = unsigned(COUNTER_BITS)


class DimCounters(data.Struct):
    """Sums of :class:`rtl.ace.status.DimEvents`, under the names of the whole.

    Members
    -------
    flits_sent, headers_sent, flits_received, reductions : flits
    stall_link, stall_grant, stall_data, stall_operation : cycles
    flits_forwarded, flits_read_back : flits sent on, by where they were read: in the forwarding
        buffer, in SRAM
    context_cycles : cycles, summed over contexts in use
    busy_cycles : cycles with at least one context in use
    """

    flits_sent: _count
    headers_sent: _count
    flits_received: _count
    reductions: _count
    stall_link: _count
    stall_grant: _count
    stall_data: _count
    stall_operation: _count
    flits_forwarded: _count
    flits_read_back: _count
    context_cycles: _count
    busy_cycles: _count


EVENTS = {
    "flits_sent": "flit_sent",
    "headers_sent": "header_sent",
    "flits_received": "flit_received",
    "reductions": "reduced",
    "stall_link": "stall_link",
    "stall_grant": "stall_grant",
    "stall_data": "stall_data",
    "stall_operation": "stall_operation",
    "flits_forwarded": "forwarded",
    "flits_read_back": "read_back",
    "context_cycles": "contexts",
}


class EngineCounters(data.Struct):
    """Counters of what all dims share.

    Members
    -------
    memory_read_bytes, memory_written_bytes : payload
    descriptor_bytes : records executed, END included
    descriptor_fetched_bytes : what was read for them, with what was dropped behind END
    records_refused : records of unknown kind or dim
    completions : collectives completed
    bank_collisions : requests to the SRAM that were refused, one for every cycle
    sram_reads, sram_writes : flits
    """

    memory_read_bytes: _count
    memory_written_bytes: _count
    descriptor_bytes: _count
    descriptor_fetched_bytes: _count
    records_refused: _count
    completions: _count
    bank_collisions: _count
    sram_reads: _count
    sram_writes: _count


def engine_counters(dims: int, lanes: int = 1) -> data.StructLayout:
    """All counters of an engine: ``engine``, and ``dims``, an array of :class:`DimCounters`, those
    of a lane's dim in place ``lane * dims + dim``. With several lanes also ``busy_cycles`` by dim:
    cycles with at least one context of any class in use."""
    busy = {"busy_cycles": data.ArrayLayout(_count, dims)} if lanes > 1 else {}
    return data.StructLayout(
        {"engine": EngineCounters, "dims": data.ArrayLayout(DimCounters, dims * lanes)} | busy
    )


class Counters(wiring.Component):
    """Adds up events.

    Parameters
    ----------
    dims : number of dims
    flit_bytes : bounds the byte amounts of one cycle
    lanes : classes that are counted apart

    Members
    -------
    dim_events : In(array of DimEvents)
        Of a lane's dim in place ``lane * dims + dim``.
    amounts : In({name of an engine counter: amount of this cycle})
    counts : Out(engine_counters(dims, lanes))

    Notes
    -----
    Events of cycle t show in t + 2: a register stands in front of the adders, since an event (a
    collision on a bank, say) is known late in a cycle. Counters wrap at 2**48; reset clears them.
    """

    def __init__(self, *, dims: int, flit_bytes: int, lanes: int = 1):
        self.dims = dims
        self.flit_bytes = flit_bytes
        self.lanes = lanes
        width = max(flit_bytes.bit_length(), (RECORD_BYTES * lanes).bit_length())
        amounts = data.StructLayout({name: width for name, _ in EngineCounters.as_shape()})
        super().__init__(
            {
                "dim_events": In(data.ArrayLayout(DimEvents, dims * lanes)),
                "amounts": In(amounts),
                "counts": Out(engine_counters(dims, lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        amounts = Signal.like(self.amounts)
        events = Signal.like(self.dim_events)
        m.d.sync += [amounts.eq(self.amounts), events.eq(self.dim_events)]
        for name, _ in EngineCounters.as_shape():
            amount = amounts[name]
            counter = self.counts.engine[name]
            with m.If(amount != 0):
                m.d.sync += counter.eq(counter + amount)
        for dim in range(self.dims * self.lanes):
            for name, event in EVENTS.items():
                amount = events[dim][event]
                counter = self.counts.dims[dim][name]
                with m.If(amount != 0):
                    m.d.sync += counter.eq(counter + amount)
            with m.If(events[dim].contexts != 0):
                busy = self.counts.dims[dim].busy_cycles
                m.d.sync += busy.eq(busy + 1)
        if self.lanes > 1:
            for dim in range(self.dims):
                own = [events[lane * self.dims + dim].contexts for lane in range(self.lanes)]
                with m.If(Cat(own).any()):
                    count = self.counts.busy_cycles[dim]
                    m.d.sync += count.eq(count + 1)
        return m

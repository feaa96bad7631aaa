"""TX DMA: memory to SRAM, the only reader of payload in memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import CollectiveMark, CollectiveQuery
from rtl.ace.layouts import Load, beyond
from rtl.ace.memory_port import MemoryReadSignature
from rtl.ace.scoreboard import BufferEvent, BufferQuery
from rtl.ace.sram import SramWriteSignature
from rtl.ace.status import CompletionStatus
from rtl.common.fifo import StreamFifo
from rtl.common.front_fifo import front_queue

__all__ = ["TxDma"]


class TxDma(wiring.Component):
    """Executes LOAD records in order.

    A record with ``first`` waits until its buffer is free. Bursts of up to ``burst_beats`` are
    requested while no more than ``read_beats`` payload beats are outstanding. Beats go to
    consecutive SRAM flits; the bytes of the last one beyond ``last_bytes`` are written as zero.
    Where they begin within a flit of memory (``shift``), each flit is put together of two beats,
    and the load takes one cycle more. A
    record with ``final`` fills its buffer with its last beat; a record of length zero, or of a
    collective that has been given up when it is reached, reads nothing and is complete then.

    Parameters
    ----------
    flit_bytes, address_bits : of flits, and of the SRAM
    queue_depth : records that wait
    burst_beats : 1 to 256
    read_beats : at least ``burst_beats``

    Members
    -------
    load : In(stream of Load)
    memory : Out(MemoryReadSignature)
    write : Out(SramWriteSignature)
    freed : Out(BufferQuery)
    fill : Out(BufferEvent)
    idle : Out(1)
        No record is queued or in flight.
    read_bytes : Out
        Payload bytes taken from memory in this cycle.
    query : Out(CollectiveQuery)
    failed : In(1)
        The beat that ``memory.data`` offers came with an error.
    fault : Out(CollectiveMark)
        Such a beat was taken.

    Notes
    -----
    A record given to the empty unit in cycle t requests its first burst in t + 1. A beat is
    written to SRAM in the cycle in which it is taken. One beat per cycle, also from record to
    record.
    """

    def __init__(
        self,
        *,
        flit_bytes: int,
        address_bits: int,
        queue_depth: int,
        burst_beats: int,
        read_beats: int,
    ):
        if not isinstance(burst_beats, int) or not 1 <= burst_beats <= 256:
            raise ValueError(f"burst_beats must be an integer in 1..256, not {burst_beats!r}")
        if not isinstance(read_beats, int) or read_beats < burst_beats:
            raise ValueError(
                f"read_beats must be at least {burst_beats} burst_beats, not {read_beats!r}"
            )
        self.flit_bytes = flit_bytes
        self.address_bits = address_bits
        if not isinstance(queue_depth, int) or queue_depth < 1:
            raise ValueError(f"queue_depth must be a positive integer, not {queue_depth!r}")
        self.queue_depth = queue_depth
        self.burst_beats = burst_beats
        self.read_beats = read_beats
        super().__init__(
            {
                "load": In(stream.Signature(Load)),
                "memory": Out(MemoryReadSignature(flit_bytes=flit_bytes)),
                "write": Out(SramWriteSignature(address_bits=address_bits, flit_bytes=flit_bytes)),
                "freed": Out(BufferQuery()),
                "fill": Out(BufferEvent()),
                "idle": Out(1),
                "read_bytes": Out(range(flit_bytes + 1)),
                "query": Out(CollectiveQuery()),
                "failed": In(1),
                "fault": Out(CollectiveMark()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = front_queue(shape=Load, depth=self.queue_depth)
        # Every record in flight but an empty one has at least one beat outstanding.
        m.submodules.flight = flight = StreamFifo(shape=Load, depth=self.queue_depth)
        wiring.connect(m, wiring.flipped(self.load), queue.i)

        # Request.
        record = queue.o.payload
        nothing = Signal()  # is read; known late, and so not looked at before the end
        offered = Signal()  # a request was offered and not taken: it stays
        next_address = Signal(len(record.memory_address))  # of the next burst,
        left = Signal(20)  # and flits of SRAM, once the record has begun
        outstanding = Signal(range(self.read_beats + 1))
        remaining = Signal(20)  # flits of SRAM; of memory there may be one more
        more = Signal()
        beats = Signal(range(self.burst_beats + 1))
        begun = Signal()
        may_begin = Signal()
        last_burst = Signal()
        request = self.memory.request
        taken = Signal()
        m.d.comb += [
            self.freed.buffer.eq(record.buffer),
            self.freed.epoch.eq(record.epoch),
            self.query.collective.eq(record.collective),
            nothing.eq((self.query.void & ~begun & ~offered) | (record.length == 0)),
            remaining.eq(Mux(begun, left, record.length)),
            more.eq(beyond(record, flit_bytes=self.flit_bytes)),
            last_burst.eq(Cat(more, remaining) <= 2 * self.burst_beats),
            beats.eq(Mux(last_burst, remaining[: len(beats)] + more, self.burst_beats)),
            may_begin.eq(
                queue.o.valid & (begun | (flight.i.ready & (~record.first | self.freed.ok)))
            ),
            request.valid.eq(
                may_begin & ~nothing & (outstanding <= self.read_beats - self.burst_beats)
            ),
            request.payload.address.eq(Mux(begun, next_address, record.memory_address)),
            request.payload.beats.eq(beats),
            taken.eq(request.valid & request.ready),
            flight.i.payload.eq(record),
            flight.i.payload.length.eq(Mux(nothing, 0, record.length)),
            flight.i.valid.eq(~begun & (taken | (may_begin & nothing))),
            queue.o.ready.eq((taken & last_burst) | (may_begin & nothing)),
        ]
        m.d.sync += offered.eq(request.valid & ~request.ready)
        with m.If(taken):
            m.d.sync += [
                begun.eq(~last_burst),
                next_address.eq(request.payload.address + self.burst_beats),
                left.eq(remaining - self.burst_beats),
            ]

        # Data.
        current = flight.o.payload
        index = Signal(20)  # of the flit
        following = Signal(20, init=1)  # index + 1
        empty = Signal()
        last = Signal()
        beat = Signal()
        written = Signal()
        begins = Signal()  # the first beat of a shifted load: no flit is whole yet
        held = Signal()  # it has been taken
        whole = Signal(8 * self.flit_bytes)
        rest = Signal()  # what is left of the last beat is the last flit
        before = Signal(8 * self.flit_bytes)
        write = self.write.request
        moving = self.memory.data
        m.d.comb += [
            empty.eq(current.length == 0),
            last.eq(following == current.length),
            begins.eq((current.shift != 0) & ~held),
            rest.eq(held & last & ~beyond(current, flit_bytes=self.flit_bytes)),
            write.valid.eq(flight.o.valid & ~empty & ~begins & (moving.valid | rest)),
            moving.ready.eq(flight.o.valid & ~empty & (begins | (write.ready & ~rest))),
            write.payload.address.eq(current.sram_address + index),
            written.eq(write.valid & write.ready),
            beat.eq(moving.valid & moving.ready),
            flight.o.ready.eq(empty | (written & last)),
            self.fill.buffer.eq(current.buffer),
            self.fill.valid.eq(flight.o.valid & flight.o.ready & current.final),
            self.idle.eq(~queue.o.valid & ~flight.o.valid),
            whole.eq(
                Mux(
                    held,
                    Cat(before, moving.payload) >> (current.shift << 3),
                    moving.payload,
                )
            ),
            write.payload.data.eq(whole),
            self.fault.valid.eq(beat & self.failed),
            self.fault.collective.eq(current.collective),
            self.fault.status.eq(CompletionStatus.MEMORY_ERROR),
        ]
        with m.If(last & (current.last_bytes != self.flit_bytes)):
            m.d.comb += write.payload.data.eq(
                Cat(
                    Mux(
                        number < current.last_bytes,
                        whole.word_select(number, 8),
                        0,
                    )
                    for number in range(self.flit_bytes)
                )
            )
        with m.If(written):
            m.d.comb += self.read_bytes.eq(Mux(last, current.last_bytes, self.flit_bytes))
            m.d.sync += [
                index.eq(Mux(last, 0, following)),
                following.eq(Mux(last, 1, following + 1)),
            ]
        with m.If(beat):
            m.d.sync += before.eq(moving.payload)
        with m.If(written & last):
            m.d.sync += held.eq(0)
        with m.Elif(beat & begins):
            m.d.sync += held.eq(1)
        m.d.sync += outstanding.eq(
            Mux(taken, outstanding + beats - beat, outstanding - beat)  # known late, so last
        )
        return m

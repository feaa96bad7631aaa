"""RX DMA: SRAM to memory, the only writer of payload in memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import CollectiveMark, CollectiveQuery
from rtl.ace.layouts import Store, beyond
from rtl.ace.memory_port import ADDRESS_BITS, MemoryWriteSignature
from rtl.ace.scoreboard import BufferEvent, BufferQuery
from rtl.ace.sram import SramReadSignature
from rtl.ace.sram_reader import SramReader
from rtl.ace.status import CompletionStatus
from rtl.common.fifo import StreamFifo
from rtl.common.front_fifo import front_queue

__all__ = ["STORE_BUFFER", "RxDma"]

STORE_BUFFER = 8
"""Flits read from SRAM that memory has not taken, at most."""


class RxDma(wiring.Component):
    """Executes STORE records in order.

    A record with ``first`` waits until its buffer is filled. Flits are read from consecutive SRAM
    addresses and written with byte strobes: ``last_bytes`` of the last one. Where they begin within
    a flit of memory (``shift``), each beat is put together of two flits, and the record may take a
    beat more. A record with
    ``final`` releases its buffer when its last flit has been read from SRAM. A record with
    ``complete`` raises the completion when its writes, and so all before it, are acknowledged. A
    record of length zero, or of a collective that has been given up when it is reached, writes
    nothing and is over then.

    Parameters
    ----------
    flit_bytes, address_bits : of flits, and of the SRAM
    queue_depth : records that wait, and completions that wait for acknowledgements
    write_beats : flits read or written and not yet acknowledged

    Members
    -------
    store : In(stream of Store)
    read : Out(SramReadSignature)
    memory : Out(MemoryWriteSignature)
    filled : Out(BufferQuery)
    release : Out(BufferEvent)
    completion : Out(stream of collective id)
    idle : Out(1)
        No record is queued, no write unacknowledged, no completion waits.
    written_bytes : Out
        Payload bytes given to memory in this cycle.
    query : Out(CollectiveQuery)
    failed : In(1)
        The flit that ``memory.acknowledged`` counts was answered with an error.
    fault : Out(CollectiveMark)
        So it was.

    Notes
    -----
    A record given to the empty unit in cycle t reads its first flit in t + 1 and offers it to
    memory in t + 4. One flit per cycle, also from record to record, as long as ``write_beats``
    covers the memory's latency. A completion is offered 1 cycle after the last acknowledgement.
    """

    def __init__(self, *, flit_bytes: int, address_bits: int, queue_depth: int, write_beats: int):
        if not isinstance(write_beats, int) or write_beats < 1:
            raise ValueError(f"write_beats must be a positive integer, not {write_beats!r}")
        self.flit_bytes = flit_bytes
        self.address_bits = address_bits
        if not isinstance(queue_depth, int) or queue_depth < 1:
            raise ValueError(f"queue_depth must be a positive integer, not {queue_depth!r}")
        self.queue_depth = queue_depth
        self.write_beats = write_beats
        super().__init__(
            {
                "store": In(stream.Signature(Store)),
                "read": Out(SramReadSignature(address_bits=address_bits, flit_bytes=flit_bytes)),
                "memory": Out(MemoryWriteSignature(flit_bytes=flit_bytes)),
                "filled": Out(BufferQuery()),
                "release": Out(BufferEvent()),
                "completion": Out(stream.Signature(16)),
                "idle": Out(1),
                "written_bytes": Out(range(flit_bytes + 1)),
                "query": Out(CollectiveQuery()),
                "failed": In(1),
                "fault": Out(CollectiveMark()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = front_queue(shape=Store, depth=self.queue_depth)
        wiring.connect(m, wiring.flipped(self.store), queue.i)
        tag = data.StructLayout(
            {
                "address": ADDRESS_BITS,
                "begin": range(self.flit_bytes),
                "end": range(self.flit_bytes + 1),
                "shift": range(self.flit_bytes),
            }
        )
        m.submodules.reader = reader = SramReader(
            tag_shape=tag,
            depth=STORE_BUFFER,
            address_bits=self.address_bits,
            flit_bytes=self.flit_bytes,
        )
        wiring.connect(m, reader.port, wiring.flipped(self.read))

        # Flits are counted twice, modulo more than can be under way.
        serial = (2 * self.write_beats).bit_length() + 1
        issued = Signal(serial)
        acknowledged = Signal(serial)
        m.d.sync += acknowledged.eq(acknowledged + self.memory.acknowledged)

        # Read.
        record = queue.o.payload
        index = Signal(20)
        offered = Signal()  # a flit was offered to be read and not taken: it stays
        eligible = Signal()
        empty = Signal()
        last = Signal()
        read = Signal()
        over = Signal()
        ends = data.StructLayout({"collective": 16, "issued": serial})
        m.submodules.ends = waiting = StreamFifo(shape=ends, depth=self.queue_depth)
        token = reader.i.payload
        following = Signal(20, init=1)  # index + 1
        more = Signal()  # a flit of memory beyond those of SRAM
        end = Signal(range(2 * self.flit_bytes))  # of the last one, counted from where it is cut
        m.d.comb += [
            more.eq(beyond(record, flit_bytes=self.flit_bytes)),
            end.eq(record.shift + record.last_bytes - Mux(more, self.flit_bytes, 0)),
            self.filled.buffer.eq(record.buffer),
            self.filled.epoch.eq(record.epoch),
            eligible.eq(
                queue.o.valid
                & (~record.first | self.filled.ok)
                & (~record.complete | waiting.i.ready)
            ),
            self.query.collective.eq(record.collective),
            empty.eq((record.length == 0) | (self.query.void & (index == 0) & ~offered)),
            last.eq(Mux(more, index, following) == record.length),
            reader.i.valid.eq(
                eligible & ~empty & ((issued - acknowledged)[:serial] < self.write_beats)
            ),
            token.read.eq(index < record.length),
            token.address.eq(record.sram_address + index),
            token.tag.address.eq(record.memory_address + index),
            token.tag.begin.eq(Mux(index == 0, record.shift, 0)),
            token.tag.end.eq(Mux(last, end, self.flit_bytes)),
            token.tag.shift.eq(record.shift),
            read.eq(reader.i.valid & reader.i.ready),
            over.eq((eligible & empty) | (read & last)),
            queue.o.ready.eq(over),
            self.release.buffer.eq(record.buffer),
            self.release.valid.eq(over & record.final),
            waiting.i.valid.eq(over & record.complete),
            waiting.i.payload.collective.eq(record.collective),
            waiting.i.payload.issued.eq(issued + read),
        ]
        m.d.sync += offered.eq(reader.i.valid & ~reader.i.ready)
        with m.If(read):
            m.d.sync += [
                issued.eq(issued + 1),
                index.eq(Mux(last, 0, following)),
                following.eq(Mux(last, 1, following + 1)),
            ]

        # Whose flits are under way: one entry for each.
        m.submodules.owners = owners = StreamFifo(shape=16, depth=self.write_beats)
        m.d.comb += [
            owners.i.valid.eq(read),
            owners.i.payload.eq(record.collective),
            owners.o.ready.eq(self.memory.acknowledged),
            self.fault.valid.eq(self.memory.acknowledged & self.failed),
            self.fault.collective.eq(owners.o.payload),
            self.fault.status.eq(CompletionStatus.MEMORY_ERROR),
        ]

        # Write.
        request = self.memory.request
        result = reader.o.payload
        before = Signal(8 * self.flit_bytes)
        both = Signal(16 * self.flit_bytes)  # the last two flits, moved up
        m.d.comb += [
            both.eq(Cat(before, result.data) << (result.tag.shift << 3)),
            request.valid.eq(reader.o.valid),
            reader.o.ready.eq(request.ready),
            request.payload.address.eq(result.tag.address),
            request.payload.data.eq(both[8 * self.flit_bytes :]),
            request.payload.strobe.eq(
                Cat(
                    (result.tag.begin <= number) & (result.tag.end > number)
                    for number in range(self.flit_bytes)
                )
            ),
        ]
        with m.If(request.valid & request.ready):
            m.d.comb += self.written_bytes.eq(result.tag.end - result.tag.begin)
            m.d.sync += before.eq(result.data)

        # Complete.
        behind = Signal(serial)
        m.d.comb += [
            behind.eq(acknowledged - waiting.o.payload.issued),
            self.completion.valid.eq(waiting.o.valid & ~behind[-1]),
            self.completion.payload.eq(waiting.o.payload.collective),
            waiting.o.ready.eq(self.completion.valid & self.completion.ready),
            self.idle.eq(~queue.o.valid & (issued == acknowledged) & ~waiting.o.valid),
        ]
        return m

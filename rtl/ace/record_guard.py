"""Checks every record before it reaches its unit."""

from amaranth.hdl import Cat, Const, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import STATUS_BITS, CollectiveMark
from rtl.ace.descriptor_fetch import RECORD_BITS
from rtl.ace.layouts import (
    Begin,
    CollectiveKind,
    Load,
    Op,
    Program,
    RecordKind,
    Store,
    beyond,
)
from rtl.ace.parameters import AceParameters
from rtl.ace.regions import Regions, behind_limits, covered
from rtl.ace.status import CompletionStatus
from rtl.common.packet import DataType, TrafficClass

__all__ = ["RecordGuard"]

_ELEMENT_BYTES = {DataType.FP16: 2, DataType.BF16: 2, DataType.FP32: 4, DataType.INT32: 4}


class RecordGuard(wiring.Component):
    """Lets records through, disarms those that must not be, and opens collectives.

    BEGIN is taken here: what is wrong with the collective as a whole is its status from the start.
    A LOAD or STORE outside the regions goes on with length zero, so that its buffer is passed on
    all the same; a step beyond the program memory is dropped; an op that the engine cannot do goes
    on, and one whose ports have other send steps than it says goes on with theirs. Each marks its
    collective.

    Parameters
    ----------
    parameters : of the engine
    traffic_class : the only one that its collectives may have; None: any of data

    Members
    -------
    regions : In(Regions)
    i : In(stream of 256 bits)
    o : Out(stream of 256 bits)
    begin : Out(stream of {collective, status})
    mark : Out(CollectiveMark)
    refused : Out(1)
        A record of this cycle was disarmed or dropped.

    Notes
    -----
    No latency. BEGIN waits until the table takes the collective.
    """

    def __init__(self, *, parameters: AceParameters, traffic_class: TrafficClass | None = None):
        self.parameters = parameters
        self.traffic_class = traffic_class
        record = stream.Signature(unsigned(RECORD_BITS))
        begin = data.StructLayout({"collective": 16, "status": STATUS_BITS})
        super().__init__(
            {
                "regions": In(Regions(parameters.regions)),
                "i": In(record),
                "o": Out(record),
                "begin": Out(stream.Signature(begin)),
                "mark": Out(CollectiveMark()),
                "refused": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self.behind = behind_limits(m, self.regions)
        word = self.i.payload
        status = Signal(STATUS_BITS)  # what is wrong with this record
        wrong = Signal()
        taken = Signal()
        current = Signal(16)  # begun last; PROGRAM records name no collective
        m.d.comb += [
            wrong.eq(status != CompletionStatus.OK),
            taken.eq(self.i.valid & self.i.ready),
            self.o.valid.eq(self.i.valid),
            self.o.payload.eq(word),
            self.i.ready.eq(self.o.ready),
            self.mark.status.eq(status),
            self.begin.payload.status.eq(status),
            # Of any record: whether an entry has that id already is known late.
            self.begin.payload.collective.eq(_view(Begin, word).collective),
            self.mark.valid.eq(taken & wrong & ~self.begin.valid),
            self.refused.eq(self.mark.valid & (word[:4] != RecordKind.OP)),
        ]
        with m.Switch(word[:4]):
            with m.Case(RecordKind.BEGIN):
                record = _view(Begin, word)
                self._check_begin(m, record, status)
                m.d.comb += [
                    self.begin.valid.eq(self.i.valid),
                    self.o.valid.eq(0),
                    self.i.ready.eq(self.begin.ready),
                ]
                with m.If(taken):
                    m.d.sync += current.eq(record.collective)
            for kind, layout in ((RecordKind.LOAD, Load), (RecordKind.STORE, Store)):
                with m.Case(kind):
                    record = _view(layout, word)
                    self._check_access(m, record, status, write=layout is Store)
                    m.d.comb += self.mark.collective.eq(record.collective)
                    with m.If(wrong):
                        m.d.comb += _view(layout, self.o.payload).length.eq(0)
            with m.Case(RecordKind.OP):
                record = _view(Op, word)
                self._check_op(m, record, status)
                m.d.comb += self.mark.collective.eq(record.collective)
            with m.Case(RecordKind.PROGRAM):
                m.d.comb += self.mark.collective.eq(current)
                with m.If(_view(Program, word).index >= self.parameters.program_steps):
                    m.d.comb += [
                        status.eq(CompletionStatus.PLAN_ERROR),
                        self.o.valid.eq(0),
                        self.i.ready.eq(1),
                    ]
        return m

    def _check_begin(self, m, record, status):
        p = self.parameters
        flit_bytes = p.flit_bytes
        ranges = []
        uneven = Signal()
        for name, write in (("source", False), ("result", True)):
            size = record[f"{name}_bytes"]
            whole = flit_bytes.bit_length() - 1
            ranges.append(
                covered(
                    m,
                    self.regions,
                    self.behind,
                    first=record[name],
                    flits=size[whole:],
                    more=size[:whole].any(),
                    write=write,
                    name=name,
                )
            )
        with m.Switch(record.data_type):
            for data_type, element in _ELEMENT_BYTES.items():
                with m.Case(data_type):
                    m.d.comb += uneven.eq(
                        ((record.source_bytes | record.result_bytes) & (element - 1)) != 0
                    )
        # In rising order of rank: what stands last counts.
        with m.If(record.program_steps > p.program_steps):
            m.d.comb += status.eq(CompletionStatus.PLAN_ERROR)
        with m.If(~(ranges[0] & ranges[1])):
            m.d.comb += status.eq(CompletionStatus.ADDRESS_ERROR)
        with m.If(uneven):
            m.d.comb += status.eq(CompletionStatus.SIZE_ERROR)
        with m.If(~_among(record.data_type, p.data_types)):
            m.d.comb += status.eq(CompletionStatus.TYPE_ERROR)
        with m.If(
            (record.operation > max(CollectiveKind))
            | ~_among(record.operator, p.operators)
            | self._foreign(record.traffic_class)
        ):
            m.d.comb += status.eq(CompletionStatus.OPERATION_ERROR)

    def _check_access(self, m, record, status, *, write):
        name = "store" if write else "load"
        inside = covered(
            m,
            self.regions,
            self.behind,
            first=record.memory_address,
            flits=record.length,
            more=beyond(record, flit_bytes=self.parameters.flit_bytes) & (record.length != 0),
            write=write,
            name=name,
        )
        with m.If((record.sram_address + record.length) > self.parameters.sram_flits):
            m.d.comb += status.eq(CompletionStatus.PLAN_ERROR)
        with m.If(~inside):
            m.d.comb += status.eq(CompletionStatus.ADDRESS_ERROR)

    def _check_op(self, m, record, status):
        p = self.parameters
        beyond = [
            (record[f"{side}_program"] + record[f"{side}_count"]) > p.program_steps
            for side in ("tx", "rx")
        ]
        beyond += [record[f"{side}_address"] >= p.sram_flits for side in ("source", "destination")]
        with m.If(Cat(beyond).any() | self._contradicts(m, record)):
            m.d.comb += status.eq(CompletionStatus.PLAN_ERROR)
        with m.If(~_among(record.data_type, p.data_types)):
            m.d.comb += status.eq(CompletionStatus.TYPE_ERROR)
        foreign = self._foreign(record.traffic_class) if self.traffic_class is not None else 0
        with m.If(~_among(record.operator, p.operators) | foreign):
            m.d.comb += status.eq(CompletionStatus.OPERATION_ERROR)

    def _contradicts(self, m, record):
        """Whether an op on a dim of several ports says another number of send steps than its ports
        have; that of the ports goes on, so that it ends when they have sent all, and none where
        they have more than a context can count."""
        differs = Signal()
        passed = _view(Op, self.o.payload)
        for number, dim in enumerate(self.parameters.dims):
            if dim.ports > 1:
                counts = [record.port_counts[port] for port in range(dim.ports)]
                steps = sum(counts)
                with m.If((record.dim == number) & (steps != record.tx_count)):
                    m.d.comb += [differs.eq(1), passed.tx_count.eq(steps)]
                    with m.If(steps >> len(record.tx_count) != 0):
                        m.d.comb += [passed.tx_count.eq(0), passed.port_counts.eq(0)]
        return differs

    def _foreign(self, traffic_class):
        """Whether it is no class of the lane."""
        if self.traffic_class is None:
            return traffic_class == TrafficClass.CONTROL
        return traffic_class != self.traffic_class


def _view(layout, word):
    """The record in the low bits of ``word``."""
    return data.View(layout, word[: layout.as_shape().size])


def _among(code, codes):
    """Whether ``code`` is one of ``codes``."""
    mask = sum(1 << known for known in codes)
    return (Const(mask, 1 << len(code)) >> code)[0]

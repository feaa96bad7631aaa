"""Command unit: hands every record of a descriptor to the unit it is for, in order."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.descriptor_fetch import RECORD_BITS
from rtl.ace.layouts import Load, Op, Program, RecordKind, RxStep, Store, TxStep
from rtl.ace.program_write import ProgramWrite

__all__ = ["CommandUnit"]


class CommandUnit(wiring.Component):
    """Dispatches records in order; a record that finds its queue full holds those behind it.

    Records come in the planner's execution order, so the globally oldest op that has not started
    is always at the head of its queue (docs/ace.md, *Order and deadlock*).

    Parameters
    ----------
    dims : number of dims

    Members
    -------
    record : In(stream of 256 bits)
    load : Out(stream of Load)
    store : Out(stream of Store)
    op : Out(stream of Op) × dims
    tx_program, rx_program : Out(ProgramWrite) × dims
    units_idle : In(1)
        All units that take records are idle; lets FENCE pass.
    refused : Out(1)
        The record of this cycle has an unknown kind or names a dim that is not there; it is
        dropped.

    Notes
    -----
    No latency: a record is in its queue, or its program step written, at the end of the cycle
    in which it is offered. One record per cycle. FENCE is looked at one cycle later than offered,
    so that a record taken just before it has reached its unit.
    """

    def __init__(self, *, dims: int):
        if not isinstance(dims, int) or not 1 <= dims <= 15:
            raise ValueError(f"dims must be an integer in 1..15, not {dims!r}")
        self.dims = dims
        super().__init__(
            {
                "record": In(stream.Signature(unsigned(RECORD_BITS))),
                "load": Out(stream.Signature(Load)),
                "store": Out(stream.Signature(Store)),
                "op": Out(stream.Signature(Op)).array(dims),
                "tx_program": Out(ProgramWrite(step=TxStep)).array(dims),
                "rx_program": Out(ProgramWrite(step=RxStep)).array(dims),
                "units_idle": In(1),
                "refused": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        word = self.record.payload

        def view(layout):
            return data.View(layout, word[: layout.as_shape().size])

        kind = word[:4]
        program = view(Program)
        waited = Signal()
        m.d.sync += waited.eq(self.record.valid & ~self.record.ready)
        m.d.comb += [
            self.load.payload.eq(view(Load)),
            self.store.payload.eq(view(Store)),
        ]
        with m.Switch(kind):
            with m.Case(RecordKind.LOAD):
                m.d.comb += [
                    self.load.valid.eq(self.record.valid),
                    self.record.ready.eq(self.load.ready),
                ]
            with m.Case(RecordKind.STORE):
                m.d.comb += [
                    self.store.valid.eq(self.record.valid),
                    self.record.ready.eq(self.store.ready),
                ]
            with m.Case(RecordKind.OP, RecordKind.PROGRAM):
                m.d.comb += [self.record.ready.eq(1), self.refused.eq(self.record.valid)]
                for dim in range(self.dims):
                    with m.If(program.dim == dim):
                        m.d.comb += self.refused.eq(0)
                        with m.If(kind == RecordKind.OP):
                            m.d.comb += [
                                self.op[dim].valid.eq(self.record.valid),
                                self.record.ready.eq(self.op[dim].ready),
                            ]
                        with m.Else():
                            m.d.comb += [
                                self.tx_program[dim].valid.eq(self.record.valid & ~program.receive),
                                self.rx_program[dim].valid.eq(self.record.valid & program.receive),
                            ]
            with m.Case(RecordKind.FENCE):
                m.d.comb += self.record.ready.eq(waited & self.units_idle)
            with m.Default():
                m.d.comb += [self.record.ready.eq(1), self.refused.eq(self.record.valid)]
        for dim in range(self.dims):
            m.d.comb += [
                self.op[dim].payload.eq(view(Op)),
                self.tx_program[dim].port.eq(program.port),
                self.rx_program[dim].port.eq(program.port),
                self.tx_program[dim].index.eq(program.index),
                self.tx_program[dim].step.eq(program.step),
                self.rx_program[dim].index.eq(program.index),
                self.rx_program[dim].step.eq(program.step),
            ]
        return m

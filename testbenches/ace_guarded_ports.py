"""A dim engine of several ports behind the guard of its records, for a bench of what ops say."""

from amaranth.hdl import Module, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import CollectiveMark
from rtl.ace.descriptor_fetch import RECORD_BITS
from rtl.ace.dim_engine import DimEngine
from rtl.ace.layouts import Op
from rtl.ace.parameters import AceParameters
from rtl.ace.record_guard import RecordGuard

__all__ = ["GuardedPorts"]


class GuardedPorts(wiring.Component):
    """Ops through the guard to the engine of dim 0; nothing is restricted.

    Members
    -------
    record : In(stream of 256 bits)
        OP records only.
    found : Out(CollectiveMark)
        What the guard finds.

    and those of :class:`DimEngine` but ``op``.
    """

    def __init__(self, *, parameters: AceParameters):
        self.guard = RecordGuard(parameters=parameters)
        self.engine = DimEngine(parameters=parameters, dim=0)
        engine = {k: v for k, v in self.engine.signature.members.items() if k != "op"}
        record = In(stream.Signature(unsigned(RECORD_BITS)))
        super().__init__({"record": record, "found": Out(CollectiveMark())} | engine)

    def elaborate(self, platform):
        m = Module()
        m.submodules.guard = guard = self.guard
        m.submodules.engine = engine = self.engine
        wiring.connect(m, wiring.flipped(self.record), guard.i)
        wiring.connect(m, guard.mark, wiring.flipped(self.found))
        m.d.comb += [
            engine.op.valid.eq(guard.o.valid),
            guard.o.ready.eq(engine.op.ready),
            engine.op.payload.as_value().eq(guard.o.payload[: Op.as_shape().size]),
        ]
        for name, member in engine.signature.members.items():
            if name == "op":
                continue
            places = range(member.dimensions[0]) if member.dimensions else (None,)
            for place in places:
                inner, outer = getattr(engine, name), getattr(self, name)
                if place is not None:
                    inner, outer = inner[place], outer[place]
                if member.is_port:
                    pair = (outer, inner) if member.flow == Out else (inner, outer)
                    m.d.comb += pair[0].eq(pair[1])
                else:
                    wiring.connect(m, inner, wiring.flipped(outer))
        return m

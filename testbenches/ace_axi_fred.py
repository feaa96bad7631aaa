"""Engines on AXI around a FRED switch, for test benches."""

from fractions import Fraction

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.parameters import AceParameters
from rtl.axi.endpoint import AceAxi
from rtl.axi.parameters import AxiParameters
from rtl.fred.switch import FredSwitch
from rtl.link.receiver import LinkReceiver
from rtl.link.transmitter import LinkTransmitter
from sw_model.fred.table import entry_bits

__all__ = ["AceAxiFred"]


class AceAxiFred(wiring.Component):
    """``ranks`` engines whose only dim leads to one switch, by links of one cycle.

    Parameters
    ----------
    ranks : ports of the switch
    parameters, axi : of each engine

    Members
    -------
    r<i> : Out
        Registers, memory and interrupt of an engine.
    entry, write : In
        While ``write`` is high, ``entry`` goes to index 0 of the configuration memory.
    error : Out(1)
        Of the switch.
    """

    def __init__(self, *, ranks: int, parameters: AceParameters, axi: AxiParameters):
        self.parameters = parameters
        self._engines = [AceAxi(parameters=parameters, axi=axi) for _ in range(ranks)]
        members = self._engines[0].signature.members
        shown = wiring.Signature({name: members[name] for name in ("s_axi", "m_axi", "irq")})
        depth = parameters.dims[0].depth
        self._switch = FredSwitch(
            ports=ranks,
            middle_copies=3,
            flit_bytes=parameters.flit_bytes,
            packet_bytes=parameters.packet_bytes,
            data_types=parameters.data_types,
            operators=parameters.operators,
            adder_depth=parameters.adder_depth,
            configurations=1,
            input_depth=depth,
            output_credits=depth,
        )
        super().__init__(
            {
                **{f"r{rank}": Out(shown) for rank in range(ranks)},
                "entry": In(entry_bits(ranks, 3)),
                "write": In(1),
                "error": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        flit_bytes = self.parameters.flit_bytes
        depth = self.parameters.dims[0].depth
        m.submodules.switch = switch = self._switch
        for rank, engine in enumerate(self._engines):
            transmitter = LinkTransmitter(flit_bytes=flit_bytes, credits=depth, rate=Fraction(1))
            receiver = LinkReceiver(flit_bytes=flit_bytes, depth=depth)
            m.submodules[f"rank_{rank}"] = engine
            m.submodules[f"transmitter_{rank}"] = transmitter
            m.submodules[f"receiver_{rank}"] = receiver
            shown = getattr(self, f"r{rank}")
            m.d.comb += shown.irq.eq(engine.irq)
            for name in ("s_axi", "m_axi"):
                wiring.connect(m, getattr(engine, name), wiring.flipped(getattr(shown, name)))
            wiring.connect(m, transmitter.o, switch.i[rank])
            wiring.connect(m, switch.o[rank], receiver.i)
            out, back = engine.m_axis_0, engine.s_axis_0
            m.d.comb += [
                transmitter.i.valid.eq(out.tvalid),
                transmitter.i.payload.data.eq(out.tdata),
                transmitter.i.payload.head.eq(out.tuser),
                transmitter.i.payload.last.eq(out.tlast),
                out.tready.eq(transmitter.i.ready),
                back.tvalid.eq(receiver.o.valid),
                back.tdata.eq(receiver.o.payload.data),
                back.tuser.eq(receiver.o.payload.head),
                back.tlast.eq(receiver.o.payload.last),
                receiver.o.ready.eq(back.tready),
            ]
        m.d.comb += [
            switch.configure.valid.eq(self.write),
            switch.configure.payload.entry.eq(self.entry),
            self.error.eq(switch.error),
        ]
        return m

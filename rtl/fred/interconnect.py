"""FRED_m(P), the bare interconnect: micro-switches and wires, no buffers, no flow control."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.arith.reduce import check_depth
from rtl.common.packet import DataType, Operator
from rtl.fred.micro_switch import (
    Demultiplexer,
    DistributeSwitch,
    Multiplexer,
    ReduceDistributeSwitch,
    ReduceSwitch,
    lane_layout,
)
from rtl.fred.modes import check_size, modes_layout

__all__ = ["FredInterconnect"]


class FredInterconnect(wiring.Component):
    """FRED_m(P) as a pipeline without back-pressure.

    P = 2r: r R switches, m copies of FRED_m(r), r D switches. P = 2r + 1: the same around m
    copies of FRED_m(r + 1), with a demultiplexer and a multiplexer at the last port. FRED_m(2) is
    one RD switch. (FRED, ISCA 2025; FRED_m(3) by the odd rule is decided here.)

    Every flit that goes in at cycle t comes out at cycle t + ``latency``, where
    ``latency = ceil(log2 P) * (adder_depth + 2) - 1``: ``adder_depth + 1`` cycles for each R and
    RD stage and one for each D stage. One flit per port and cycle; nothing ever waits. The modes
    of cycle t hold for the flits of cycle t, on their whole way, so two configurations follow
    each other without a gap.

    Parameters
    ----------
    ports, middle_copies : P (2 to 64) and m (at least 2)
    flit_bytes : bytes of a flit
    data_types, operators : what the adders can do
    adder_depth : register levels of an adder, 1 to 6

    Members
    -------
    i : In(lane).array(P)
    modes : In(modes_layout(P, m)), taken with ``i``
    o : Out(lane).array(P)

    Raises
    ------
    ValueError
        for a size that is not a FRED switch, and as ``ReduceFlit`` does.
    """

    def __init__(
        self,
        *,
        ports: int,
        middle_copies: int,
        flit_bytes: int,
        data_types: frozenset[DataType],
        operators: frozenset[Operator],
        adder_depth: int,
    ):
        check_size(ports, middle_copies)
        self.ports = ports
        self.middle_copies = middle_copies
        self.flit_bytes = flit_bytes
        self.data_types = frozenset(data_types)
        self.operators = frozenset(operators)
        self.adder_depth = check_depth(adder_depth, "adder_depth")
        lane = lane_layout(flit_bytes)
        super().__init__(
            {
                "i": In(lane).array(ports),
                "modes": In(modes_layout(ports, middle_copies)),
                "o": Out(lane).array(ports),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from ``i`` to ``o``, on every way."""
        return (self.ports - 1).bit_length() * (self.adder_depth + 2) - 1

    def elaborate(self, platform) -> Module:
        m = Module()
        adder = {
            "flit_bytes": self.flit_bytes,
            "data_types": self.data_types,
            "operators": self.operators,
            "adder_depth": self.adder_depth,
        }
        if self.ports == 2:
            m.submodules.centre = centre = ReduceDistributeSwitch(**adder)
            m.d.comb += [
                *(centre.i[k].eq(self.i[k]) for k in range(2)),
                centre.mode.eq(self.modes.centre),
                *(self.o[k].eq(centre.o[k]) for k in range(2)),
            ]
            return m

        pairs, odd = divmod(self.ports, 2)
        size = {"middle_copies": self.middle_copies, "flit_bytes": self.flit_bytes}
        middle = []
        for copy in range(self.middle_copies):
            inner = FredInterconnect(ports=pairs + odd, middle_copies=self.middle_copies, **adder)
            m.submodules[f"middle_{copy}"] = inner
            middle.append(inner)

        inputs = [ReduceSwitch(middle_copies=self.middle_copies, **adder) for _ in range(pairs)]
        outputs = [DistributeSwitch(**size) for _ in range(pairs)]
        edge_latency = self.adder_depth + 1
        later = delayed(m, self.modes.middle, edge_latency, "middle_modes")
        m.d.comb += [inner.modes.eq(later[copy]) for copy, inner in enumerate(middle)]
        last = delayed(m, self.modes.outputs, self.latency - 1, "output_modes")

        for k, (reduce, distribute) in enumerate(zip(inputs, outputs, strict=True)):
            m.submodules[f"reduce_{k}"] = reduce
            m.submodules[f"distribute_{k}"] = distribute
            m.d.comb += [reduce.mode.eq(self.modes.inputs[k]), distribute.mode.eq(last[k])]
            for side in range(2):
                m.d.comb += [
                    reduce.i[side].eq(self.i[2 * k + side]),
                    self.o[2 * k + side].eq(distribute.o[side]),
                ]
            for copy, inner in enumerate(middle):
                m.d.comb += [inner.i[k].eq(reduce.o[copy]), distribute.i[copy].eq(inner.o[k])]

        if odd:
            m.submodules.demultiplexer = demultiplexer = Demultiplexer(
                adder_depth=self.adder_depth, **size
            )
            m.submodules.multiplexer = multiplexer = Multiplexer(**size)
            m.d.comb += [
                demultiplexer.i.eq(self.i[-1]),
                demultiplexer.mode.eq(self.modes.last_input),
                multiplexer.mode.eq(
                    delayed(m, self.modes.last_output, self.latency - 1, "last_output_mode")
                ),
                self.o[-1].eq(multiplexer.o),
            ]
            for copy, inner in enumerate(middle):
                m.d.comb += [
                    inner.i[pairs].eq(demultiplexer.o[copy]),
                    multiplexer.i[copy].eq(inner.o[pairs]),
                ]
        return m


def delayed(m: Module, value, cycles: int, name: str):
    """``value`` some cycles later."""
    for level in range(cycles):
        register = Signal(value.shape(), name=f"{name}_{level + 1}")
        m.d.sync += Value.cast(register).eq(Value.cast(value))
        value = register
    return value

"""The 2 x 2 micro-switches R, D and RD, and the odd port's demultiplexer and multiplexer.

All are pipeline stages without back-pressure: what goes in at cycle t comes out at cycle
t + latency, in every mode, so that all ways through an interconnect take equally long. A mode is
taken with the flits of its cycle.

The hardware of a header is that of data, but for the sum: where two flits are reduced, a header
passes as it came in on side 0, poisoned if either is. (The switch has checked that both headers
agree in everything else.)
"""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from rtl.arith.formats import DATA_TYPE_BITS, OPERATOR_BITS
from rtl.arith.reduce import ReduceFlit
from rtl.common.packet import POISONED_BIT, DataType, Operator, flit_layout
from rtl.fred.modes import CentreMode, check_size, edge_mode, way_shape

__all__ = [
    "Demultiplexer",
    "DistributeSwitch",
    "Multiplexer",
    "ReduceDistributeSwitch",
    "ReduceSwitch",
    "lane_layout",
]


def lane_layout(flit_bytes: int) -> data.StructLayout:
    """What moves on one wire of an interconnect in one cycle.

    Members
    -------
    valid : there is a flit
    flit : the flit
    data_type, operator : how its flow is reduced
    """
    return data.StructLayout(
        {
            "valid": 1,
            "flit": flit_layout(flit_bytes),
            "data_type": unsigned(DATA_TYPE_BITS),
            "operator": unsigned(OPERATOR_BITS),
        }
    )


class _Source(enum.Enum, shape=2):
    """What an output of a reducing switch takes."""

    NONE = 0
    SIDE_0 = 1
    SIDE_1 = 2
    SUM = 3


class _ReducingSwitch(wiring.Component):
    """Base of R and RD: one adder, two ways around it, and a register at each output."""

    def __init__(
        self,
        mode,
        outputs: int,
        *,
        flit_bytes: int,
        data_types: frozenset[DataType],
        operators: frozenset[Operator],
        adder_depth: int,
    ):
        self.flit_bytes = flit_bytes
        self.data_types = frozenset(data_types)
        self.operators = frozenset(operators)
        self.adder_depth = adder_depth
        lane = lane_layout(flit_bytes)
        super().__init__(
            {
                "i": In(lane).array(2),
                "mode": In(mode),
                "o": Out(lane).array(outputs),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from ``i`` to ``o``: the adder's and the output register's."""
        return self.adder_depth + 1

    def _sources(self, m: Module) -> list[Signal]:
        """For every output what it takes, from ``mode``."""
        raise NotImplementedError

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.adder = adder = ReduceFlit(
            flit_bytes=self.flit_bytes,
            data_types=self.data_types,
            operators=self.operators,
            depth=self.adder_depth,
        )
        sources = self._sources(m)
        reduces = Cat(source == _Source.SUM for source in sources).any()
        first, second = self.i
        m.d.comb += [
            adder.a.eq(first.flit.data),
            adder.b.eq(second.flit.data),
            adder.data_type.eq(first.data_type),
            adder.operator.eq(first.operator),
            adder.valid.eq(first.valid & second.valid & ~first.flit.head & reduces),
        ]
        around = [
            delayed_lane(m, lane, self.adder_depth, f"around_{side}")
            for side, lane in enumerate(self.i)
        ]
        for index, (output, source) in enumerate(zip(self.o, sources, strict=True)):
            chosen = source
            for level in range(self.adder_depth):
                register = Signal(_Source, name=f"source_{index}_{level + 1}")
                m.d.sync += register.eq(chosen)
                chosen = register
            taken = Signal.like(output, name=f"output_{index}")
            m.d.comb += output.eq(taken)
            m.d.sync += taken.valid.eq(0)
            with m.Switch(chosen):
                for value, lane in ((_Source.SIDE_0, around[0]), (_Source.SIDE_1, around[1])):
                    with m.Case(value):
                        with m.If(lane.valid):
                            m.d.sync += taken.eq(lane)
                with m.Case(_Source.SUM):
                    with m.If(around[0].valid & around[1].valid):
                        m.d.sync += taken.eq(around[0])
                        with m.If(around[0].flit.head):
                            poisoned = [lane.flit.data[POISONED_BIT] for lane in around]
                            m.d.sync += taken.flit.data[POISONED_BIT].eq(Cat(poisoned).any())
                        with m.Else():
                            m.d.sync += taken.flit.data.eq(adder.o)
        return m


class ReduceSwitch(_ReducingSwitch):
    """R, at the input edge: each side takes one of m ways; both on one way are reduced.

    Latency ``adder_depth + 1`` cycles, one flit per side and cycle. (FRED, ISCA 2025.)

    Parameters
    ----------
    middle_copies : m, ways to the middle
    flit_bytes, data_types, operators : as :class:`~rtl.arith.reduce.ReduceFlit`
    adder_depth : register levels of the adder

    Members
    -------
    i : In(lane).array(2)
    mode : In(edge mode), taken with ``i``
    o : Out(lane).array(m)
    """

    def __init__(self, *, middle_copies: int, **adder):
        check_size(2, middle_copies)
        self.middle_copies = middle_copies
        super().__init__(edge_mode(middle_copies), middle_copies, **adder)

    def _sources(self, m: Module) -> list[Signal]:
        sources = []
        for way in range(self.middle_copies):
            source = Signal(_Source, name=f"source_{way}")
            m.d.comb += source.eq(Cat(side == way + 1 for side in self.mode))
            sources.append(source)
        return sources


class ReduceDistributeSwitch(_ReducingSwitch):
    """RD, the centre, all of FRED_m(2): straight, cross, reduce, broadcast, and both at once.

    Latency ``adder_depth + 1`` cycles, one flit per side and cycle. (FRED, ISCA 2025.)

    Parameters
    ----------
    flit_bytes, data_types, operators : as :class:`~rtl.arith.reduce.ReduceFlit`
    adder_depth : register levels of the adder

    Members
    -------
    i : In(lane).array(2)
    mode : In(CentreMode), taken with ``i``
    o : Out(lane).array(2)
    """

    def __init__(self, **adder):
        super().__init__(CentreMode, 2, **adder)

    def _sources(self, m: Module) -> list[Signal]:
        sources = [Signal(_Source, name=f"source_{output}") for output in range(2)]
        none, first, second, both = _Source
        table = {
            CentreMode.STRAIGHT: (first, second),
            CentreMode.CROSS: (second, first),
            CentreMode.ADD_0: (both, none),
            CentreMode.ADD_1: (none, both),
            CentreMode.ADD_BOTH: (both, both),
            CentreMode.BROADCAST_0: (first, first),
            CentreMode.BROADCAST_1: (second, second),
            CentreMode.ONLY_0_TO_0: (first, none),
            CentreMode.ONLY_0_TO_1: (none, first),
            CentreMode.ONLY_1_TO_0: (second, none),
            CentreMode.ONLY_1_TO_1: (none, second),
        }
        with m.Switch(self.mode):
            for mode, values in table.items():
                with m.Case(mode):
                    m.d.comb += [s.eq(v) for s, v in zip(sources, values, strict=True)]
        return sources


class DistributeSwitch(wiring.Component):
    """D, at the output edge: each side hears one of m ways; both may hear the same.

    Latency one cycle, one flit per side and cycle. (FRED, ISCA 2025.)

    Parameters
    ----------
    middle_copies : m, ways from the middle
    flit_bytes : bytes of a flit

    Members
    -------
    i : In(lane).array(m)
    mode : In(edge mode), taken with ``i``
    o : Out(lane).array(2)
    """

    latency = 1

    def __init__(self, *, middle_copies: int, flit_bytes: int):
        check_size(2, middle_copies)
        self.middle_copies = middle_copies
        self.flit_bytes = flit_bytes
        lane = lane_layout(flit_bytes)
        super().__init__(
            {
                "i": In(lane).array(middle_copies),
                "mode": In(edge_mode(middle_copies)),
                "o": Out(lane).array(2),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        for side, output in enumerate(self.o):
            _hear(m, self.i, self.mode[side], output, f"output_{side}")
        return m


class Demultiplexer(wiring.Component):
    """The input end of an odd port: the port takes one of m ways.

    Latency ``adder_depth + 1`` cycles, that of the R switches beside it.

    Parameters
    ----------
    middle_copies, flit_bytes, adder_depth : as the R switches beside it

    Members
    -------
    i : In(lane)
    mode : In(way), taken with ``i``
    o : Out(lane).array(m)
    """

    def __init__(self, *, middle_copies: int, flit_bytes: int, adder_depth: int):
        check_size(2, middle_copies)
        self.middle_copies = middle_copies
        self.flit_bytes = flit_bytes
        self.adder_depth = adder_depth
        lane = lane_layout(flit_bytes)
        super().__init__(
            {
                "i": In(lane),
                "mode": In(way_shape(middle_copies)),
                "o": Out(lane).array(middle_copies),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from ``i`` to ``o``."""
        return self.adder_depth + 1

    def elaborate(self, platform) -> Module:
        m = Module()
        lane = delayed_lane(m, self.i, self.adder_depth, "around")
        mode = self.mode
        for level in range(self.adder_depth):
            register = Signal.like(mode, name=f"mode_{level + 1}")
            m.d.sync += register.eq(mode)
            mode = register
        for way, output in enumerate(self.o):
            taken = Signal.like(output, name=f"output_{way}")
            m.d.comb += output.eq(taken)
            m.d.sync += taken.valid.eq(0)
            with m.If(lane.valid & (mode == way + 1)):
                m.d.sync += taken.eq(lane)
        return m


class Multiplexer(wiring.Component):
    """The output end of an odd port: the port hears one of m ways. Latency one cycle.

    Parameters
    ----------
    middle_copies, flit_bytes : as the D switches beside it

    Members
    -------
    i : In(lane).array(m)
    mode : In(way), taken with ``i``
    o : Out(lane)
    """

    latency = 1

    def __init__(self, *, middle_copies: int, flit_bytes: int):
        check_size(2, middle_copies)
        self.middle_copies = middle_copies
        self.flit_bytes = flit_bytes
        lane = lane_layout(flit_bytes)
        super().__init__(
            {
                "i": In(lane).array(middle_copies),
                "mode": In(way_shape(middle_copies)),
                "o": Out(lane),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        _hear(m, self.i, self.mode, self.o, "output")
        return m


def delayed_lane(m: Module, lane: data.View, cycles: int, name: str) -> data.View:
    """``lane`` some cycles later; its registers take only valid flits, so idle ones rest."""
    for level in range(cycles):
        register = Signal.like(lane, name=f"{name}_{level + 1}")
        m.d.sync += register.valid.eq(lane.valid)
        with m.If(lane.valid):
            m.d.sync += register.eq(lane)
        lane = register
    return lane


def _hear(m: Module, ways, mode, output: data.View, name: str) -> None:
    """Register at ``output`` the flit of the way that ``mode`` names."""
    taken = Signal.like(output, name=name)
    m.d.comb += output.eq(taken)
    m.d.sync += taken.valid.eq(0)
    with m.Switch(mode):
        for way, lane in enumerate(ways):
            with m.Case(way + 1):
                with m.If(lane.valid):
                    m.d.sync += taken.eq(lane)

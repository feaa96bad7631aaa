"""The capacities of a platform, as both the TLM and the RTL are built.

Everything counts flits and cycles of one clock. Times, rates and depths that follow from the RTL's
pipeline stand beside their component (``sw_model.endpoint.timing``, ``sw_model.fred.timing``).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sw_model.collective.plan import ELEMENT_BYTES, OPERATORS, Collective
from sw_model.endpoint.link import minimum_credits
from sw_model.errors import InputError
from sw_model.fred.timing import FRED_TIMING
from sw_model.fred.tree.shape import TreePorts
from sw_model.topology import Dim, DimKind, Topology

__all__ = [
    "DATA_TYPES",
    "OPERATORS",
    "TRAFFIC_CLASSES",
    "EngineParameters",
    "LinkParameters",
    "MemoryParameters",
    "Partition",
    "Platform",
]


_RATE_ERROR = Fraction(1, 100)
"""Largest relative error of a link's rate against the bandwidth asked for."""


MOST_LINKS = 7
"""Ports of an engine on one dim, at most; a record has a count of steps for each."""

TRAFFIC_CLASSES = ("mp", "pp", "dp")
"""Of data, in falling priority."""

DATA_TYPES = tuple(ELEMENT_BYTES)
"""Of elements; the order is that of the RTL's codes."""

_SRAM_FLITS = 1 << 20  # what an SRAM address of the RTL reaches


def _check_tree(dim: Dim, dims: int) -> None:
    if dims > 1:
        raise ValueError(f"a tree of FRED switches must be the only dim, not one of {dims}")
    assert dim.tree is not None
    TreePorts(dim.tree.tree(dim.size), dim.middle_copies)


def _power_of_two(value: int) -> bool:
    return value >= 1 and not value & (value - 1)


def _check_range(name: str, value: int, lowest: int, highest: int | None) -> None:
    if value < lowest or (highest is not None and value > highest):
        rule = f"at least {lowest}" if highest is None else f"in {lowest}..{highest}"
        raise ValueError(f"{name} must be {rule}, not {value!r}")


@dataclass(frozen=True)
class Partition:
    """SRAM buffers of one position: ``buffers`` of ``flits`` each (docs/ace.md: fixed-size pages).

    Raises
    ------
    ValueError
        where there is no buffer, or no flit in it.
    """

    buffers: int
    flits: int

    def __post_init__(self) -> None:
        for name in ("buffers", "flits"):
            _check_range(name, getattr(self, name), 1, None)


@dataclass(frozen=True)
class EngineParameters:
    """Capacity of one ACE engine. The rules are those of the RTL's parameters.

    Parameters
    ----------
    flit_bytes : width of every port and of the SRAM banks, a power of two in 16..128
    contexts : FSM contexts of each dim (of each class on it), a power of two, at most 128
    classes : classes of traffic with contexts, buffers, grants and a channel of their own, in
        falling priority: some of "mp", "pp", "dp" in this order; none: all share one of each
    partitions : of each class, by position; the last is the terminal partition. At least two, with
        at most 256 buffers, and 2**20 flits of all classes
    sram_banks : one-read-one-write banks, interleaved by flit; a power of two
    packet_bytes : largest payload of a packet, a multiple of ``flit_bytes`` below 65536
    program_steps : send steps, and receive steps, that a dim's program memory holds for each
        class, 1 to 4096
    queue_depth : records of a class that wait in front of each unit, 1 to 64: the buffers' uses are
        counted modulo 256, and few enough of them may be under way that no two look alike
    data_types, operators : what the reduction units of engines and switches can do: some of
        ``DATA_TYPES``, some of ``OPERATORS``

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    flit_bytes: int = 16
    contexts: int = 4
    partitions: tuple[Partition, ...] = (
        Partition(8, 256),
        Partition(8, 64),
        Partition(8, 64),
        Partition(8, 256),
    )
    sram_banks: int = 32
    packet_bytes: int = 4096
    program_steps: int = 256
    queue_depth: int = 8
    classes: tuple[str, ...] = ()
    data_types: tuple[str, ...] = ("fp16", "int32")
    operators: tuple[str, ...] = ("sum",)

    def __post_init__(self) -> None:
        for name, known in (("data_types", DATA_TYPES), ("operators", OPERATORS)):
            given = getattr(self, name)
            if not given or list(given) != [value for value in known if value in given]:
                raise ValueError(
                    f"{name} must be one or more of {', '.join(known)} in this order, "
                    f"not {', '.join(given) or 'none'}"
                )
        if list(self.classes) != [name for name in TRAFFIC_CLASSES if name in self.classes]:
            raise ValueError(
                f"classes must be some of {', '.join(TRAFFIC_CLASSES)} in this order, "
                f"not {', '.join(self.classes)}"
            )
        if not _power_of_two(self.flit_bytes) or not 16 <= self.flit_bytes <= 128:
            raise ValueError(f"flit_bytes must be a power of two in 16..128, not {self.flit_bytes}")
        if not _power_of_two(self.contexts) or self.contexts > 128:
            raise ValueError(
                f"contexts must be a power of two of at most 128, not {self.contexts!r}"
            )
        if not _power_of_two(self.sram_banks) or self.sram_banks > _SRAM_FLITS:
            raise ValueError(
                f"sram_banks must be a power of two of at most 2**20, not {self.sram_banks!r}"
            )
        if self.packet_bytes % self.flit_bytes or not 0 < self.packet_bytes < 1 << 16:
            raise ValueError(
                f"packet_bytes must be a multiple of {self.flit_bytes} below 65536, "
                f"not {self.packet_bytes!r}"
            )
        _check_range("program_steps", self.program_steps, 1, 4096)
        _check_range("queue_depth", self.queue_depth, 1, 64)
        if len(self.partitions) < 2:
            raise ValueError(f"partitions must be at least two, not {len(self.partitions)}")
        if self.buffer_count > 256:
            raise ValueError(
                f"partitions must have at most 256 buffers in all, not {self.buffer_count}"
            )
        flits = self.lanes * self.lane_flits
        if -(-flits // self.sram_banks) * self.sram_banks > _SRAM_FLITS:
            raise ValueError(
                f"partitions must have at most 2**20 flits in all, in whole rows of "
                f"{self.sram_banks} banks, not {flits}"
            )

    @property
    def lanes(self) -> int:
        """Classes that have everything of their own; 1 where all share it (docs/ace.md)."""
        return max(1, len(self.classes))

    @property
    def lane_flits(self) -> int:
        """SRAM flits of the partitions of one class."""
        return sum(p.buffers * p.flits for p in self.partitions)

    def lane_of(self, traffic_class: str) -> int:
        """The place of a class among those that have everything of their own.

        Raises
        ------
        InputError
            where it is not among them.
        """
        if not self.classes:
            return 0
        if traffic_class not in self.classes:
            raise InputError(
                f"engine.classes must name every class of traffic, {traffic_class!r} too, "
                f"not {', '.join(self.classes)} alone"
            )
        return self.classes.index(traffic_class)

    @property
    def flow_kinds(self) -> int:
        """Classes, data types and operators in which a switch has each of its flows."""
        return self.lanes * len(self.data_types) * len(self.operators)

    def check_arithmetic(self, collective: Collective) -> None:
        """Refuse a collective whose elements the reduction units cannot reduce.

        Raises
        ------
        InputError
            names the parameter that must have its data type or its operator.
        """
        for name in ("data_type", "operator"):
            known, wanted = getattr(self, name + "s"), getattr(collective, name)
            if wanted not in known:
                raise InputError(
                    f"engine.{name}s must have {wanted!r}, which "
                    f"{collective.name or collective.operation.value} needs, not "
                    f"{', '.join(known)} alone"
                )

    @property
    def chunk_flits(self) -> int:
        """Largest chunk that fits at both ends of its way."""
        return min(self.partitions[0].flits, self.partitions[-1].flits)

    @property
    def buffer_count(self) -> int:
        """Buffers of all partitions of a class; a buffer's number counts through the
        partitions."""
        return sum(p.buffers for p in self.partitions)


@dataclass(frozen=True)
class LinkParameters:
    """Each link of one dim: flits per cycle (at most 1) and cycles from end to end (at least
    1)."""

    rate: Fraction
    latency: int


@dataclass(frozen=True)
class MemoryParameters:
    """The memory beside an NPU: cycles from request to first beat, at least 2, and from write to
    its acknowledgement, at least 1. It has ``words`` beats, at most 2**26. Each direction has a
    rate of its own: beats per cycle, exact, above 0 and at most 1, with a denominator below 2**16,
    kept as a link keeps its rate (``sw_model.endpoint.link.RateGate``).

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    read_latency: int = 64
    write_latency: int = 32
    words: int = 1 << 16
    read_rate: Fraction = Fraction(1)
    write_rate: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        for name in ("read_rate", "write_rate"):
            rate = getattr(self, name)
            if not 0 < rate <= 1 or rate.denominator >= 1 << 16:
                raise ValueError(
                    f"{name} must be above 0 and at most 1, with a denominator below 65536, "
                    f"not {rate}"
                )
        _check_range("read_latency", self.read_latency, 2, 1 << 16)
        _check_range("write_latency", self.write_latency, 1, 1 << 12)
        _check_range("words", self.words, 1, 1 << 26)


@dataclass(frozen=True)
class Platform:
    """A whole platform: the topology and what each part of it can do.

    ``links[d]`` belongs to ``topology.dims[d]``; for FRED dims it is the link between an endpoint
    and its switch, in each direction; for FullyConnected dims one of ``Dim.links``, which share
    the dim's bandwidth.
    """

    topology: Topology
    links: tuple[LinkParameters, ...]
    clock_hz: int = 1_250_000_000
    engine: EngineParameters = EngineParameters()
    memory: MemoryParameters = MemoryParameters()

    @property
    def tree(self) -> TreePorts | None:
        """The tree of FRED switches that is the whole network, if it is one."""
        first = self.topology.dims[0]
        if first.tree is None:
            return None
        return TreePorts(first.tree.tree(first.size), first.middle_copies)

    def buffer_flits(self, dim: int) -> int:
        """Flits that each receiver on the links of ``dim`` buffers, and its sender's credits.

        Enough to keep one flit per cycle over the round trip; on a FRED dim also a whole packet,
        which virtual cut-through waits for (docs/fred.md), and the switch's pipeline.
        """
        latency = self.links[dim].latency
        if self.topology.dims[dim].kind is not DimKind.FRED:
            return minimum_credits(Fraction(1), latency)
        packet = self.engine.packet_bytes // self.engine.flit_bytes + 1
        ports = self.topology.dims[dim].size
        if self.tree is not None:
            ports = max(self.tree.ports(level) for level in ("L1", "L2"))
        return FRED_TIMING.output_credits(ports, packet, latency)

    @classmethod
    def from_topology(
        cls,
        topology: Topology,
        *,
        clock_hz: int = 1_250_000_000,
        engine: EngineParameters | None = None,
        memory: MemoryParameters | None = None,
        rate_denominator: int = 1024,
    ) -> Platform:
        """Derive link rates and latencies in cycles from bandwidths and picoseconds.

        Raises
        ------
        ValueError
            where a dim is faster than one flit per cycle or too slow for a rate of the RTL, or is
            of a kind without RTL.
        """
        engine = engine or EngineParameters()
        for dim in topology.dims:
            if dim.tree is not None:
                _check_tree(dim, len(topology.dims))
        port = Fraction(engine.flit_bytes * clock_hz)
        links = []
        for number, dim in enumerate(topology.dims, start=1):
            if dim.kind not in (DimKind.RING, DimKind.FULLY_CONNECTED, DimKind.FRED):
                raise ValueError(
                    f"dim {number} must be a Ring, a FullyConnected or a Fred dim on this "
                    f"platform, not {dim.kind.value!r}"
                )
            if dim.links > MOST_LINKS:
                raise ValueError(
                    f"dim {number}, a FullyConnected dim, must have at most {MOST_LINKS + 1} NPUs "
                    f"on this platform, whose engines have {MOST_LINKS} ports on a dim, "
                    f"not {dim.size}"
                )
            share = dim.bandwidth / dim.links
            each = "" if dim.links == 1 else f" over each of its {dim.links} links"
            if share > port:
                raise ValueError(
                    f"the bandwidth of dim {number} must be at most one flit per cycle{each} "
                    f"({float(port * dim.links) / 1e9:g} GB/s), "
                    f"not {float(dim.bandwidth) / 1e9:g} GB/s"
                )
            wanted = share / port
            rate = wanted.limit_denominator(rate_denominator)
            if not rate or abs(rate / wanted - 1) > _RATE_ERROR:
                raise ValueError(
                    f"the bandwidth of dim {number} must be within 1 % of a multiple of 1/d flits "
                    f"per cycle{each} with d at most {rate_denominator} "
                    f"({float(port * dim.links) / 1e9:g} GB/s is one), "
                    f"not {float(dim.bandwidth) / 1e9:g} GB/s"
                )
            latency = -(-dim.latency_ps * clock_hz // 10**12)
            links.append(LinkParameters(rate=rate, latency=max(1, latency)))
        return cls(
            topology=topology,
            links=tuple(links),
            clock_hz=clock_hz,
            engine=engine,
            memory=memory or MemoryParameters(),
        )

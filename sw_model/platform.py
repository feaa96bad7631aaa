"""The capacities of a platform, as both the TLM and the RTL are built.

Everything counts flits and cycles of one clock. Times, rates and depths that follow from the RTL's
pipeline stand beside their component (``sw_model.endpoint.timing``, ``sw_model.fred.timing``).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sw_model.endpoint.link import minimum_credits
from sw_model.fred.timing import FRED_TIMING
from sw_model.topology import DimKind, Topology

__all__ = ["EngineParameters", "LinkParameters", "MemoryParameters", "Partition", "Platform"]


@dataclass(frozen=True)
class Partition:
    """SRAM buffers of one position: ``buffers`` of ``flits`` each (2-ace: fixed-size pages)."""

    buffers: int
    flits: int


@dataclass(frozen=True)
class EngineParameters:
    """Capacity of one ACE engine.

    Parameters
    ----------
    flit_bytes : width of every port and of the SRAM banks
    contexts : FSM contexts of each dim (of each class on it)
    partitions : by position; the last is the terminal partition
    sram_banks : one-read-one-write banks, interleaved by flit
    packet_bytes : largest payload of a packet
    program_steps : send steps, and receive steps, that a dim's program memory holds
    queue_depth : records that wait in front of each unit
    """

    flit_bytes: int = 16
    contexts: int = 4
    partitions: tuple[Partition, ...] = (
        Partition(8, 256),
        Partition(8, 64),
        Partition(8, 64),
        Partition(8, 256),
    )
    sram_banks: int = 16
    packet_bytes: int = 4096
    program_steps: int = 256
    queue_depth: int = 8

    @property
    def chunk_flits(self) -> int:
        """Largest chunk that fits at both ends of its way."""
        return min(self.partitions[0].flits, self.partitions[-1].flits)

    @property
    def buffer_count(self) -> int:
        """Buffers of all partitions; a buffer's number counts through the partitions."""
        return sum(p.buffers for p in self.partitions)


@dataclass(frozen=True)
class LinkParameters:
    """The links of one dim: flits per cycle (at most 1) and cycles from end to end (at least 1)."""

    rate: Fraction
    latency: int


@dataclass(frozen=True)
class MemoryParameters:
    """The memory beside an NPU: cycles from request to first beat, and from write to its
    acknowledgement; one beat per cycle in each direction."""

    read_latency: int = 64
    write_latency: int = 32
    words: int = 1 << 16


@dataclass(frozen=True)
class Platform:
    """A whole platform: the topology and what each part of it can do.

    ``links[d]`` belongs to ``topology.dims[d]``; for FRED dims it is the link between an endpoint
    and its switch, in each direction.
    """

    topology: Topology
    links: tuple[LinkParameters, ...]
    clock_hz: int = 1_250_000_000
    engine: EngineParameters = EngineParameters()
    memory: MemoryParameters = MemoryParameters()

    def buffer_flits(self, dim: int) -> int:
        """Flits that each receiver on the links of ``dim`` buffers, and its sender's credits.

        Enough to keep one flit per cycle over the round trip; on a FRED dim also a whole packet,
        which virtual cut-through waits for (3-fred *Control*, 7), and the switch's pipeline.
        """
        latency = self.links[dim].latency
        if self.topology.dims[dim].kind is not DimKind.FRED:
            return minimum_credits(Fraction(1), latency)
        packet = self.engine.packet_bytes // self.engine.flit_bytes + 1
        return FRED_TIMING.output_credits(self.topology.dims[dim].size, packet, latency)

    @classmethod
    def from_topology(
        cls,
        topology: Topology,
        *,
        clock_hz: int = 1_250_000_000,
        engine: EngineParameters | None = None,
        memory: MemoryParameters | None = None,
        rate_denominator: int = 64,
    ) -> Platform:
        """Derive link rates and latencies in cycles from bandwidths and picoseconds.

        Raises
        ------
        ValueError
            where a dim is faster than one flit per cycle, or is of a kind without RTL.
        """
        engine = engine or EngineParameters()
        port = Fraction(engine.flit_bytes * clock_hz)
        links = []
        for number, dim in enumerate(topology.dims, start=1):
            if dim.kind not in (DimKind.RING, DimKind.FRED):
                raise ValueError(
                    f"dim {number} must be a Ring or a Fred dim on this platform, "
                    f"not {dim.kind.value!r}"
                )
            if dim.bandwidth > port:
                raise ValueError(
                    f"the bandwidth of dim {number} must be at most one flit per cycle "
                    f"({float(port) / 1e9:g} GB/s), not {float(dim.bandwidth) / 1e9:g} GB/s"
                )
            rate = (dim.bandwidth / port).limit_denominator(rate_denominator)
            latency = -(-dim.latency_ps * clock_hz // 10**12)
            links.append(LinkParameters(rate=rate, latency=max(1, latency)))
        return cls(
            topology=topology,
            links=tuple(links),
            clock_hz=clock_hz,
            engine=engine,
            memory=memory or MemoryParameters(),
        )

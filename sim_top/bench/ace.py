"""The engine on a torus of 4 x 2 x 2: how full its bottleneck is, what it moves, what it costs.

The platform is that of the ACE paper's evaluation (ISCA 2021; two local links of 200 GB/s and two
links of 25 GB/s to each side, 90 and 500 cycles), with all rates and sizes but the flit divided by
20, so that a flit of 16 bytes a cycle is the 400 GB/s of a local ring: chunks of 3.2 KiB are those
of 64 KiB, and 204.8 KiB per NPU are 4 MiB. Latencies stay as they are, and so does every time.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from sim_top.bench.ace_session import Progress
from sim_top.bench.registry import Result
from sim_top.cosim.outcome import Issued, Job, SingleCollectives, load, save
from sim_top.platform.build import platform_model
from sim_top.simulator import build, run_cocotb
from sw_model.collective.plan import Collective, Operation
from sw_model.platform import EngineParameters, MemoryParameters, Partition, Platform
from sw_model.schedule.options import ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology

__all__ = ["CHUNKS", "ELEMENTS", "Watched", "measure", "torus_platform", "utilisation", "watch"]

SCALE = 20
"""Bandwidths and sizes of the paper's platform over those simulated."""

CHUNKS = 64
ELEMENTS = 4 * 2**20 // SCALE // 128 * 64  # FP16, in whole rows of flits of every shard
"""4 MiB per NPU, scaled (to 3 parts in a thousand)."""

_GB = 10**9
_CLOCK = 1_250_000_000
_BOTTLENECK = 1
_MEMORY_STALLS = 96
"""Of 256 cycles, those in which memory refuses at random: 250 GB/s a direction, in the mean, over
the 400 of a flit a cycle are 5/8. Burstier than a memory of that bandwidth."""


def torus_platform() -> Platform:
    """4 x 2 x 2 rings, one class with 16 contexts, 16 chunks at each position."""

    def ring(size: int, gb: int, cycles: int) -> Dim:
        return Dim(DimKind.RING, size, Fraction(gb * _GB, SCALE), -(-cycles * 10**12 // _CLOCK))

    topology = Topology((ring(4, 400, 90), ring(2, 50, 500), ring(2, 50, 500)))
    chunk = 256
    sizes = (chunk, chunk // 4, chunk // 8, chunk // 8, chunk // 4, chunk)
    return Platform.from_topology(
        topology,
        clock_hz=_CLOCK,
        engine=EngineParameters(
            contexts=16, partitions=tuple(Partition(16, flits) for flits in sizes)
        ),
        memory=MemoryParameters(words=1 << 16),
    )


@dataclass(frozen=True)
class Watched:
    """One collective on the RTL, looked at from time to time.

    Attributes
    ----------
    issued : with its plan
    progress : what was counted, as time went on
    """

    issued: Issued
    progress: Progress


def watch(
    platform: Platform, collective: Collective, *, chunks: int, stalls: int, every: int = 64
) -> Watched:
    """Run one collective with the baseline's schedule; data are compared bit for bit inside.

    Parameters
    ----------
    stalls : of 256 cycles, those in which the memories refuse at random
    every : cycles between two looks at the counters
    """
    model = platform_model(platform)
    build(model)
    job = Job(
        platform=platform,
        schedule=ScheduleOptions("baseline", "fifo", chunks),
        work=SingleCollectives((collective,)),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job"
        save((job, every), path)
        run_cocotb(
            model,
            module="sim_top.bench.ace_session",
            parameters={"job": str(path)},
            timeout_seconds=3600,
            plusargs=(f"+memory_stalls={stalls}", "+memory_seed=1") if stalls else (),
        )
        found = load(path.with_suffix(".outcome"))
    assert isinstance(found, tuple)
    return Watched(*found)


def utilisation(platform: Platform, watched: Watched, dim: int) -> float:
    """Flits of a dim, headers too, over what its links carry at their rate: between a quarter and
    three quarters of its flits, on the rank where it is least."""
    progress = watched.progress
    shares = []
    for rank in range(platform.topology.npus):
        sent = [sample[rank][dim] for sample in progress.sent]
        within = [n for n, flits in enumerate(sent) if sent[-1] <= 4 * flits <= 3 * sent[-1]]
        first, last = within[0], within[-1]
        cycles = progress.cycles[last] - progress.cycles[first]
        shares.append(float((sent[last] - sent[first]) / cycles / platform.links[dim].rate))
    return min(shares)


def measure() -> list[Result]:
    """An all-reduce of 4 MiB per NPU, scaled, and one of a single element."""
    platform = torus_platform()
    request = Collective(Operation.ALL_REDUCE, ELEMENTS, "fp16", dims=(0, 1, 2))
    full = watch(platform, request, chunks=CHUNKS, stalls=0)
    stalled = watch(platform, request, chunks=CHUNKS, stalls=_MEMORY_STALLS)
    one = watch(
        platform,
        Collective(Operation.ALL_REDUCE, 1, "fp16", dims=(0, 1, 2)),
        chunks=1,
        stalls=0,
    )
    payload = request.elements * request.element_bytes
    counters = full.progress.counters
    # Payload alone at the full rate of the bottleneck: 2 (V - 1) / (V L) of it goes there.
    flits = Fraction(payload, 4 * platform.engine.flit_bytes)
    ideal = flits / platform.links[_BOTTLENECK].rate
    share = utilisation(platform, full, _BOTTLENECK)
    return [
        Result("ace.link_utilisation.4x2x2", share, "share of line rate"),
        Result(
            "ace.link_utilisation.4x2x2.random_memory",
            utilisation(platform, stalled, _BOTTLENECK),
            "share of line rate",
        ),
        Result("ace.end_to_end.4x2x2", float(ideal / full.issued.cycles), "ideal / simulated"),
        Result(
            "ace.memory_reads_per_payload_byte",
            max(rank.memory_read_bytes for rank in counters) / payload,
            "bytes/byte",
        ),
        Result(
            "ace.memory_writes_per_payload_byte",
            max(rank.memory_written_bytes for rank in counters) / payload,
            "bytes/byte",
        ),
        Result("ace.command_overhead", one.issued.cycles, "cycles"),
    ]

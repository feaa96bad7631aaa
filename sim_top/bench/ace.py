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

from sim_top.bench.ace_bounds import check, point
from sim_top.bench.ace_session import Progress
from sim_top.bench.registry import Result
from sim_top.cosim.outcome import Issued, Job, SingleCollectives, load, save
from sim_top.platform.build import platform_model
from sim_top.simulator import build, run_cocotb
from sw_model.collective.plan import Collective, Operation
from sw_model.fabric.simulate import run_collective
from sw_model.platform import EngineParameters, MemoryParameters, Partition, Platform
from sw_model.schedule.options import ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology

__all__ = [
    "CHUNKS",
    "CONFIRMED",
    "CONTEXTS",
    "ELEMENTS",
    "SRAM_CHUNKS",
    "Watched",
    "design_space",
    "line_share",
    "measure",
    "memory_share",
    "model_cycles",
    "torus_platform",
    "utilisation",
    "watch",
]

SCALE = 20
"""Bandwidths and sizes of the paper's platform over those simulated."""

_FLIT_SHARE = Fraction(1, 4)
"""Of a payload, what goes over the busiest ring: 2 (V - 1) / (V L)."""

CHUNKS = 64
ELEMENTS = 4 * 2**20 // SCALE // 128 * 64  # FP16, in whole rows of flits of every shard
"""4 MiB per NPU, scaled (to 3 parts in a thousand)."""

_RECORDS = 7
"""Of a chunk: a load, an op for each of the five phases, a store; 32 bytes each."""

_GB = 10**9
_CLOCK = 1_250_000_000
_FLIT = 16
_BOTTLENECK = 1
_MEMORY_STALLS = 96
"""Of 256 cycles, those in which memory refuses at random: 250 GB/s a direction, in the mean, over
the 400 of a flit a cycle are 5/8. Burstier than a memory of that bandwidth."""
_AMPLE, _SCARCE = 250, 128
"""GB/s of memory in each direction: more than the links need, and less."""

SRAM_CHUNKS, CONTEXTS = (2, 4, 6, 8, 12, 16), (1, 2, 4, 8, 16)
"""The engines of the design space: chunks at each position of the SRAM, and FSM contexts."""
CONFIRMED = (*((chunks, 16) for chunks in SRAM_CHUNKS), (8, 8), (8, 4))
"""Those that run on the RTL too: both axes, and the knee in the middle of each. The SRAM of the RTL
is that of 16 chunks, of which a plan uses its part; its contexts are as many as are said."""


def torus_platform(
    *, memory_gb: int | None = None, sram_chunks: int = 16, contexts: int = 16
) -> Platform:
    """4 x 2 x 2 rings, one class.

    Parameters
    ----------
    memory_gb : bandwidth that memory is read with, and written; None: a flit per cycle
    sram_chunks : chunks at each position
    contexts : FSM contexts of each dim
    """

    def ring(size: int, gb: int, cycles: int) -> Dim:
        return Dim(DimKind.RING, size, Fraction(gb * _GB, SCALE), -(-cycles * 10**12 // _CLOCK))

    topology = Topology((ring(4, 400, 90), ring(2, 50, 500), ring(2, 50, 500)))
    chunk = 256
    sizes = (chunk, chunk // 4, chunk // 8, chunk // 8, chunk // 4, chunk)
    port = Fraction(_FLIT * _CLOCK * SCALE, _GB)
    rate = Fraction(1) if memory_gb is None else memory_gb / port
    return Platform.from_topology(
        topology,
        clock_hz=_CLOCK,
        engine=EngineParameters(
            contexts=contexts, partitions=tuple(Partition(sram_chunks, flits) for flits in sizes)
        ),
        memory=MemoryParameters(words=1 << 16, read_rate=rate, write_rate=rate),
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
    platform: Platform,
    collective: Collective,
    *,
    chunks: int,
    stalls: int = 0,
    every: int = 64,
    built: Platform | None = None,
) -> Watched:
    """Run one collective with the baseline's schedule; data are compared bit for bit inside.

    Parameters
    ----------
    stalls : of 256 cycles, those in which the memories refuse at random
    every : cycles between two looks at the counters
    built : the platform as it is built, where its SRAM has more room than plans use
    """
    model = platform_model(built or platform)
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


def line_share(cycles: int) -> float:
    """The busiest ring's payload at its line rate, over the cycles that all of it took."""
    flits = _FLIT_SHARE * 2 * ELEMENTS / _FLIT
    return float(flits / torus_platform().links[_BOTTLENECK].rate / cycles)


def memory_share(platform: Platform) -> Fraction:
    """Of the flits that the busiest ring can carry, those that memory allows: 1, or less.

    For each chunk memory is read for its payload and its records, and the ring carries a quarter of
    the payload in two messages, each behind a header. Chunks are whole rows of a flit per NPU.
    """
    npus = platform.topology.npus
    rows = 2 * ELEMENTS // _FLIT // npus
    chunk = npus * -(-rows // CHUNKS)
    read = chunk + Fraction(_RECORDS * 32, _FLIT)
    carried = _FLIT_SHARE * chunk + 2
    fed = min(platform.memory.read_rate / read, platform.memory.write_rate / chunk) * carried
    return min(Fraction(1), fed / platform.links[_BOTTLENECK].rate)


def _request(elements: int) -> Collective:
    return Collective(Operation.ALL_REDUCE, elements, "fp16", dims=(0, 1, 2))


def model_cycles(platform: Platform, *, elements: int = ELEMENTS, chunks: int = CHUNKS) -> int:
    """The transaction-level model's all-reduce; by default of 4 MiB per NPU, scaled."""
    schedule = ScheduleOptions("baseline", "fifo", chunks)
    return run_collective(platform, _request(elements), schedule=schedule).cycles


def design_space() -> dict[tuple[int, int], int]:
    """Cycles by the transaction-level model, by chunks at each position and contexts; memory of
    250 GB/s."""
    return {
        (chunks, contexts): model_cycles(
            torus_platform(memory_gb=_AMPLE, sram_chunks=chunks, contexts=contexts)
        )
        for chunks in SRAM_CHUNKS
        for contexts in CONTEXTS
    }


def measure() -> list[Result]:
    """An all-reduce of 4 MiB per NPU, scaled, under several memories and on several engines, and
    one of a single element.

    Raises
    ------
    BenchError
        where a figure is out of its bounds.
    """
    ample = torus_platform(memory_gb=_AMPLE)
    scarce = torus_platform(memory_gb=_SCARCE)
    request = _request(ELEMENTS)
    full = watch(ample, request, chunks=CHUNKS)
    stalled = watch(torus_platform(), request, chunks=CHUNKS, stalls=_MEMORY_STALLS)
    limited = watch(scarce, request, chunks=CHUNKS)
    one = watch(torus_platform(), _request(1), chunks=1)
    payload = request.elements * request.element_bytes
    counters = full.progress.counters
    results = [
        Result(
            "ace.link_utilisation.4x2x2",
            utilisation(ample, full, _BOTTLENECK),
            "share of line rate",
        ),
        Result(
            "ace.link_utilisation.4x2x2.random_memory",
            utilisation(torus_platform(), stalled, _BOTTLENECK),
            "share of line rate",
        ),
        Result(
            "ace.link_utilisation.4x2x2.memory_128",
            utilisation(scarce, limited, _BOTTLENECK),
            "share of line rate",
        ),
        Result(
            "ace.link_utilisation.4x2x2.memory_128.bound",
            float(memory_share(scarce)),
            "share of line rate",
        ),
        Result("ace.cycles.4x2x2.memory_128", limited.issued.cycles, "cycles"),
        Result("ace.cycles.4x2x2.memory_128.tlm", model_cycles(scarce), "cycles"),
        Result("ace.cycles.4x2x2", full.issued.cycles, "cycles"),
        Result("ace.cycles.4x2x2.tlm", model_cycles(ample), "cycles"),
        Result("ace.end_to_end.4x2x2", line_share(full.issued.cycles), "ideal / simulated"),
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
        Result(
            "ace.command_overhead.tlm",
            model_cycles(torus_platform(), elements=1, chunks=1),
            "cycles",
        ),
    ]
    for chunks, contexts in CONFIRMED:
        where = torus_platform(memory_gb=_AMPLE, sram_chunks=chunks, contexts=contexts)
        largest = torus_platform(memory_gb=_AMPLE, contexts=contexts)
        found = watch(where, request, chunks=CHUNKS, every=4096, built=largest)
        name, cycles, model = point(chunks, contexts), found.issued.cycles, model_cycles(where)
        results += [
            Result(name, line_share(cycles), "ideal / simulated"),
            Result(f"{name}.tlm", line_share(model), "ideal / simulated"),
            Result(f"{name}.cycles", cycles, "cycles"),
            Result(f"{name}.cycles.tlm", model, "cycles"),
        ]
    check(results)
    return results

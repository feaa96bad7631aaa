"""Several dims with as few buffers and contexts as there can be, under stalls (see the bench;
docs/ace.md, *Order and deadlock*)."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest

from sim_top.cosim.outcome import Job, SingleCollectives, save
from sim_top.shell import MemoryAttachment, ShellPlan, shell_model
from sim_top.simulator import run_cocotb
from sw_model.collective.plan import Collective, Operation
from sw_model.platform import EngineParameters, MemoryParameters, Partition, Platform
from sw_model.schedule.options import ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology
from testbenches.ace_stalled_platform import SOURCE, StalledPlatform

_CHUNK = 48
"""Flits of a chunk; it shrinks from dim to dim, and grows again."""

_TOPOLOGIES = {
    "2x2": ((DimKind.RING, 2), (DimKind.RING, 2)),
    "2x3": ((DimKind.RING, 2), (DimKind.RING, 3)),
    "2xFC3": ((DimKind.RING, 2), (DimKind.FULLY_CONNECTED, 3)),
}


def _platform(name: str) -> Platform:
    dims = []
    for kind, size in _TOPOLOGIES[name]:
        links = size - 1 if kind is DimKind.FULLY_CONNECTED else 1
        dims.append(Dim(kind, size, Fraction(links * 16 * 10**9), 6_000))
    sizes = (_CHUNK, _CHUNK // 2, _CHUNK // 2, _CHUNK)
    return Platform.from_topology(
        Topology(tuple(dims)),
        clock_hz=10**9,
        engine=EngineParameters(
            partitions=tuple(Partition(1, flits) for flits in sizes),
            contexts=1,
            sram_banks=4,
            packet_bytes=128,
            program_steps=32,
            data_types=("int32",),
        ),
        memory=MemoryParameters(words=32768, read_latency=20, write_latency=8),
    )


@cache
def _model(name: str):
    platform = _platform(name)
    npus = range(platform.topology.npus)
    plan = ShellPlan(
        events=("completion", "fault"),
        activity="activity",
        outstanding="outstanding",
        public=(
            *("doorbell_address", "doorbell_ranks", "doorbell_lane", "doorbell_ring"),
            *("completed", "faults", "capture", "status", "link_stalls", "waited"),
            *(f"counters__{rank}" for rank in npus),
        ),
        memories=tuple(
            MemoryAttachment(read=f"memory_read__{rank}", write=f"memory_write__{rank}")
            for rank in npus
        ),
        memory_words=platform.memory.words,
        read_latency=platform.memory.read_latency,
        write_latency=platform.memory.write_latency,
    )
    return shell_model(
        StalledPlatform(platform),
        plan,
        emission_key=SOURCE + repr(platform),
        optimise="-O1",
        blocks=("ace_endpoint",),
    )


def _run(
    tmp_path,
    name,
    scheduler,
    *,
    seed=1,
    chunks=6,
    rounds=1,
    exchange=False,
    link_stalls,
    memory_stalls,
):
    platform = _platform(name)
    dims = tuple(range(len(platform.topology.dims)))
    npus = platform.topology.npus
    elements = 4 * _CHUNK * chunks
    everything = [
        Collective(Operation.ALL_REDUCE, elements, "int32", dims=dims),
        Collective(Operation.REDUCE_SCATTER, elements, "int32", dims=dims),
        Collective(Operation.ALL_GATHER, elements // npus, "int32", dims=dims),
    ]
    if exchange:
        everything.append(Collective(Operation.ALL_TO_ALL, elements, "int32", dims=dims))
    schedule = ScheduleOptions(scheduler, "fifo", chunks)
    job = Job(platform, schedule, SingleCollectives(tuple(everything * rounds)), watchdog=5000)
    path = tmp_path / "job"
    save(job, path)
    result = run_cocotb(
        _model(name),
        module="testbenches.tb_ace_stalled_platform",
        seed=seed,
        parameters={"job": str(path), "link_stalls": link_stalls, "chunks": chunks},
        plusargs=(f"+memory_stalls={memory_stalls}", f"+memory_seed={seed}"),
        timeout_seconds=1200,
    )
    print([line for line in result.log.splitlines() if "waited" in line])


@pytest.mark.parametrize("scheduler", ["baseline", "themis"])
def test_rings(tmp_path, scheduler):
    _run(tmp_path, "2x2", scheduler, link_stalls=100, memory_stalls=100)


@pytest.mark.full
@pytest.mark.parametrize("scheduler", ["baseline", "themis", "balanced"])
@pytest.mark.parametrize("name", sorted(_TOPOLOGIES))
def test_for_long(tmp_path, name, scheduler):
    """Tens of thousands of cycles each, other dims, an all-to-all among the collectives."""
    for seed, link_stalls, memory_stalls in ((1, 200, 60), (2, 128, 120), (3, 40, 180)):
        stalls = {"link_stalls": link_stalls, "memory_stalls": memory_stalls}
        _run(tmp_path, name, scheduler, seed=seed, chunks=9, rounds=5, exchange=True, **stalls)

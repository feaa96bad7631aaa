"""The wafer of 20 NPUs: how full its links are, what groups cost each other, how fast it simulates.

An all-reduce of 64 KiB of FP16 per NPU over all 20 NPUs, reduced in the L1 switches, then in an L2
switch; and two MP groups and a DP group on NPUs of their own, entered at once. One slice of the
wafer with flits of 16 bytes. Data are compared bit for bit, and of the groups all counters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from fractions import Fraction

from sim_top.bench.ace import utilisation, watch
from sim_top.bench.bounds import disagreements, refuse, too_low
from sim_top.bench.registry import Result
from sim_top.cosim.outcome import Job, SingleCollectives
from sim_top.cosim.run import run_job
from sim_top.cosim.verify import compare
from sim_top.platform.build import platform_model
from sim_top.simulator import build
from sw_model.collective.plan import Collective, Operation
from sw_model.fabric.backend import TlmBackend
from sw_model.fred.tree.shape import TreeShape
from sw_model.platform import EngineParameters, MemoryParameters, Partition, Platform
from sw_model.schedule.options import PlanBook, ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology

__all__ = [
    "EVERYONE",
    "GROUPS",
    "LEAST_SHARE",
    "LEAST_SPEED",
    "check",
    "measure",
    "model_at_once",
    "wafer_platform",
]  # fmt: skip

WAFER = TreeShape(ranks=4, ups=4, tops=2)
_CHUNKS = 16

LEAST_SHARE = 0.95
"""Of the line rate, what every NPU link must carry between 25 % and 75 % of its flits."""

LEAST_SPEED = 2_000
"""Cycles per second of processor time in which the wafer must be simulated, on one core."""

_ELEMENTS = 32_768  # 64 KiB of FP16

EVERYONE = Collective(Operation.ALL_REDUCE, _ELEMENTS, dims=(0,))

GROUPS = (
    Collective(
        Operation.ALL_REDUCE,
        _ELEMENTS,
        groups=((0, 1, 2, 3), (4, 5, 8, 9)),
        traffic_class="mp",
    ),
    Collective(Operation.ALL_REDUCE, _ELEMENTS, groups=((6, 10, 12, 16),)),
)
"""Two MP groups, one below an L1 switch and one below two, and a DP group below four."""


def wafer_platform(shape: TreeShape | None = WAFER) -> Platform:
    """Five FRED_3(8) with 4 NPUs and 4 up links, two FRED_3(10); links of 20 ns. Or 20 NPUs below
    another ``shape``, below one switch where there is none."""
    dim = Dim(DimKind.FRED, 20, Fraction(20 * 10**9), 20_000, tree=shape)
    return Platform.from_topology(
        Topology((dim,)),
        engine=EngineParameters(partitions=(Partition(8, 256), Partition(8, 256))),
        memory=MemoryParameters(words=1 << 16),
    )


def measure() -> list[Result]:
    """The wafer on the RTL and the TLM."""
    platform = wafer_platform()
    watched = watch(platform, EVERYONE, chunks=_CHUNKS, stalls=0)
    schedule = ScheduleOptions("baseline", "fifo", _CHUNKS)
    model = platform_model(platform)
    build(model)
    work = SingleCollectives(GROUPS, at_once=True)
    outcome = run_job(model, Job(platform=platform, schedule=schedule, work=work))
    groups = model_at_once(platform, schedule, GROUPS)
    for case in compare("groups", outcome, groups, seed=1):
        assert case.data_ok, case
        assert case.counters_ok, case
    alone = model_at_once(platform, schedule, (EVERYONE,))
    flits = Fraction(EVERYONE.elements * EVERYONE.element_bytes, platform.engine.flit_bytes)
    speed = outcome.simulated / outcome.seconds
    figures = [
        Result("wafer.link_utilisation", utilisation(platform, watched, 0), "share of line rate"),
        Result("wafer.end_to_end", float(flits / watched.issued.cycles), "ideal / simulated"),
        Result("wafer.cycles", watched.issued.cycles, "cycles"),
        Result("wafer.cycles.tlm", _cycles(alone), "cycles"),
        Result(
            "wafer.mp_and_dp.cycles",
            max(max(one.ended.values()) for one in outcome.issued)
            - min(min(one.issued.values()) for one in outcome.issued),
            "cycles",
        ),
        Result("wafer.mp_and_dp.cycles.tlm", _cycles(groups), "cycles"),
        Result("wafer.cycles_per_s", speed, "cycles/s"),
    ]
    check(figures)
    return figures


def check(results: Sequence[Result]) -> None:
    """Hold figures to their bounds: every NPU link full to :data:`LEAST_SHARE`, the model's
    cycles those of the RTL (:mod:`sim_top.bench.bounds`), simulated at :data:`LEAST_SPEED`.

    Raises
    ------
    BenchError
        naming all figures that are out of their bounds.
    """
    refuse(
        disagreements(results)
        + too_low(results, "wafer.link_utilisation", LEAST_SHARE)
        + too_low(results, "wafer.cycles_per_s", LEAST_SPEED, digits=0)
    )


def model_at_once(
    platform: Platform, schedule: ScheduleOptions, requests: Sequence[Collective]
) -> TlmBackend:
    """The TLM after it has run all of them, entered in the first cycle."""
    backend = TlmBackend(PlanBook(platform, schedule, collectives=requests))

    async def run() -> None:
        left = 0
        for request in requests:
            backend.issue(request, backend.representatives)
            left += len(backend.representatives)
        while left:
            left -= len(await backend.wait(None))

    asyncio.run(run())
    return backend


def _cycles(backend: TlmBackend) -> int:
    return max(max(entry.ended.values()) for entry in backend.entries)

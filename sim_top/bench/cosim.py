"""How fast the platform of the main job simulates through cocotb, beside a bare C++ loop.

Both run the same verilated objects over the same cycles: the second repeats what the first took
down. The time through cocotb has everything in it that happens while the training loop would wait:
planning, checking, writing descriptors and payloads, waking Python.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from sim_top.bench.bounds import refuse, too_low
from sim_top.bench.registry import Result
from sim_top.cosim.outcome import Job, SingleCollectives
from sim_top.cosim.run import run_job
from sim_top.crosscheck.matrix import matrix
from sim_top.platform.build import platform_model
from sim_top.simulator import build, run_bare
from sw_model.collective.plan import Collective, Operation

__all__ = ["LEAST_RATIO", "check", "measure"]

LEAST_RATIO = 0.5
"""Of the speed of the bare loop, what must be left through cocotb."""

_ELEMENTS = 16_384  # 32 KiB per NPU
_REPEATS = 6


def measure() -> list[Result]:
    """Cycles per second both ways, and their ratio."""
    setting = next(matrix("quick")).setting
    model = platform_model(setting.platform)
    build(model)
    dims = tuple(range(len(setting.platform.topology.dims)))
    request = Collective(Operation.ALL_REDUCE, _ELEMENTS, "fp16", dims=dims)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.txt"
        job = Job(
            platform=setting.platform,
            schedule=setting.schedule,
            work=SingleCollectives((request,) * _REPEATS),
            record=script,
        )
        outcome = run_job(model, job)
        bare = run_bare(model, script=script)
    speed = outcome.simulated / outcome.seconds
    figures = [
        Result("cosim.cycles_per_s", speed, "cycles/s"),
        Result("cosim.bare_cycles_per_s", bare.cycles_per_second, "cycles/s"),
        Result("cosim.speed_ratio", speed / bare.cycles_per_second, "ratio"),
    ]
    check(figures)
    return figures


def check(results: Sequence[Result]) -> None:
    """Hold the ratio to :data:`LEAST_RATIO`.

    Raises
    ------
    BenchError
        naming it, where it is less.
    """
    refuse(too_low(results, "cosim.speed_ratio", LEAST_RATIO))

"""How long the build of a platform's simulation model takes, from scratch and where it is kept.

Whole processes, from their start to the model that can be run: the platform of 20 NPUs on the tree
of FRED switches, the largest there is. From scratch is with an empty build folder and no cache of
compiled objects: elaboration, Verilator, the compiler. Kept is the same once more.
"""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sim_top.bench.bounds import refuse, too_high
from sim_top.bench.registry import Result
from sim_top.bench.wafer import wafer_platform
from sim_top.platform.build import platform_model
from sim_top.simulator import build
from sim_top.simulator.cache import ROOT
from sw_model.platform import Platform

__all__ = ["MOST_CACHED_SECONDS", "MOST_SECONDS", "Times", "check", "measure", "times"]

MOST_SECONDS = 300
"""By the clock on the wall, from scratch; as many compilers at once as there are cores."""

MOST_CACHED_SECONDS = 5
"""By the clock on the wall, where the model is kept."""


@dataclass(frozen=True)
class Times:
    """Of one build: seconds by the clock on the wall, and of all processors."""

    wall: float
    processor: float


def measure() -> list[Result]:
    """Both builds of the wafer."""
    scratch, cached = times(wafer_platform())
    figures = [
        Result("build.wafer.scratch.seconds", scratch.wall, "s"),
        Result("build.wafer.scratch.processor_seconds", scratch.processor, "s"),
        Result("build.wafer.cached.seconds", cached.wall, "s"),
        Result("build.wafer.cached.processor_seconds", cached.processor, "s"),
    ]
    check(figures)
    return figures


def check(results: Sequence[Result]) -> None:
    """Hold figures to their bounds, :data:`MOST_SECONDS` and :data:`MOST_CACHED_SECONDS`.

    Raises
    ------
    BenchError
        naming all figures that are out of their bounds.
    """
    refuse(
        too_high(results, "build.wafer.scratch.seconds", MOST_SECONDS)
        + too_high(results, "build.wafer.cached.seconds", MOST_CACHED_SECONDS)
    )


def times(platform: Platform) -> tuple[Times, Times]:
    """From scratch and kept.

    Raises
    ------
    CalledProcessError
        where a build fails; what it says is on standard error.
    """
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "platform"
        given.write_bytes(pickle.dumps(platform))
        kept = Path(folder) / "build"
        return _one(given, kept), _one(given, kept)


def _one(platform: Path, folder: Path) -> Times:
    """One process that builds in ``folder``, and what it starts."""
    variables = os.environ | {"ANTIPHON_BUILD": str(folder), "CCACHE_DISABLE": "1"}
    begun, used = time.perf_counter(), _processor()
    command = [sys.executable, "-m", "sim_top.bench.build", str(platform)]
    subprocess.run(command, cwd=ROOT, env=variables, check=True)
    return Times(time.perf_counter() - begun, _processor() - used)


def _processor() -> float:
    """Seconds that all processes have used which were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    build(platform_model(pickle.loads(Path(sys.argv[1]).read_bytes())))

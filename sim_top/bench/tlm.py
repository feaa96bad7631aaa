"""How long the transaction-level model takes, with the start of the process.

A 64 MiB all-reduce over four dims in 64 chunks under Themis, on 1,024, 4,096 and 1,048,576 NPUs:
the best of three runs each, since whatever else the machine does only adds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sim_top.bench.registry import Result

__all__ = ["measure"]

_NETWORK = """\
topology: [ Ring, FullyConnected, Ring, Switch ]
npus_count: [ {sizes} ]
bandwidth: [ 375, 25, 150, 100 ]
latency: [ 20, 700, 700, 1700 ]
"""
_SIZES = {1024: "4, 8, 4, 8", 4096: "8, 8, 8, 8", 1048576: "32, 32, 32, 32"}
_RUNS = 3


def measure() -> list[Result]:
    """Whole-process seconds."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for npus, sizes in _SIZES.items():
            network = Path(folder) / f"{npus}.yml"
            network.write_text(_NETWORK.format(sizes=sizes))
            seconds = min(_seconds(network) for _ in range(_RUNS))
            out.append(Result(f"tlm.seconds.npus_{npus}", seconds, "s"))
    return out


def _seconds(network: Path) -> float:
    command = [sys.executable, "-m", "sim_top.cli", "collective", "all-reduce", "64MiB"]
    command += ["--network", str(network), "--scheduler", "themis", "--chunks", "64"]
    root = Path(__file__).resolve().parents[2]
    begun = time.perf_counter()
    subprocess.run([*command, "--json", "-"], cwd=root, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun

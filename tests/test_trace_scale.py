"""How large a trace may be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sw_model.chakra.files import encode_trace
from tests.chakra_traces import all_reduce, compute, trace

ROOT = Path(__file__).parent.parent
NODES = 100_000


@pytest.mark.full
@pytest.mark.parametrize("npus", [1, 8])
def test_a_hundred_thousand_nodes_on_one_rank(tmp_path, npus):
    """Loaded and run in under 20 s of processor time and under 1 GB; also where its all-reduces
    have somebody to reduce with."""
    nodes = [
        all_reduce(i, 1 << 20, data=[i - 1]) if i % 4 == 3 else
        compute(i, 5, data=[i - 1] if i else [], control=[i - 7] if i > 7 else [])
        for i in range(NODES)
    ]  # fmt: skip
    data = encode_trace(trace(nodes))
    for rank in range(npus):
        (tmp_path / f"w.{rank}.et").write_bytes(data)
    (tmp_path / "n.yml").write_text(
        f"topology: [ Ring ]\nnpus_count: [ {npus} ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
    )
    command = [sys.executable, "-m", "sim_top.cli", "run", "--workload", str(tmp_path / "w")]
    command += ["--network", str(tmp_path / "n.yml"), "--json", str(tmp_path / "o.json")]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert usage.ru_utime + usage.ru_stime < 20
    assert usage.ru_maxrss < 1_000_000  # KiB

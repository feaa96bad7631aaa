"""``antiphon reproduce astra-sim``: every figure to the nanosecond."""

from __future__ import annotations

import json

from sim_top import cli
from sim_top.reproduce import astra_resnet
from sw_model.workload.astra_text import parse, read
from tests.chakra_traces import TRACES, needs_shared


def test_every_row_is_exact(capsys):
    assert cli.main(["reproduce", "astra-sim", "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 33
    assert {row["name"]: row["reference"] for row in rows} == {
        row["name"]: row["ours"] for row in rows
    }
    assert all(row["ok"] and row["tolerance"] == 0 for row in rows)


@needs_shared
def test_the_times_of_resnet_are_those_that_were_released():
    released = read(TRACES / "01_astrasim1_Resnet50_DataParallel.txt")
    ours = parse(astra_resnet.text())
    assert [
        (layer.forward_ns, layer.input_gradient_ns, layer.weight_gradient_ns)
        for layer in ours.layers
    ] == [
        (layer.forward_ns, layer.input_gradient_ns, layer.weight_gradient_ns)
        for layer in released.layers
    ]

"""``antiphon reproduce astra-sim``: every figure to the nanosecond."""

from __future__ import annotations

import json

from sim_top import cli


def test_every_row_is_exact(capsys):
    assert cli.main(["reproduce", "astra-sim", "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 32
    assert {row["name"]: row["reference"] for row in rows} == {
        row["name"]: row["ours"] for row in rows
    }
    assert all(row["ok"] and row["tolerance"] == 0 for row in rows)

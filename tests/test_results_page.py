"""The page of all published figures, and the verdict on a row."""

import json
from types import SimpleNamespace

import pytest

from sim_top import cli
from sim_top.reproduce import registry
from sim_top.reproduce.page import page
from sim_top.reproduce.registry import Row, Table

_NEAR = Row("near", 10.1, 10, "printed", 0.2, "us")
_FAR = Row("far", 20.0, 10, "printed", 0.2, "us", reason="the peer counts twice")
_ALIKE = Row("far too", 30.0, 10, "printed", 0.2, reason="the peer counts twice")
_LOST = Row("lost", 20, 10, "printed", 0)
_FLOOR = Row("floor", 12, 10, "derived", 0, at_least=True)


def test_verdicts():
    assert [row.ok for row in (_NEAR, _FAR, _LOST, _FLOOR)] == [True, False, False, True]
    assert [row.explained for row in (_NEAR, _FAR, _LOST, _FLOOR)] == [True, True, False, True]
    assert _FAR.json()["reason"] == "the peer counts twice"


def test_page():
    table = Table("Sizes", ("name", "size, MiB"), (("one", 1.25), ("two", 2000)))
    text = page(
        {"fred": [_NEAR, _FAR, _ALIKE], "own": [_LOST, _FLOOR]},
        {"fred": "images/f.png"},
        {"own": [table]},
    )
    for line in (
        "| fred | 3 | 1 | 2 | 0 |",
        "| own | 2 | 1 | 0 | 1 |",
        "## FRED (Rashidi et al., ISCA 2025)",
        "![fred: ours and the published figures](images/f.png)",
        "| near | 10 us | printed | 10.1 us | +1.00 % | 0.2 | ok |",
        "| far | 10 us | printed | 20 us | +100.00 % | 0.2 | see below |",
        "* far; far too: the peer counts twice.",
        "| lost | 10 | printed | 20 | +100.00 % | exact | **no** |",
        "Sizes:",
        "|---|---:|",
        "| one | 1.25 |",
        "| two | 2,000 |",
        "| floor | ≥ 10 | derived | 12 | +20.00 % |  | ok |",
    ):
        assert line in text.splitlines()


@pytest.fixture
def sets(monkeypatch):
    """Two sets that need no time."""
    modules = {
        "one": SimpleNamespace(
            rows=lambda progress: [_NEAR], draw=lambda path: path.write_bytes(b"png")
        ),
        "two": SimpleNamespace(
            rows=lambda progress: [_FAR], tables=lambda: [Table("Sizes", ("a",), ((1,),))]
        ),
    }
    monkeypatch.setattr(registry, "SETS", dict.fromkeys(modules))
    monkeypatch.setattr("sim_top.cli.reproduce.SETS", dict.fromkeys(modules))
    monkeypatch.setattr(registry, "_module", modules.__getitem__)


def test_all(sets, tmp_path, capsys):
    target = tmp_path / "results.md"
    assert cli.main(["reproduce", "all", "--page", str(target), "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [(row["set"], row["name"]) for row in data["rows"]] == [("one", "near"), ("two", "far")]
    assert "(images/results-one.png)" in target.read_text()
    assert "Sizes:" in target.read_text()
    assert (tmp_path / "images/results-one.png").read_bytes() == b"png"


def test_tables(sets, capsys):
    assert cli.main(["reproduce", "two", "--json", "-"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert table == {"title": "Sizes", "columns": ["a"], "rows": [[1]]}
    assert cli.main(["reproduce", "two"]) == 0
    assert "Sizes" in capsys.readouterr().out


def test_the_page_goes_elsewhere_outside_the_project(sets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", "all"]) == 0
    assert (tmp_path / "build/reproduce/results.md").is_file()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/architecture.md").touch()
    assert cli.main(["reproduce", "all"]) == 0
    assert (tmp_path / "docs/results.md").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one", "--page", "r.md"], "--page is of `all` only"),
        (
            ["all", "--plot", "p.svg"],
            "--plot is of a single set; the plots of `all` are beside its --page",
        ),
        (["all", "--page", "r.txt"], "--page must end in .md, not 'r.txt'"),
        (["al"], "unknown set of results 'al' (did you mean 'all'?)"),
    ],
)
def test_bad_arguments(sets, arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

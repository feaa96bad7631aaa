"""Files of ``antiphon run``: Perfetto's trace, CSV and the HTML report, in a real browser."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from sim_top import cli
from sw_model.report import run_files
from sw_model.report.html import html_report
from sw_model.report.page import Bar, DimUse, Lane, LayerTime, Page, page_of_run
from tests.chakra_traces import all_reduce, compute, write
from tests.test_report import run

EXPERIMENT = """\
workload:
  file: w.txt
  ranks: 4
network:
  dims:
    - {kind: Ring, size: 2, bandwidth_per_npu: 20 GB/s, latency: 8 ns}
    - {kind: Fred, size: 2, bandwidth_per_npu: 15 GB/s, latency: 8 ns}
"""
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no headless browser: the Debian package chromium is not installed"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "w.txt").write_text(
        "DATA\n2\nconv<1>\t-1\t10\tNONE\t0\t11\tNONE\t0\t12\tALLREDUCE\t65536\t3\n"
        "fc\t-1\t10\tNONE\t0\t11\tNONE\t0\t12\tALLREDUCE\t65536\t3\n"
    )
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def antiphon(capsys):
    def antiphon(*arguments: object) -> tuple[int, str, str]:
        status = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return antiphon


def test_an_engine_backed_run_leaves_all_files(folder, antiphon):
    status, out, err = antiphon(
        "run", "e.yaml", "--trace", "t.json", "--csv", "out", "--html", "r.html", "--json", "-"
    )
    assert (status, err) == (0, "")
    found = json.loads(out)

    events = json.loads((folder / "t.json").read_text())["traceEvents"]
    bars = [event for event in events if event["ph"] == "X"]
    rank = [bar for bar in bars if bar["pid"] == 0]
    for category, key in (
        ("compute", "compute_ns"),
        ("exposed", "exposed_comm_ns"),
        ("update", "update_wait_ns"),
    ):
        time = sum(bar["dur"] for bar in rank if bar["cat"] == category)
        assert time == pytest.approx(found[key] / 1000, abs=1e-3)
    assert {bar["name"] for bar in rank if bar["cat"] == "communication"} == {
        "conv<1> weight gradient",
        "fc weight gradient",
    }
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {(bar["pid"], bar["tid"]) for bar in bars} <= set(rows)
    assert [rows[4, tid] for tid in (0, 1)] == ["dim 1, Ring 2", "dim 2, Fred 2"]

    for name, lines in (("layers", 2), ("dims", 2), ("ranks", 1)):
        table = list(csv.DictReader((folder / "out" / f"{name}.csv").read_text().splitlines()))
        assert len(table) == lines
        if name != "ranks":
            for row, expected in zip(table, found[name], strict=True):
                assert row == {key: str(value) for key, value in expected.items()}
    assert list(table[0]) == [
        "rank", "finish_ns", "compute_ns", "exposed_comm_ns", "update_wait_ns",
    ]  # fmt: skip
    assert float(table[0]["finish_ns"]) == found["total_ns"]
    assert "conv&lt;1&gt; weight gradient, iteration 2" in (folder / "r.html").read_text()


@pytest.mark.parametrize("command", [("e.yaml",), ("--workload", "w", "--network", "n.yml")])
@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--csv", "e.yaml"), "--csv must be a folder, not the file e.yaml"),
        (("--csv", "e.yaml/x"), "--csv must be a folder, not e.yaml/x below the file e.yaml"),
        (("--trace", "no/t.json"), "--trace must name a file in an existing folder, not no"),
        (("--html", "no/r.html"), "--html must name a file in an existing folder, not no"),
        (("--html", "out"), "--html must name a file, not the folder out"),
    ],
)
def test_files_that_cannot_be_are_refused_before_the_run(
    folder, antiphon, command, option, message
):
    (folder / "n.yml").write_text(
        "topology: [ Ring ]\nnpus_count: [ 2 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
    )
    write(folder, *[[all_reduce(0, 4096)]] * 2)
    assert antiphon("run", *command, *option) == (2, "", f"antiphon: {message}\n")


def test_rows_of_communication_do_not_overlap():
    events = json.loads(run_files.chrome_trace(run()))["traceEvents"]
    bars = [event for event in events if event["ph"] == "X"]
    assert {(bar["pid"], bar["tid"], bar["cat"]) for bar in bars} == {
        (0, 0, "compute"),
        (3, 0, "compute"),
        (3, 1, "exposed"),
        (3, 1, "update"),
        (3, 2, "communication"),
        (16, 0, "dim"),
    }
    assert next(bar["dur"] for bar in bars if bar["cat"] == "dim") == 0.64


class _Text(HTMLParser):
    """What a page says, by the element ids that enclose it, and everything that it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.references += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(**changes: object) -> Page:
    return page_of_run(run(), title="a <b> & c") if not changes else Page(**changes)


def test_a_report_is_whole_by_itself():
    text = html_report(page())
    assert _Text(text).references == ["data:,"]
    assert not re.search(r"https?:|@import|url\(", text)
    assert "default-src 'none'" in text
    assert "<title>a &lt;b&gt; &amp; c</title>" in text
    assert text == html_report(page())


def test_a_report_of_nothing():
    text = html_report(Page("none", (), 0.0, (), (), (), ()))
    _Text(text)
    assert "No communication is exposed." in text


def cells(text: str, table: str) -> list[list[str]]:
    """The texts of a table's body."""
    found = re.search(rf'<table id="{table}">.*?<tbody>(.*?)</tbody>', text, re.DOTALL)
    assert found is not None
    rows = re.findall(r"<tr>(.*?)</tr>", re.sub(r"<svg.*?</svg>", "", found[1], flags=re.DOTALL))
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]


def report_of_jobs(folder, antiphon) -> str:
    """Two jobs on 4 NPUs each of a switch at a byte a nanosecond, so that they do not meet: an
    all-reduce sends 1.5 x its bytes."""
    network = "dims: [{kind: Switch, size: 8, bandwidth_per_npu: 1 GB/s, latency: 0 ns}]\n"
    (folder / "n.yml").write_text(network)
    for name, compute_us, size in (("a", 5, 40_000), ("b", 3, 8000)):
        rank = [compute(0, compute_us, name=f"work {name}")]
        rank.append(all_reduce(1, size, name=f"sum {name}", data=[0]))
        write(folder, *[rank] * 4, name=name)
    (folder / "jobs.yaml").write_text(
        "jobs:\n"
        "  - {name: <large>, ranks: 0-3, workload: a}\n"
        "  - {name: small, ranks: 4-7, workload: b}\n"
    )
    arguments = ("run", "--workload", "jobs.yaml", "--network", "n.yml", "--html", "r.html")
    assert antiphon(*arguments, "--json", "j.json")[0] == 0
    return (folder / "r.html").read_text()


def assert_both_jobs(text: str) -> None:
    large, small = cells(text, "jobs")
    assert large[:-1] == ["&lt;large&gt;", "4", "1", "65.000", "5.000", "60.000", "0.000", "0.000"]
    assert small[:-1] == ["small", "4", "1", "15.000", "3.000", "12.000", "0.000", "0.000"]


def test_a_report_of_several_jobs_shows_each(folder, antiphon):
    text = report_of_jobs(folder, antiphon)
    assert _Text(text).references == ["data:,"]
    assert_both_jobs(text)
    head = re.search(r'<table id="jobs"><thead><tr>(.*?)</tr>', text)
    assert head is not None
    assert re.findall(r"<th[^>]*>(.*?)</th>", head[1]) == [
        "job", "NPUs", "iterations", "total us", "compute us", "exposed communication us",
        "host us", "bubble: waiting for other ranks us", "of the longest",
    ]  # fmt: skip
    charts = re.search(r'<table id="jobs">.*?</table>', text, re.DOTALL)
    assert charts is not None
    widths = [float(width) for width in re.findall(r'width="([\d.]+)"', charts[0])]
    shares = (5, 60, 0, 0, 3, 12, 0, 0)
    assert widths == pytest.approx([100 * share / 65 for share in shares], abs=0.001)
    layers = re.findall(r"<summary>(.*?)</summary><table class=\"job\">(.*?)</table>", text)
    titles = ["&lt;large&gt;: all 2 layers, in order", "small: all 2 layers, in order"]
    assert [title for title, _ in layers] == titles
    for (_, table), job in zip(layers, "ab", strict=True):
        assert re.findall(r"<td>([a-z]+ [a-z])</td>", table) == [f"work {job}", f"sum {job}"]


def test_a_report_of_one_job_has_no_jobs():
    assert 'id="jobs"' not in html_report(page())


def test_a_report_stays_small_and_says_what_it_leaves_out():
    bars = tuple(Bar(t, t + 0.5, "compute", f"op {t}") for t in range(40_000))
    lane = Lane("rank 0", bars)
    dims = (DimUse("dim 1", 1.2, 1.0, 20.0, 5),)  # in-network reduction may exceed one
    layers = tuple(LayerTime(f"l{n}", 1.0, 2.0, float(n), 4) for n in range(100))
    text = html_report(Page("many", (), 40_000.0, (), (lane,), dims, layers))
    assert 20_000 < text.count("<rect") < 31_000
    assert "in a row: compute" in text
    assert 'width="100.00"' in text
    assert text.count("<td>l99</td>") == 2
    assert text.count("<td>l1</td>") == 1


def test_too_many_lanes_are_counted():
    result = run()
    many = [bar for bar in result.training.intervals if bar.kind == "communication"] * 70
    object.__setattr__(result.training, "intervals", tuple(many))
    found = page_of_run(result, title="t")
    assert found.notes == ("6 communications that run beside 64 others are not drawn",)
    assert "6 communications that run" in html_report(found)


def browse(file: Path, *, fragment: str = "") -> tuple[str, str]:
    """The page as the browser has it after its script has run, and the browser's messages."""
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            f"--user-data-dir={file.parent / 'profile'}", "--enable-logging=stderr",
            "--dump-dom", f"{file.as_uri()}{fragment}",
        ],
        capture_output=True, text=True, timeout=90, check=True,
    )  # fmt: skip
    return done.stdout, done.stderr


def ticks(text: str) -> list[float]:
    found = re.search(r'<div id="ticks">(.*?)</div>', text)
    assert found is not None
    return [float(tick.replace(",", "")) for tick in re.findall(r">([\d.,]+)<", found[1])]


@needs_browser
def test_the_report_in_a_browser(folder, antiphon):
    """With its script, zoomed by its address; without messages on the console."""
    assert antiphon("run", "e.yaml", "--html", "r.html", "--json", "r.json")[0] == 0
    total = json.loads((folder / "r.json").read_text())["total_ns"] / 1000
    text, messages = browse(folder / "r.html", fragment="#0.25-0.75")
    assert "CONSOLE" not in messages
    assert '<p id="tools">' in text  # the script has run to its end
    assert ticks(text) == pytest.approx([total * (0.25 + i / 16) for i in range(9)], abs=0.051)
    assert re.search(r'<svg id="bars" viewBox="12500 0 25000 \d+"', text)


@needs_browser
def test_the_report_of_a_trace_without_scripts(folder, antiphon):
    (folder / "n.yml").write_text(
        "topology: [ Ring ]\nnpus_count: [ 2 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
    )
    write(
        folder,
        [compute(0, 5), all_reduce(1, 1 << 20, name="sum", data=[0]), compute(2, 3)],
        [compute(0, 9), all_reduce(1, 1 << 20, name="sum", data=[0]), compute(2, 3)],
    )
    arguments = ("run", "--workload", "w", "--network", "n.yml", "--html", "r.html")
    status, out, _ = antiphon(*arguments, "--json", "-")
    assert status == 0
    found = json.loads(out)
    text = (folder / "r.html").read_text()
    (folder / "r.html").write_text(text.replace("script-src 'unsafe-inline'", "script-src 'none'"))
    text, messages = browse(folder / "r.html")
    assert "CONSOLE" in messages  # the browser says that it refused the script
    assert '<p id="tools" hidden="">' in text
    assert ticks(text)[-1] == pytest.approx(found["total_ns"] / 1000, abs=0.051)
    for kind, key in (("exposed", "exposed_comm_ns"), ("compute", "compute_ns")):
        assert re.search(rf'class="key {kind}"></i>[\w ]+</td><td>{found[key] / 1000:,.3f}<', text)
        drawn = re.findall(rf'<rect class="{kind}" x="([\d.]+)" y="0" width="([\d.]+)" h', text)
        spans = [(float(x), float(x) + float(width)) for x, width in drawn if float(width) > 100]
        assert all(end <= start + 0.2 for (_, end), (start, _) in pairwise(sorted(spans)))
    assert "<td>sum</td>" in text


@needs_browser
def test_the_report_of_several_jobs_in_a_browser(folder, antiphon):
    report_of_jobs(folder, antiphon)
    text, messages = browse(folder / "r.html")
    assert "CONSOLE" not in messages
    assert_both_jobs(text)

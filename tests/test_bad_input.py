"""Bad input that is large, or names what cannot be written: one message, status 2, no file."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from sim_top import cli
from sim_top.cli import frame
from sw_model.errors import InputError
from sw_model.fred.construction import check_size, construct
from sw_model.platform import EngineParameters, MemoryParameters, Partition
from sw_model.topology import Dim, DimKind
from sw_model.units import LARGEST_TIME_NS, shown
from sw_model.workload.resnet50 import Throughput

ROOT = Path(__file__).parent.parent
TRACE = "DATA\n1\nconv1 -1 10 NONE 0 11 NONE 0 12 ALLREDUCE 64 3\n"
EXPERIMENT = """\
workload:
  file: w.txt
network:
  dims:
    - {kind: Ring, size: 4, bandwidth_per_npu: 20 GB/s, latency: 8 ns}
    - {kind: Fred, size: 2, bandwidth_per_npu: 15 GB/s, latency: 8 ns}
"""
NETWORK = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 10 ]\nlatency: [ 500 ]\n"
MANY = "9" * 5000
CUT = "'99999999999999999999...' of 5000 characters"
TOO_LONG = "a number must have at most 100 characters and an exponent of at most 99, not"
FILES = {"w.txt": TRACE, "e.yaml": EXPERIMENT, "n.yml": NETWORK, "afile": ""}


@pytest.fixture
def refuse(tmp_path, monkeypatch, capsys):
    """Run a command line; check that it is refused in one message and leaves nothing."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)

    def refuse(*arguments: str, message: str) -> None:
        before = sorted(tmp_path.rglob("*"))
        assert cli.main(arguments) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"antiphon: {message}")
        assert captured.err.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before

    refuse.folder = tmp_path
    return refuse


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("packet_bytes: 5", "engine.packet_bytes must be a multiple of 16 below 65536, not 5"),
        ("packet_bytes: 100", "engine.packet_bytes must be a multiple of 16 below 65536, not 100"),
        ("packet_bytes: 64KiB", "engine.packet_bytes must be a multiple of 16 below 65536, not 6"),
        ("contexts: 3", "engine.contexts must be a power of two of at most 128, not 3"),
        ("contexts: 256", "engine.contexts must be a power of two of at most 128, not 256"),
        ("flit_bytes: 7", "engine.flit_bytes must be a power of two in 16..128, not 7"),
        ("flit_bytes: 256", "engine.flit_bytes must be a power of two in 16..128, not 256"),
        ("sram_banks: 3", "engine.sram_banks must be a power of two of at most 2**20, not 3"),
        ("program_steps: 4097", "engine.program_steps must be in 1..4096, not 4097"),
        ("queue_depth: 65", "engine.queue_depth must be in 1..64, not 65"),
        (
            "partitions: [{buffers: 256, flits: 1}, {buffers: 1, flits: 1}]",
            "engine.partitions must have at most 256 buffers in all, not 257",
        ),
        (
            "partitions: [{buffers: 1, flits: 1048576}, {buffers: 1, flits: 1}]",
            "engine.partitions must have at most 2**20 flits in all, in whole rows of 32 banks, "
            "not 1048577",
        ),
    ],
)
def test_engines_that_the_rtl_cannot_be(refuse, setting, message) -> None:
    (refuse.folder / "e.yaml").write_text(f"{EXPERIMENT}engine:\n  {setting}\n")
    column = 5 + setting.index(":")
    refuse("run", "e.yaml", message=f"e.yaml:8:{column}: {message}")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("read_latency: 1", "memory.read_latency must be in 2..65536, not 1"),
        ("write_latency: 4097", "memory.write_latency must be in 1..4096, not 4097"),
        ("words: 67108865", "memory.words must be in 1..67108864, not 67108865"),
    ],
)
def test_memories_that_the_rtl_cannot_be(refuse, setting, message) -> None:
    (refuse.folder / "e.yaml").write_text(f"{EXPERIMENT}memory:\n  {setting}\n")
    refuse("cosim", "e.yaml", message=f"e.yaml:8:{5 + setting.index(':')}: {message}")


def test_parameters_of_the_library() -> None:
    with pytest.raises(ValueError, match=r"^partitions must be at least two, not 1$"):
        EngineParameters(partitions=(Partition(1, 1),))
    with pytest.raises(ValueError, match=r"^buffers must be at least 1, not 0$"):
        Partition(0, 1)
    with pytest.raises(ValueError, match=r"^flits must be at least 1, not 0$"):
        Partition(1, 0)
    with pytest.raises(ValueError, match=r"^write_latency must be in 1\.\.4096, not 0$"):
        MemoryParameters(write_latency=0)


def test_a_program_memory_that_is_too_small(refuse) -> None:
    (refuse.folder / "e.yaml").write_text(f"{EXPERIMENT}engine: {{program_steps: 1}}\n")
    message = "an op on dim 1 has 3 steps, and the program memory 1: raise engine.program_steps"
    refuse("run", "e.yaml", message=message)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "w.txt",
            " 64 ",
            f" {MANY} ",
            "w.txt:3: field 11 (weight-gradient communication bytes) of layer 'conv1' must be at "
            f"most 1152921504606846976, not {CUT}",
        ),
        (
            "w.txt",
            " 64 ",
            f" -{MANY} ",
            "w.txt:3: field 11 (weight-gradient communication bytes) of layer 'conv1' must not be "
            "negative, not '-9999999999999999999...' of 5001 characters",
        ),
        (
            "w.txt",
            " 10 ",
            " 100000000000000000000 ",
            "w.txt:3: field 3 (forward compute time) of layer 'conv1' must be at most "
            "1000000000000000, not 100000000000000000000",
        ),
        ("w.txt", " -1 ", f" {MANY} ", "w.txt:3: field 2 (reserved) of layer 'conv1' must be a wh"),
        ("w.txt", "\n1\n", f"\n{MANY}\n", "w.txt:2: the number of layers must be at most 21474836"),
        (
            "e.yaml",
            "size: 4",
            f"size: {MANY}",
            f"e.yaml:5:26: network.dims[0].size must be at most 2147483648, not {CUT}",
        ),
        (
            "e.yaml",
            "size: 4",
            f"size: -{MANY}",
            "e.yaml:5:26: network.dims[0].size must be a whole number of at least 1, not '-99999",
        ),
        (
            "e.yaml",
            "size: 4",
            "size: 4__0",
            "e.yaml:5:26: network.dims[0].size must be a whole number of at least 1, not '4__0'",
        ),
        (
            "e.yaml",
            "size: 4",
            "size: 1048576",
            "e.yaml:4:3: a network must have at most 1048576 NPUs, not 2097152",
        ),
        (
            "e.yaml",
            "20 GB",
            "1e400 GB",
            f"e.yaml:5:48: network.dims[0].bandwidth_per_npu: {TOO_LONG}",
        ),
        (
            "e.yaml",
            "20 GB",
            "1e20 GB",
            "e.yaml:5:48: network.dims[0].bandwidth_per_npu: bandwidth must be at most 10^18 B/s, "
            "not '1e20 GB/s'",
        ),
        (
            "e.yaml",
            "8 ns",
            "1e30 ns",
            "e.yaml:5:66: network.dims[0].latency: time must be at most 10^6 s, not '1e30 ns'",
        ),
        (
            "e.yaml",
            "network:",
            "clock: 1e9 GHz\nnetwork:",
            "e.yaml:3:8: clock: frequency must be at most 10^12 Hz, not '1e9 GHz'",
        ),
        (
            "e.yaml",
            "network:",
            "  compute_scale: {0: 1e30}\nnetwork:",
            "e.yaml:3:22: workload.compute_scale.0 must be a number above 0 and at most 1000, not",
        ),
    ],
)
def test_huge_numbers_in_files(refuse, file, old, new, message) -> None:
    (refuse.folder / file).write_text(FILES[file].replace(old, new, 1))
    refuse("run", "e.yaml", message=message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("10 ]", "1e400 ]", f"n.yml:3:14: bandwidth[0]: {TOO_LONG} '1e400'"),
        ("10 ]", "1e30 ]", "n.yml:1:1: the bandwidth of a dim must be at most 10^18 B/s, not 1.0"),
        ("500", "1e30", "n.yml:1:1: the latency of a dim must be at most 10^6 s, not 1e+21 s"),
    ],
)
def test_huge_numbers_in_a_network_file(refuse, old, new, message) -> None:
    (refuse.folder / "n.yml").write_text(NETWORK.replace(old, new, 1))
    refuse("run", "--workload", "w.txt", "--network", "n.yml", message=message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["1e400"], f"argument SIZE: {TOO_LONG} '1e400'"),
        (["1e30"], "argument SIZE: size must be at most 2^60 bytes, not '1e30'"),
        (["2MB", "--group", "0-99999999999"], "argument --group: a rank must have at most 9 digit"),
        (["2MB", "--group", "0-99999999"], "argument --group: a group must be at most 1048576 ran"),
        (["2MB", "--chunks", MANY], "argument --chunks: must be a whole number in 1..2147483648"),
        (["2MB", "--chunks", "3000000000"], "argument --chunks: must be a whole number in 1..2147"),
    ],
)
def test_huge_numbers_of_a_collective(refuse, arguments, message) -> None:
    refuse("collective", "all-reduce", *arguments, "--network", "n.yml", message=message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ports", "8", "--m", "100000000"], "middle_copies must be at most 64, not 100000000"),
        (
            ["--ports", "64", "--m", "64"],
            "FRED_m(P) must have at most 131072 micro-switches, not 1143015488: middle_copies 64 "
            "are too many for 64 ports",
        ),
    ],
)
def test_switches_that_are_too_large(refuse, arguments, message) -> None:
    refuse("route", *arguments, "0,1", message=message)


def test_the_number_of_micro_switches_is_foreseen(monkeypatch) -> None:
    from rtl.fred import modes
    from sw_model.fred import construction

    for ports in range(2, 14):
        for copies in (2, 3, 5):
            count = len(construct(ports, copies).switches)
            for module in (construction, modes):
                monkeypatch.setattr(module, "MAX_SWITCHES", count)
                module.check_size(ports, copies)
                monkeypatch.setattr(module, "MAX_SWITCHES", count - 1)
                with pytest.raises(ValueError, match=f"micro-switches, not {count}: middle_cop"):
                    module.check_size(ports, copies)
                monkeypatch.undo()
    check_size(64, 8)
    with pytest.raises(ValueError, match=r"^middle_copies must be at most 64, not 65$"):
        modes.check_size(4, 65)
    with pytest.raises(ValueError, match=r"^middle_copies must be at most 64, not 65$"):
        Dim(DimKind.FRED, 4, Fraction(1), 0, middle_copies=65)


@pytest.mark.parametrize(
    ("option", "text"),
    [("--efficiency", "1e400"), ("--peak-tflops", "1e-400"), ("--peak-tflops", "0." + MANY)],
)
def test_huge_numbers_of_a_workload(refuse, option, text) -> None:
    message = f"argument {option}: {TOO_LONG} {shown(text)}"
    refuse("workload", "resnet50", "--out", "r.txt", option, text, message=message)


@pytest.mark.parametrize(
    ("option", "text"), [("--peak-tflops", "1e-90"), ("--memory-bandwidth", "1e-20 B/s")]
)
@pytest.mark.parametrize("out", ["r.txt", "r"])
def test_blocks_that_take_for_ever(refuse, option, text, out) -> None:
    message = "no pass and no update of a block may take more than 10^6 s: raise peak_tflops, effic"
    refuse("workload", "resnet50", "--out", out, option, text, message=message)


@pytest.mark.parametrize(
    "changes",
    [
        {"peak_tflops": Fraction(1, 10**90)},
        {"efficiency": Fraction(1, 10**90)},
        {"memory_gb_per_s": Fraction(1, 10**90)},
    ],
)
def test_layers_that_take_for_ever(changes) -> None:
    with pytest.raises(ValueError, match=r"must be such that no layer takes more than 10\^6 s$"):
        Throughput(**changes)
    with pytest.raises(ValueError, match=r"^batch must be at most 2147483648, not 2147483649$"):
        Throughput(batch=2**31 + 1)


def test_long_nodes_of_a_trace() -> None:
    from sw_model.chakra.graph import NANOSECONDS, build_graph
    from tests.chakra_traces import compute, trace

    node = compute(0, 2**60)
    with pytest.raises(
        InputError, match=r"duration_micros must be at most 1000000000000, not 1152"
    ):
        build_graph(trace([node]))
    attribute = node.attr.add()
    attribute.name = NANOSECONDS
    attribute.uint64_val = LARGEST_TIME_NS + 1
    with pytest.raises(InputError, match=r"antiphon_duration_nanos must be at most 10000000000000"):
        build_graph(trace([node]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "e.yaml", "--timeline", "x.foo"], "--timeline must end in .svg or .png, not 'x.f"),
        (
            ["run", "e.yaml", "--timeline", "nodir/x.svg"],
            "--timeline must name a file in an existing folder, not nodir",
        ),
        (["run", "e.yaml", "--timeline", ""], "argument --timeline: must be a path, not ''"),
        (["run", "e.yaml", "--trace", "."], "--trace must name a file, not the folder ."),
        (["run", "e.yaml", "--csv", ""], "argument --csv: must be a path, not ''"),
        (["run", "e.yaml", "--csv", "afile"], "--csv must be a folder, not the file afile"),
        (["run", "e.yaml", "--csv", "afile/x"], "--csv must be a folder, not afile/x below the f"),
        (["bench", "--history", "."], "--history must name a file, not the folder ."),
        (
            ["bench", "--history", "afile/x"],
            "--history must be in a folder, not below the file afile: afile/x\n",
        ),
        (
            ["bench", "--history", "afile/x/y"],
            "--history must be in a folder, not below the file afile: afile/x/y\n",
        ),
        (["bench", "--history", ""], "argument --history: must be a path, not ''"),
        (["reproduce", "themis", "--plot", "x.pdf"], "--plot must end in .svg or .png, not 'x.pdf"),
        (["reproduce", "themis", "--plot", "no/x.svg"], "--plot must name a file in an existing "),
        (["reproduce", "themis", "--plot", ""], "argument --plot: must be a path, not ''"),
        (
            ["sweep", "e.yaml", "--set", "schedule.chunks=1", "--json", "no/x"],
            "--json must name a file in an existing folder, not no",
        ),
        (["compare", "a", "b", "--json", "."], "--json must name a file, not the folder ."),
        (["run", "e.yaml", "--json", "."], "--json must name a file, not the folder ."),
        (["run", "e.yaml", "--json", ""], "argument --json: must be a path, not ''"),
        (["run", "e.yaml", "--json", "x" * 300], "--json: File name too long: xxx"),
        (["cosim", "e.yaml", "--output", "afile"], "--output must be a folder, not the file afile"),
        (["cosim", "e.yaml", "--output", "afile/x"], "--output must be a folder, not afile/x belo"),
        (["cosim", "e.yaml", "--waves", "x.vcd"], "--waves must end in .fst, not 'x.vcd'"),
        (["cosim", "e.yaml", "--waves", "no/x.fst"], "--waves must name a file in an existing fol"),
        (["workload", "resnet50", "--out", ""], "argument --out: must be a path, not ''"),
        (["workload", "resnet50", "--out", "."], "--out must begin the names of files, not be t"),
        (
            ["workload", "resnet50", "--out", ".."],
            "--out must begin the names of files, not be the",
        ),
        (
            ["workload", "resnet50", "--out", "afile/x"],
            "--out must be in an existing folder, not a",
        ),
        (
            ["workload", "resnet50", "--out", "no/x.txt"],
            "--out must name a file in an existing fol",
        ),
        (["convert", "w.txt", "."], "OUT must begin the names of files, not be the folder ."),
        (["convert", "w.txt", ""], "argument OUT: must be a path, not ''"),
        (["convert", "w.txt", "no/x"], "OUT must be in an existing folder, not no"),
        (["emit", "fred", "--out", ""], "argument --out: must be a path, not ''"),
        (["emit", "fred", "--out", "afile"], "--out must be a folder, not the file afile"),
        (["emit", "fred", "--out", "afile/x"], "--out must be a folder, not afile/x below the fi"),
    ],
)
def test_what_cannot_be_written_is_refused_first(refuse, arguments, message) -> None:
    refuse(*arguments, message=message)


def test_huge_numbers_in_a_trace_as_json(refuse) -> None:
    (refuse.folder / "t.json").write_text(f'{{"metadata": {{}}, "nodes": [{{"id": {MANY}}}]}}')
    refuse("convert", "t.json", "t.et", message="t.json: must be a Chakra trace as JSON, with")


def test_the_output_folder_of_a_file(refuse) -> None:
    (refuse.folder / "e.yaml").write_text(f"{EXPERIMENT}output: afile\n")
    refuse("cosim", "e.yaml", message="output must be a folder, not the file afile")


def test_a_timeline_that_cannot_be_written(tmp_path) -> None:
    from sw_model.report.timeline import draw_timeline
    from tests.test_report import run

    with pytest.raises(
        InputError, match=r"no/x\.svg: cannot be written: No such file or directory"
    ):
        draw_timeline([run()], tmp_path / "no" / "x.svg")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "the memory does not suffice for this input"),
        (OverflowError("too large"), "a number is too large to be worked with: too large"),
        (RecursionError(), "the input is nested too deeply"),
        (OSError(28, "No space left on device", "x"), "x: No space left on device"),
        (OSError("disk"), "disk"),
    ],
)
def test_the_last_resort_is_one_message(refuse, monkeypatch, error, message) -> None:
    def fails(*_):
        raise error

    monkeypatch.setattr(frame, "_load", fails)
    refuse("run", message=f"{message}\n")


def test_a_document_that_is_nested_too_deeply(refuse) -> None:
    (refuse.folder / "e.yaml").write_text("[" * 100_000)
    refuse("run", "e.yaml", message="")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "adder_depth=0",
            "fred cannot be built: adder_depth must be an integer from 1 to 6, not 0",
        ),
        (
            "input_depth=0",
            "fred cannot be built: input_depth must be a positive integer, not 0",
        ),
        (
            "classes=control",
            "fred cannot be built: classes must be traffic classes in falling priority, one for "
            "data at least, not control",
        ),
        ("middle_copies=65", "fred cannot be built: middle_copies must be at most 64, not 65"),
        ("input_depth=99999999", "input_depth must be at most 1048576, not '99999999'"),
        (f"ports={MANY}", f"ports must be a whole number, not {CUT}"),
    ],
)
def test_a_design_that_cannot_be_built(tmp_path, setting, message) -> None:
    """In a process of its own: Amaranth warns on its standard error, when parts are let go."""
    done = subprocess.run(
        [sys.executable, "-m", "sim_top.cli", "emit", "fred", "--out", "o", "--set", setting],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"antiphon: {message}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("blocked", ["link.sv", "link.core"])
def test_an_emitted_design_is_written_whole_or_not_at_all(refuse, blocked) -> None:
    """Where one of its files cannot be written, the others are as they were before."""
    out = refuse.folder / "o"
    (out / blocked).mkdir(parents=True)
    (out / "link.sdc").write_text("of before")
    refuse(
        "emit", "link", "--out", "o", message=f"o/{blocked}: cannot be written: Is a directory\n"
    )
    assert sorted(path.name for path in out.iterdir()) == sorted([blocked, "link.sdc"])
    assert (out / "link.sdc").read_text() == "of before"

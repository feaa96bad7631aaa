"""The benches whose reach is counted: small switches, links and engines, each with all its tests.

``python -m tests.coverage_benches FOLDER`` (or ``make coverage``) runs them all and writes
``coverage.json`` and ``coverage.md`` there; names behind the folder choose some.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from rtl.common.packet import TrafficClass
from sim_top.cosim.outcome import Job, SingleCollectives
from sim_top.cosim.run import run_job
from sim_top.cosim.verify import first_difference
from sim_top.coverage.report import Bench, write
from sim_top.crosscheck.matrix import Case, Setting
from sim_top.crosscheck.run import check_case
from sim_top.platform.build import platform_model
from sim_top.simulator import run_cocotb, simulate
from sw_model.collective.plan import Collective, Operation
from sw_model.platform import EngineParameters, MemoryParameters, Partition, Platform
from sw_model.schedule.options import ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology
from tests import (
    test_ace_protection,
    test_fred_classes,
    test_fred_micro_switch,
    test_fred_switch,
    test_link_channels,
)
from tests.ace_axi_models import EXPECTED, model

__all__ = ["BENCHES", "collect"]

_MP, _PP, _DP, _CONTROL = TrafficClass


def _micro_switches() -> None:
    """Every mode in every cycle, at random."""
    for kind, name in {
        "R": "reduce_switch",
        "D": "distribute_switch",
        "RD": "reduce_distribute_switch",
        "demux": "demultiplexer",
        "mux": "multiplexer",
    }.items():
        dut = test_fred_micro_switch.build(kind)
        simulate(
            dut,
            name=name,
            testbench="testbenches.tb_fred_micro_switch",
            simulator="verilator",
            parameters={
                "kind": kind,
                "middle_copies": 3,
                "flit_bytes": dut.flit_bytes,
                "latency": dut.latency,
                "data_types": ["fp16", "int32"],
                "operators": ["sum"],
                "cycles": 2000,
            },
        )


def _switch() -> None:
    """An odd switch, so that it has one of each kind of micro-switch."""
    test_fred_switch.run("verilator", ports=3, middle_copies=2)


def _switch_classes() -> None:
    """Three classes of data: priorities, turns, errors by class."""
    for bench in test_fred_classes.PARTS:
        test_fred_classes.run(bench, "verilator", middle_copies=2)


def _switch_control() -> None:
    """Data and control."""
    options = test_fred_classes.CONTROL_OPTIONS | {"middle_copies": 2}
    test_fred_classes.run("fred_control", "verilator", **options)


def _link() -> None:
    """Three channels, at the whole rate and at two thirds."""
    test_link_channels.run(simulator="verilator")
    test_link_channels.run((9, 9, 9), Fraction(2, 3), 4, 1, simulator="verilator")


def _engines() -> None:
    """Two engines on AXI: collectives, refusals, errors, aborts, resets, all under stalls."""
    for testcase in ("refusals", "memory_errors", "aborts", "resets"):
        test_ace_protection.run(testcase, ranks=2, turns=8, stall=20)
    for operation in ("ar", "rs", "ag"):
        run_cocotb(
            model(2, "verilator"),
            module="testbenches.tb_ace_axi",
            testcase="collective",
            parameters={
                "ranks": 2,
                "expected": EXPECTED,
                "packet_flits": 4,
                "data_type": "INT32",
                "shift": 230,
                "operation": operation,
                "chunk_flits": 12,
                "chunks": 6,
                "stall": 20,
            },
        )


def _platform() -> None:
    """Three engines around a switch, as in co-simulation: every operation, in the network; then
    under protection, where data is compared only."""
    platform = Platform.from_topology(
        Topology((Dim(DimKind.FRED, 3, Fraction(15 * 10**9), 24_000),)),
        engine=EngineParameters(partitions=(Partition(8, 256), Partition(8, 512))),
        memory=MemoryParameters(words=1 << 16),
    )
    requests = tuple(
        Collective(
            operation,
            600,
            "fp16",
            dims=(0,),
            target=1 if operation is Operation.SEND else None,
        )
        for operation in Operation
    )
    schedule = ScheduleOptions("baseline", "fifo", 4)
    for case in check_case(Case(Setting("coverage", platform, schedule), requests)):
        assert case.data_ok, case
        assert case.counters_ok, case
    job = Job(
        platform=platform, schedule=schedule, work=SingleCollectives(requests), protected=True
    )
    outcome = run_job(platform_model(platform), job)
    for number, (issued, results) in enumerate(zip(outcome.issued, outcome.results, strict=True)):
        assert first_difference(issued, results, seed=job.seed, number=number) is None, issued.plan


@dataclass(frozen=True, kw_only=True)
class _Counted:
    """A bench, and the class that is its top module ``dut``."""

    run: Callable[[], None]
    top: str


BENCHES: Mapping[str, _Counted] = {
    "micro-switches": _Counted(run=_micro_switches, top=""),
    "switch": _Counted(run=_switch, top="FredSwitch"),
    "switch-classes": _Counted(run=_switch_classes, top="FredSwitch"),
    "switch-control": _Counted(run=_switch_control, top="FredSwitch"),
    "link": _Counted(run=_link, top="Link"),
    "engines": _Counted(run=_engines, top="AceAxiGroup"),
    "platform": _Counted(run=_platform, top=""),
}
"""By name."""


def collect(folder: Path, names: tuple[str, ...] = tuple(BENCHES)) -> None:
    """Run benches; what each counts goes to a folder of its own below ``folder``.

    Raises
    ------
    SimulationError, AssertionError
        where a bench fails.
    """
    before = os.environ.get("ANTIPHON_COVERAGE")
    try:
        for name in names:
            os.environ["ANTIPHON_COVERAGE"] = str(folder / name)
            begun = _processor_seconds()
            BENCHES[name].run()
            print(f"{name}: {_processor_seconds() - begun:.0f} processor seconds", flush=True)
    finally:
        if before is None:
            del os.environ["ANTIPHON_COVERAGE"]
        else:
            os.environ["ANTIPHON_COVERAGE"] = before


def _processor_seconds() -> float:
    """Of this process and of those that it has run."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def main(arguments: list[str]) -> int:
    """Run, and write the figures."""
    folder = Path(arguments[0])
    names = tuple(arguments[1:]) or tuple(BENCHES)
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"a bench must be one of {', '.join(BENCHES)}, not {unknown[0]!r}", file=sys.stderr)
        return 2
    collect(folder, names)
    write(folder, [Bench(name=name, top=BENCHES[name].top) for name in BENCHES])
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m tests.coverage_benches FOLDER [BENCH...]")
    sys.exit(main(sys.argv[1:]))

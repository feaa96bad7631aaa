"""Training iterations on ACE's platform, on the endpoints that the paper compares.

Stated parameters: NPUs of 120 TFLOPS, all of which a pass reaches where memory does not hold it up
(decided here: the paper's compute times are not known), 900 GB/s and 80 SMs; FP16; two iterations,
without updates; the newest collective first; ResNet-50 with 32 samples an NPU, GNMT with 128, DLRM
with 512 and its tables spread over all. Smaller batches, chosen by trying a few, show how far the
figures hang on the ratio of computing to communicating; they confirm nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from statistics import mean
from typing import Any

from sim_top.reproduce.ace_platform import TORI, torus
from sim_top.reproduce.registry import Row, Table
from sw_model.astra.system import CollectivePolicy, SystemConfig
from sw_model.chakra.from_model import ModelTraces
from sw_model.chakra.graph import build_graph
from sw_model.chakra.workload import ChakraWorkload, assemble
from sw_model.endpoint.kinds import KINDS, EndpointSettings
from sw_model.replay.run import replay_trace, schedule_of
from sw_model.workload.catalogue import model_named
from sw_model.workload.machine import Machine
from sw_model.workload.parallel import Parallelism

__all__ = ["Iteration", "draw", "iteration", "rows", "table"]

_MACHINE = Machine(peak_tflops=Fraction(120), efficiency=Fraction(1))
_BASELINES = tuple(name for name in KINDS if name.startswith("baseline"))
_CHUNKS = 16


@dataclass(frozen=True)
class _Case:
    """Printed: speed-up over the best baseline, mean and largest of the tori."""

    name: str
    title: str
    batch: int
    fewer: int
    gain: float
    largest: float


_CASES = (
    _Case("resnet50", "ResNet-50", 32, 4, 1.41, 1.51),
    _Case("gnmt", "GNMT", 128, 16, 1.12, 1.17),
    _Case("dlrm", "DLRM", 512, 128, 1.13, 1.19),
)


@dataclass(frozen=True)
class Iteration:
    """Of two: milliseconds in all, of computing, and exposed; network utilisation by dim."""

    total_ms: float
    compute_ms: float
    exposed_ms: float
    utilisation: tuple[float, ...]


@lru_cache(maxsize=64)
def _workload(name: str, batch: int, sizes: tuple[int, int, int]) -> ChakraWorkload:
    network = torus(sizes)
    model = replace(model_named(name), update_bytes=0)
    made = ModelTraces(
        model=model,
        parallelism=Parallelism(data=network.npus),
        machine=_MACHINE,
        batch=batch,
        iterations=2,
    )
    graphs: list[Any] = []
    last: object = None
    for trace in made:
        graphs.append(graphs[-1] if trace is last else build_graph(trace))
        last = trace
    groups = {group: tuple(ranks) for group, ranks in made.groups().items()}
    return assemble(model.title, graphs, network, groups)


@lru_cache(maxsize=512)
def iteration(name: str, batch: int, sizes: tuple[int, int, int], kind: str) -> Iteration:
    """Replay one model on one torus with one kind of endpoint."""
    found = replay_trace(
        _workload(name, batch, sizes),
        replace(SystemConfig(), policy=CollectivePolicy.LIFO),
        schedule=schedule_of(None, chunks=_CHUNKS),
        endpoint=EndpointSettings(kind=kind),
    )
    late = found.latest
    return Iteration(
        total_ms=found.ns(late.finish) / 1e6,
        compute_ms=found.ns(late.compute) / 1e6,
        exposed_ms=found.ns(late.exposed) / 1e6,
        utilisation=tuple(found.utilisation(dim) for dim in range(len(sizes))),
    )


def _gains(name: str, batch: int) -> list[float]:
    """Of ACE over the best baseline, by torus."""
    out = []
    for sizes in TORI:
        best = min(iteration(name, batch, sizes, kind).total_ms for kind in _BASELINES)
        out.append(best / iteration(name, batch, sizes, "ace").total_ms)
    return out


def rows(progress: Callable[[float], object]) -> list[Row]:
    """Speed-ups, with the paper's batch and with a smaller one; their order."""
    out = []
    means: dict[tuple[str, int], float] = {}
    for number, case in enumerate(_CASES):
        for batch in (case.batch, case.fewer):
            gains = _gains(case.name, batch)
            means[case.title, batch] = mean(gains)
            reason = _reason(case.name, batch)
            what = f"training, {case.title}, {batch} samples an NPU: ACE over the best baseline"
            figures = [("mean of the tori", mean(gains), case.gain, 0.15)]
            if batch == case.batch:
                figures.append(("largest", max(gains), case.largest, 0.15))
            out += [
                Row(
                    f"{what}, {label}",
                    ours,
                    printed,
                    "printed, abstract"
                    + ("" if batch == case.batch else "; the batch was chosen by trying"),
                    near * printed,
                    "x",
                    reason=reason,
                )
                for label, ours, printed, near in figures
            ]
        progress((number + 1) / len(_CASES))
    out += _orders(means)
    return out


def _reason(name: str, batch: int) -> str:
    """Why a gain is small: what no endpoint could gain."""
    ideal = [
        min(iteration(name, batch, sizes, kind).total_ms for kind in _BASELINES)
        / iteration(name, batch, sizes, "ideal").total_ms
        for sizes in TORI
    ]
    exposed = iteration(name, batch, TORI[-1], "baseline-no-overlap")
    return (
        f"even ideal endpoints gain no more than {mean(ideal):.3g} on average and {max(ideal):.3g} "
        f"at most, since computing takes {exposed.compute_ms / 2:.3g} ms of an iteration here and "
        f"communication that nothing hides {100 * exposed.exposed_ms / exposed.total_ms:.0f} % of "
        "it; the compute times of the paper are not known"
    )


def _orders(means: dict[tuple[str, int], float]) -> list[Row]:
    """ResNet-50 gains most, and all gain; with its own batch, with which it has next to nothing to
    hide, and with the smaller one in its place."""
    resnet, gnmt, dlrm = _CASES
    others = (means[gnmt.title, gnmt.batch], means[dlrm.title, dlrm.batch])
    out = []
    for batch, chosen in ((resnet.batch, ""), (resnet.fewer, "; the batch was chosen by trying")):
        first = means[resnet.title, batch]
        out.append(
            Row(
                f"training: of ResNet-50 ({batch} samples) > GNMT, > DLRM, and both > 1",
                sum(first > other for other in others) + sum(other > 1 for other in others),
                4,
                f"printed, abstract{chosen}",
                0,
                "hold",
                reason=f"of ResNet-50 {_reason(resnet.name, batch)}",
            )
        )
    return out


def table() -> Table:
    """Every case that the rows rest on."""
    cells: list[tuple[str | int | float, ...]] = []
    for case in _CASES:
        for batch in (case.batch, case.fewer):
            for sizes in TORI:
                for kind in KINDS:
                    found = iteration(case.name, batch, sizes, kind)
                    cells.append(
                        (
                            case.title,
                            batch,
                            " x ".join(map(str, sizes)),
                            kind,
                            round(found.total_ms / 2, 4),
                            round(found.compute_ms / 2, 4),
                            round(found.exposed_ms / 2, 4),
                            *(round(100 * share, 1) for share in found.utilisation),
                        )
                    )
    return Table(
        title="Training on ACE's platform, for one of two iterations",
        columns=(
            "model", "samples", "torus", "endpoint", "iteration, ms", "computing, ms",
            "exposed, ms", "local ring used, %", "vertical, %", "horizontal, %",
        ),
        rows=tuple(cells),
    )  # fmt: skip


def draw(axes: Any) -> None:
    """Bars of the iteration's parts on the largest torus, each relative to ideal endpoints."""
    width = 0.16
    for place, kind in enumerate(KINDS):
        heights, exposed = [], []
        for case in _CASES:
            ideal = iteration(case.name, case.batch, TORI[-1], "ideal").total_ms
            found = iteration(case.name, case.batch, TORI[-1], kind)
            heights.append(found.total_ms / ideal)
            exposed.append(found.exposed_ms / ideal)
        at = [n + (place - 2) * width for n in range(len(_CASES))]
        axes.bar(at, heights, width, label=kind)
        axes.bar(at, exposed, width, color="none", hatch="///", edgecolor="#ffffff", linewidth=0)
    axes.set_xticks(range(len(_CASES)), [case.title for case in _CASES])
    axes.set_ylabel("iteration over that with ideal endpoints")
    axes.set_title("4 x 8 x 4; hatched: exposed communication", fontsize=10)
    axes.legend(fontsize=7)

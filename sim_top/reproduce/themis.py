"""The figures of Themis (ISCA 2022) in the minimal model, and what ``balanced`` makes of them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import prod
from pathlib import Path
from statistics import geometric_mean, mean

from sim_top.reproduce import themis_chunks, themis_training
from sim_top.reproduce.registry import Row
from sw_model.collective.cost import algorithms_of
from sw_model.collective.plan import Collective, Operation
from sw_model.schedule.balanced import balance
from sw_model.schedule.evaluation import NETWORKS, evaluation_instance
from sw_model.schedule.execution import Intra
from sw_model.schedule.phases import Turn
from sw_model.schedule.single import Candidate, Instance
from sw_model.topology import Dim, DimKind, Topology

__all__ = ["SIZES", "draw", "rows", "utilisation"]

_MIB = 2**20
#: The 19 sizes of the paper's figures.
SIZES = tuple(range(100 * _MIB, 1001 * _MIB, 50 * _MIB))
_CHUNKS = 64

Schedule = Callable[[Instance], Candidate]

SCHEDULES: dict[str, Schedule] = {
    "baseline": lambda instance: instance.baseline(_CHUNKS),
    "Themis + FIFO": lambda instance: instance.themis(_CHUNKS, Intra.FIFO),
    "Themis + SCF": lambda instance: instance.themis(_CHUNKS, Intra.SCF),
}
#: Mean utilisation in per cent: derived for this model with its tolerance, and printed (section 6).
_MEANS = {
    "baseline": (56.6, 0.1, 56.31, 0.5),
    "Themis + FIFO": (87.6, 0.3, 87.67, 0.5),
    "Themis + SCF": (97.4, 0.3, 95.14, 2.5),
}
#: Utilisation at 1000 MiB read off the paper's figure: baseline, FIFO, SCF.
_READ_OFF = {
    "2D-SW_SW": (63.82, 88.17, 97.47),
    "3D-SW_SW_SW_hetero": (60.77, 97.77, 96.97),
    "4D-Ring_FC_Ring_SW": (62.20, 86.34, 93.83),
}


def utilisation(instance: Instance, schedule: Schedule) -> float:
    """Ideal time over time."""
    run = instance.run(schedule(instance))
    return float(instance.ideal_seconds / instance.seconds(run.end))


def rows(progress: Callable[[float], object]) -> list[Row]:
    """All figures."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in NETWORKS}
    for number, name in enumerate(NETWORKS):
        for label, schedule in SCHEDULES.items():
            found[name][label] = [
                utilisation(evaluation_instance(name, size), schedule) for size in SIZES
            ]
        progress((number + 1) / 12)
    out = _means(found) + _speedups(found)
    for name, read in _READ_OFF.items():
        for label, figure in zip(SCHEDULES, read, strict=True):
            out.append(
                Row(
                    f"utilisation, {name}, 1000 MiB, {label}",
                    100 * found[name][label][-1],
                    figure,
                    "read off the paper's figure",
                    3.5,
                    "%",
                )
            )
    out += _small_cases()
    out += themis_chunks.rows()
    for number, (chunks, goal) in enumerate(((64, 99.7), (16, 99.5), (8, 97.5))):
        shares = []
        for name in NETWORKS:
            instance = evaluation_instance(name, 1000 * _MIB)
            run = instance.run(balance(instance, chunks=chunks))
            shares.append(float(instance.bound_seconds / instance.seconds(run.end)))
        out.append(
            Row(
                f"balanced, at most {chunks} chunks: mean share of the bound",
                100 * mean(shares),
                goal,
                "goal of this project, by the linear program's bound",
                0,
                "%",
                at_least=True,
            )
        )
        progress(0.5 + (number + 1) / 12)
    return out + themis_training.rows(lambda share: progress(0.75 + share / 4))


def _means(found: dict[str, dict[str, list[float]]]) -> list[Row]:
    out = []
    for label, (derived, near, printed, printed_near) in _MEANS.items():
        ours = 100 * mean(value for name in found for value in found[name][label])
        what = f"mean utilisation, {label}"
        out.append(Row(what, ours, derived, "derived for the minimal model", near, "%"))
        note = "printed, section 6" + (
            "; ours is better by a cause that is not known" if label.endswith("SCF") else ""
        )
        out.append(Row(what, ours, printed, note, printed_near, "%"))
    return out


def _speedups(found: dict[str, dict[str, list[float]]]) -> list[Row]:
    out = []
    for label, printed, near in (("Themis + FIFO", 1.58, 0.03), ("Themis + SCF", 1.72, 0.07)):
        gains = [
            after / before
            for name in found
            for before, after in zip(found[name]["baseline"], found[name][label], strict=True)
        ]
        what = f"mean speed-up, {label}"
        out.append(Row(what, geometric_mean(gains), printed, "printed, section 6", near, "x"))
    out.append(
        Row("largest speed-up, Themis + SCF", max(gains), 2.70, "printed, section 6", 0.1, "x")
    )
    return out


def _switches(sizes: tuple[int, ...], bandwidths: tuple[int, ...], latency_ps: int) -> Topology:
    return Topology(
        tuple(
            Dim(DimKind.SWITCH, size, Fraction(bandwidth), latency_ps)
            for size, bandwidth in zip(sizes, bandwidths, strict=True)
        )
    )


def _instance(topology: Topology, size: int) -> Instance:
    dims = tuple(range(len(topology.dims)))
    algorithms = algorithms_of(topology.dims, Operation.ALL_REDUCE, None)
    collective = Collective(Operation.ALL_REDUCE, size // 2, dims=dims)
    return Instance(collective, topology, algorithms, turn=Turn.SPLIT)


def _small_cases() -> list[Row]:
    out = []
    gb = 10**9
    example = _instance(_switches((4, 4), (2 * gb, gb), 0), 256 * 10**6)
    unit = Fraction(64 * 10**6 * 3, 4 * 2 * gb)
    for label, candidate, units in (
        ("baseline", example.baseline(4), 8),
        ("Themis + SCF", example.themis(4), 7),
    ):
        ours = float(example.seconds(example.run(candidate).end) / unit)
        what = f"4 x 4 at 2 : 1, 4 chunks, {label}"
        out.append(Row(what, ours, units, "worked example, section 4", 0, "units"))
    cube = _instance(_switches((8, 8, 8), (50 * 2**30,) * 3, 1000), 2**30)
    for label, candidate, published in (
        ("baseline", cube.baseline(_CHUNKS), 35_008),
        ("Themis + SCF", cube.themis(_CHUNKS), 13_636),
    ):
        ours = float(cube.seconds(cube.run(candidate).end) * 10**6)
        what = f"8 x 8 x 8 switches, 1 GiB, {label}"
        out.append(Row(what, ours, published, "published run", published / 100, "us"))
    for label, derived in (("baseline", 40.5), ("Themis + SCF", 37.4)):
        ours = 100 * mean(
            utilisation(
                evaluation_instance(name, 100 * _MIB, latencies=True, serial=True),
                SCHEDULES[label],
            )
            for name in NETWORKS
        )
        what = f"mean utilisation, 100 MiB, latencies charged serially, {label}"
        out.append(Row(what, ours, derived, "derived: too many chunks do harm", 0.1, "%"))
    ideal = float(cube.ideal_seconds * 10**6)
    out.append(Row("8 x 8 x 8 switches, 1 GiB, ideal", ideal, 13_307, "published run", 13, "us"))
    return out


def draw(path: Path) -> None:
    """The figure: utilisation over size, a panel for each network, printed means dashed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = {"baseline": "#888888", "Themis + FIFO": "#d98200", "Themis + SCF": "#0060a8"}
    figure, panels = plt.subplots(2, 3, figsize=(12, 6.5), sharex=True, sharey=True)
    for panel, name in zip(panels.flat, NETWORKS, strict=True):
        for index, (label, schedule) in enumerate(SCHEDULES.items()):
            ours = [100 * utilisation(evaluation_instance(name, s), schedule) for s in SIZES]
            panel.plot([s / _MIB for s in SIZES], ours, label=label, color=colours[label])
            if label != "Themis + FIFO":
                slow = [
                    100
                    * utilisation(
                        evaluation_instance(name, s, latencies=True, serial=True), schedule
                    )
                    for s in SIZES
                ]
                panel.plot([s / _MIB for s in SIZES], slow, "--", linewidth=1, color=colours[label])
            if name in _READ_OFF:
                panel.plot([1000], [_READ_OFF[name][index]], "x", color=colours[label])
        for label, (_, _, printed, _) in _MEANS.items():
            panel.axhline(printed, linestyle=":", linewidth=0.8, color=colours[label])
        instance = evaluation_instance(name, 1000 * _MIB)
        best = utilisation(instance, lambda i: balance(i, chunks=8))
        panel.plot([1000], [100 * best], "*", color="#208030", label="balanced, 8 chunks")
        sizes = " x ".join(str(size) for _, size, _, _ in NETWORKS[name])
        assert prod(size for _, size, _, _ in NETWORKS[name]) == 1024
        panel.set_title(f"{name}  ({sizes})", fontsize=9)
        panel.set_ylim(0, 104)
    for panel in panels[1]:
        panel.set_xlabel("all-reduce, MiB per NPU")
    for panel in panels[:, 0]:
        panel.set_ylabel("utilisation, %")
    panels[0][0].legend(loc="lower right", fontsize=8)
    figure.suptitle(
        "Lines: this model. Crosses: read off the paper's figure. Dotted: printed means.",
        fontsize=9,
    )
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)

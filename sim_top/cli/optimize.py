"""LIBRA: the bandwidth of every dim that trains a group of workloads fastest, or at the best
time x cost, under linear constraints.

The experiment names network, workloads, constraints, prices and objective; LIBRA's own files may
stand in the place of each. Beside the optimum stands its certificate: a bound that no bandwidths
under the constraints can beat, computed apart from the solver. Predicted and simulated iteration
times stand side by side.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sim_top.cli.frame import Output, value, whole, write_whole
from sim_top.cli.targets import check_file, target
from sw_model.errors import InputError

if TYPE_CHECKING:
    from sw_model.optimize.confirm import Confirmation
    from sw_model.optimize.problem import Optimum

EXAMPLE = "antiphon optimize examples/optimize.yaml --front front.csv --plot front.svg"
_LARGEST_GAP = 1e-3
_SHOWN_WAYS = 5


def _points(text: str) -> int:
    number = whole(text)
    if not 2 <= number <= 1000:
        raise ValueError(f"must be in 2..1000, not {number}")
    return number


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument(
        "experiment", type=Path, metavar="EXPERIMENT.yaml", help="what is optimised"
    )
    parser.add_argument(
        "--objective",
        choices=["perf", "perf-per-cost"],
        help="instead of the experiment's: iteration time, or iteration time x cost",
    )
    parser.add_argument(
        "--front", type=target, metavar="FILE.csv", help="write the front of time against cost"
    )
    parser.add_argument("--plot", type=target, metavar="FILE", help="draw that front, .svg or .png")
    parser.add_argument(
        "--points", type=value(_points), default=24, metavar="N", help="of the front (default 24)"
    )
    parser.add_argument(
        "--chunks", type=whole, default=64, metavar="C", help="of a simulated collective"
    )
    parser.add_argument(
        "--no-simulate", action="store_true", help="leave the transaction-level model out"
    )


def _check_apart(arguments: argparse.Namespace, output: Output) -> None:
    """Refuse outputs that would be written over each other, or over the experiment.

    Raises
    ------
    InputError
        names both.
    """
    json = None if output.json_target in (None, "-") else Path(str(output.json_target))
    known = {arguments.experiment.resolve(): "the experiment"}
    for option, path in (
        ("--front", arguments.front),
        ("--plot", arguments.plot),
        ("--json", json),
    ):
        if path is None:
            continue
        other = known.setdefault(path.resolve(), option)
        if other != option:
            raise InputError(f"{option} must name another file than {other}, not {path}")


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Solve, certify, simulate, report."""
    from sw_model.optimize.confirm import LARGEST, confirm
    from sw_model.optimize.experiment import read_optimisation
    from sw_model.optimize.front import front_csv, front_row, pareto_front
    from sw_model.optimize.problem import Objective, optimise

    if arguments.front is not None:
        check_file("--front", arguments.front, (".csv",))
    if arguments.plot is not None:
        check_file("--plot", arguments.plot, (".svg", ".png"))
    _check_apart(arguments, output)
    asked = read_optimisation(arguments.experiment)
    wants_front = arguments.front is not None or arguments.plot is not None
    if arguments.objective is not None:
        asked = replace(asked, objective=Objective(arguments.objective))
    if asked.prices is None:
        for option, given in (
            ("--front", wants_front),
            ("--objective perf-per-cost", asked.objective is Objective.PERF_PER_COST),
        ):
            if given:
                raise InputError(f"prices must be given for {option}", path=asked.path)
    choices = asked.choices()
    found: list[tuple[str, Optimum]] = []
    with output.progress("optimise") as progress:
        for number, (name, problem) in enumerate(choices, start=1):
            found.append((name, optimise(problem)))
            progress(number / len(choices))
    found.sort(key=lambda way: way[1].value)
    name, best = found[0]
    data = _json(name, best)
    if len(found) > 1:
        data["divisions"] = [
            {
                "name": way,
                "objective": float(other.value),
                "time_ns": float(other.time_ns),
                "bandwidth_gbps": [float(b) for b in other.bandwidths],
            }
            for way, other in found
        ]
    output.data = data
    confirmed: list[Confirmation] = []
    if not arguments.no_simulate and asked.network.npus <= LARGEST:
        with output.progress("TLM") as progress:
            confirmed = confirm(best, chunks=arguments.chunks, progress=progress)
        for entry, one in zip(data["workloads"], confirmed, strict=True):
            entry["simulated_ns"] = float(one.simulated)
            entry["explained_ns"] = float(one.explained)
            entry["unexplained_ns"] = float(one.unexplained)
    if output.json_target != "-":
        output.show(*_tables(name, best, found, confirmed))
        if not confirmed and not arguments.no_simulate:
            output.show(f"not simulated: more than {LARGEST} NPUs")
    if wants_front:
        with output.progress("front") as progress:
            front = pareto_front(best.problem, arguments.points, progress)
        data["front"] = [front_row(point) for point in front]
        if arguments.plot is not None:
            _draw_whole(front, best, arguments.plot)
        if arguments.front is not None:
            write_whole(arguments.front, front_csv(front).encode())
        files = [str(path) for path in (arguments.front, arguments.plot) if path is not None]
        output.show(f"front of {len(front)} points: {', '.join(files)}")
    return best.gap <= _LARGEST_GAP


def _draw_whole(front: list[Optimum], best: Optimum, path: Path) -> None:
    """The plot, whole or not at all."""
    from sw_model.optimize.front import draw_front

    with TemporaryDirectory() as folder:
        drawn = Path(folder) / path.name
        draw_front(front, best, drawn)
        write_whole(path, drawn.read_bytes())


def _json(name: str, best: Optimum) -> dict[str, Any]:
    problem = best.problem
    return {
        "objective": float(best.value),
        "objective_name": problem.objective.value,
        "objective_unit": "ns" if problem.objective.value == "perf" else "ns x USD",
        "bound": float(best.bound),
        "gap": best.gap,
        "bandwidth_gbps": [float(b) for b in best.bandwidths],
        "time_ns": float(best.time_ns),
        "cost_usd": None if best.cost is None else float(best.cost),
        "speedup_over_equal": best.speedup_over_equal,
        "equal_time_ns": float(best.equal_ns),
        "network": problem.network.name,
        "npus": problem.network.npus,
        "scheduling": problem.scheduling.value,
        "division": name or None,
        "dims": [
            {
                "name": f"B{number}",
                "kind": dim.kind.value,
                "size": dim.size,
                "tier": None if dim.tier is None else dim.tier.value,
                "gb_per_s": float(bandwidth),
            }
            for number, (dim, bandwidth) in enumerate(
                zip(problem.network.dims, best.bandwidths, strict=True), start=1
            )
        ],
        "workloads": [
            {"name": task.name, "weight": float(task.weight), "predicted_ns": float(ns)}
            for task, ns in zip(problem.tasks, best.task_ns, strict=True)
        ],
    }


def _tables(
    name: str,
    best: Optimum,
    found: list[tuple[str, Optimum]],
    confirmed: list[Confirmation],
) -> list[Any]:
    from rich import box
    from rich.table import Table

    from sw_model.units import format_time_ns

    def table(title: str, *columns: tuple[str, str]) -> Table:
        out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        for column, justify in columns:
            out.add_column(column, justify=justify)  # type: ignore[arg-type]
        return out

    problem = best.problem
    dims = table(
        f"Bandwidths of {problem.network.name}, {problem.network.npus} NPUs",
        ("dim", "left"),
        ("kind", "left"),
        ("NPUs", "right"),
        ("tier", "left"),
        ("GB/s per NPU", "right"),
    )
    for number, (dim, bandwidth) in enumerate(
        zip(problem.network.dims, best.bandwidths, strict=True), start=1
    ):
        tier = "" if dim.tier is None else dim.tier.value
        figures = (dim.kind.value, str(dim.size), tier, f"{float(bandwidth):,.3f}")
        dims.add_row(f"B{number}", *figures)
    result = table("Optimum", ("", "left"), ("", "right"))
    unit = "ns" if problem.objective.value == "perf" else "ns x $"
    rows = [
        ("objective", f"{problem.objective.value}, {problem.scheduling.value} schedule"),
        ("value", f"{float(best.value):,.9g} {unit}"),
        ("certified bound", f"{float(best.bound):,.9g} {unit}"),
        ("gap", f"{max(0.0, 100 * best.gap):.2g} %"),
        ("iteration time", format_time_ns(best.time_ns)),
        ("network", "not priced" if best.cost is None else f"{float(best.cost):,.0f} $"),
        ("speed-up over equal bandwidths", f"{best.speedup_over_equal:.4f} x"),
    ]
    for row in [("division", name)] * bool(name) + rows:
        result.add_row(*row)
    workloads = table(
        "Iteration times, predicted and on the transaction-level model",
        ("workload", "left"),
        ("weight", "right"),
        ("predicted", "right"),
        ("simulated", "right"),
        ("difference", "right"),
        ("of it filling, latency", "right"),
        ("other", "right"),
    )
    for index, (task, ns) in enumerate(zip(problem.tasks, best.task_ns, strict=True)):
        cells = [task.name, f"{float(task.weight):g}", format_time_ns(ns)]
        if confirmed:
            one = confirmed[index]
            cells += [
                format_time_ns(one.simulated),
                f"{100 * float((one.simulated - ns) / ns):+.3f} %",
                f"{100 * float(one.explained / ns):+.3f} %",
                f"{100 * float(one.unexplained / ns):+.3f} %",
            ]
        workloads.add_row(*cells)
    out: list[Any] = [dims, result, workloads]
    if len(found) > 1:
        ways = table(
            f"Divisions, the best of {len(found)}",
            ("division", "left"),
            ("iteration", "right"),
            ("value over the best", "right"),
            ("GB/s per NPU", "left"),
        )
        for way, other in found[:_SHOWN_WAYS]:
            widths = ", ".join(f"{float(b):,.2f}" for b in other.bandwidths)
            over = f"{float(other.value / best.value):.4f} x"
            ways.add_row(way, format_time_ns(other.time_ns), over, widths)
        out.append(ways)
    return out

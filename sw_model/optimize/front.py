"""The Pareto front of time against cost: at every cost the least time that it can buy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from sw_model.optimize.constraint import Constraint
from sw_model.optimize.problem import Objective, Optimum, Problem, optimise
from sw_model.optimize.simplex import Row, maximise
from sw_model.report.csv_text import csv_text

__all__ = ["draw_front", "front_csv", "front_row", "pareto_front"]


def pareto_front(
    problem: Problem, points: int, progress: Callable[[float], object] | None = None
) -> list[Optimum]:
    """Points from the cheapest network that the constraints allow to the fastest, at costs that
    grow by equal factors. A point that is no faster than one before it is left out.

    Raises
    ------
    InputError
        as `optimise`, and ValueError where nothing is priced.
    """
    if problem.prices is None:
        raise ValueError("prices must be given for a front of time against cost")
    if points < 2:
        raise ValueError(f"a front must have at least 2 points, not {points}")
    fastest = optimise(replace(problem, objective=Objective.PERF))
    assert fastest.cost is not None
    rates = problem.prices.rates(problem.network)
    rows = [*(c.row for c in problem.constraints), *problem.floors]
    lowest = maximise([-rate for rate in rates], rows)
    assert lowest is not None
    least = sum((r * b for r, b in zip(rates, lowest, strict=True)), Fraction(0))
    out: list[Optimum] = []
    for number in range(points):
        share = number / (points - 1)
        if number == points - 1 or least == fastest.cost:
            found = fastest
        else:
            cost = least * Fraction(float(fastest.cost / least) ** share)
            budget = Constraint("cost", Row(rates, max(cost, least)))
            limited = (*problem.constraints, budget)
            found = optimise(replace(problem, objective=Objective.PERF, constraints=limited))
        if not out or found.time_ns < out[-1].time_ns:
            out.append(found)
        if progress is not None:
            progress((number + 1) / points)
    return out


def front_row(point: Optimum) -> dict[str, float]:
    """A point's figures."""
    assert point.cost is not None
    row = {"cost_usd": point.cost, "time_ns": point.time_ns, "bound_ns": point.bound}
    row |= {f"b{d}_gb_per_s": b for d, b in enumerate(point.bandwidths, start=1)}
    return {name: float(figure) for name, figure in row.items()}


def front_csv(front: Sequence[Optimum]) -> str:
    """One line a point: cost, time, its bound, the bandwidths."""
    return csv_text([front_row(point) for point in front])


def draw_front(front: Sequence[Optimum], chosen: Optimum, path: Path) -> None:
    """Time over cost, the chosen network on it, and the bandwidths below."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    costs = [float(point.cost or 0) / 1e6 for point in front]
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 7), sharex=True)
    above.plot(costs, [float(p.time_ns) / 1e6 for p in front], ".-", label="least time")
    above.plot(
        [float(chosen.cost or 0) / 1e6],
        [float(chosen.time_ns) / 1e6],
        "*",
        markersize=12,
        label=f"optimum, {chosen.problem.objective.value}",
    )
    above.set_ylabel("iteration, ms")
    above.set_yscale("log")
    above.legend()
    for d, dim in enumerate(chosen.problem.network.dims):
        label = f"B{d + 1}, {dim.kind.value} {dim.size}"
        below.plot(costs, [float(p.bandwidths[d]) for p in front], ".-", label=label)
    below.set_ylabel("GB/s per NPU")
    below.set_xlabel("network, million $")
    below.set_xscale("log")
    below.set_yscale("log")
    below.legend()
    above.set_title(f"{chosen.problem.network.name}, {chosen.problem.network.npus} NPUs")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)

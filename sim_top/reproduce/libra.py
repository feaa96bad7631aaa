"""LIBRA (Won et al., ISPASS 2024): published allocations, and gains over equal bandwidths.

The allocations were published with the artifact of LIBRA's predecessor, the gains are those of the
inputs in LIBRA's public repository. Their workloads are two layers of a transformer, each of nine
parts; here they are written from the shapes that they were made of: batch b, sequence s, hidden
size h, tensor parallelism t, FP16, and NPUs of 60 x 2^40 operations a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from sim_top.reproduce.registry import Row
from sw_model.collective.plan import Operation
from sw_model.optimize.constraint import parse_constraint
from sw_model.optimize.demand import split_groups
from sw_model.optimize.iteration import TrainingTask, iteration_of_layers
from sw_model.optimize.network import OpenDim, OpenNetwork, Tier
from sw_model.optimize.prices import Prices, TierPrices
from sw_model.optimize.problem import Objective, Optimum, Problem, optimise, times_ns
from sw_model.topology import DimKind
from sw_model.workload.layers import Communication, Layer, Mode, Pass, Workload

__all__ = ["GPT3", "NETWORKS", "PRICES", "SHAPES", "Shape", "draw", "problem", "rows", "workload"]

_OPERATIONS_PER_NS = Fraction(60 * 2**40, 10**9)
_ELEMENT = 2  # bytes


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a workload was made of."""

    batch: int
    sequence: int
    hidden: int
    tensor: int


#: The artifact's workloads.
SHAPES = {
    "17B": Shape(batch=16, sequence=512, hidden=4256, tensor=1),
    "175B": Shape(batch=16, sequence=2048, hidden=12288, tensor=16),
    "1T": Shape(batch=8, sequence=2048, hidden=24576, tensor=128),
}
#: The repository's GPT-3: its gradients are reduced once, all together.
GPT3 = SHAPES["175B"]

_C, _P, _N, _D = Tier
_RING, _FULL, _SWITCH = DimKind.RING, DimKind.FULLY_CONNECTED, DimKind.SWITCH


def _network(*dims: tuple[DimKind, int, Tier]) -> OpenNetwork:
    return OpenNetwork(dims=tuple(OpenDim(kind=k, size=n, tier=t) for k, n, t in dims))


#: The artifact's networks of 1024 NPUs, and the repository's of 4096.
NETWORKS = {
    "2D": _network((_RING, 8, _P), (_SWITCH, 128, _D)),
    "3D": _network((_RING, 8, _P), (_FULL, 8, _N), (_SWITCH, 16, _D)),
    "4D": _network((_RING, 2, _C), (_FULL, 8, _P), (_RING, 8, _N), (_SWITCH, 8, _D)),
    "3D-4096": _network((_RING, 16, _P), (_FULL, 8, _N), (_SWITCH, 32, _D)),
    "4D-4096": _network((_RING, 4, _C), (_FULL, 8, _P), (_RING, 4, _N), (_SWITCH, 32, _D)),
}
#: $ for a GB/s. The artifact counts half the links of a Ring or FullyConnected dim.
PRICES = Prices(
    tiers={
        _C: TierPrices(link=Fraction(2)),
        _P: TierPrices(link=Fraction(4), switch=Fraction(13)),
        _N: TierPrices(link=Fraction(4), switch=Fraction(13)),
        _D: TierPrices(link=Fraction(39, 5), switch=Fraction(18), nic=Fraction(158, 5)),
    },
    shared_links=True,
)
#: GB/s of 100 in all.
_PERF = {
    "2D": (81.92, 18.08),
    "3D": (81.92, 13.77, 4.31),
    "4D": (43.96, 38.47, 15.62, 1.95),
}
_PERF_PER_COST = {
    "2D": (96.59, 3.41),
    "3D": (92.46, 6.61, 0.93),
    "4D": (58.91, 36.65, 3.96, 0.48),
}
_GROUP = {
    "2D": (84.48, 15.52),
    "3D": (80.95, 10.80, 8.25),
    "4D": (43.09, 37.71, 11.25, 7.95),
}
#: Gains over equal bandwidths by GB/s in all, on the two networks of 4096 NPUs.
_GAINS = {100: (1.241, 1.301), 300: (1.095, 1.117), 1000: (1.031, 1.037)}
_PUBLISHED = "published allocation"
_LARGEST_GAP = 0.1  # per cent


def workload(shape: Shape, *, gradients_at_once: bool = False) -> Workload:
    """Two layers, as the artifact has them, or with one reduction of all gradients."""
    b, s, h, t = shape.batch, shape.sequence, shape.hidden, shape.tensor
    activation = _ELEMENT * b * s * h
    square = _ELEMENT * h * h // t
    matrix, scores, norm = 2 * b * s * h * h // t, b * s * s * h // t, 2 * b * s * h
    none = Communication()

    def reduced(size: int) -> Communication:
        return Communication(Operation.ALL_REDUCE, size)

    whole = reduced(activation)
    gathered = Communication(Operation.ALL_GATHER, activation // t)
    # Name, operations of a pass, collectives forward and of the input gradient, gradient bytes.
    parts = (
        ("Q", matrix, none, whole, square),
        ("K", matrix, none, none, square),
        ("V", matrix, none, none, square),
        ("QK", scores, none, none, 0),
        ("softmax", scores, none, none, 0),
        ("concat", matrix, whole, gathered, square),
        ("XW1", 4 * matrix, none, whole, 4 * square),
        ("XW2", 4 * matrix, whole, none, 4 * square),
        ("norm", norm, none, none, 0),
    )
    layers = []
    for number in (1, 2):
        for name, operations, forward, back, size in parts:
            time = round(operations / _OPERATIONS_PER_NS)
            if gradients_at_once:
                size = 24 * square if name == "Q" and number == 1 else 0
            gradient = reduced(size) if size else none
            layers.append(
                Layer(f"{name}{number}", time, forward, time, back, time, gradient, update_ns=10)
            )
    return Workload(mode=Mode.DATA, layers=tuple(layers))


def _task(name: str, shape: Shape, network: OpenNetwork, forward: int, once: bool) -> TrainingTask:
    inner, outer = split_groups(
        network, (shape.tensor, network.npus // shape.tensor), ("tensor", "data")
    )
    iteration = iteration_of_layers(
        workload(shape, gradients_at_once=once),
        lambda _, part: outer if part is Pass.WEIGHT_GRADIENT else inner,
        forward_comm_count=forward,
    )
    return TrainingTask(name=name, iteration=iteration)


def problem(
    network: str,
    *names: str,
    total: int = 100,
    objective: Objective = Objective.PERF,
    forward_comm_count: int = 2,
) -> Problem:
    """The bandwidths of a network that are best for a group; ``GPT-3`` is the repository's."""
    dims = NETWORKS[network]
    tasks = tuple(
        _task(name, SHAPES.get(name, GPT3), dims, forward_comm_count, name == "GPT-3")
        for name in names
    )
    return Problem(
        network=dims,
        tasks=tasks,
        constraints=(parse_constraint(f"total = {total}", len(dims.dims)),),
        objective=objective,
        prices=PRICES,
    )


@lru_cache(maxsize=64)
def _solved(network: str, names: tuple[str, ...], objective: Objective) -> Optimum:
    return optimise(problem(network, *names, objective=objective))


def rows(progress: Callable[[float], object]) -> list[Row]:
    """All figures."""
    out: list[Row] = []
    for number, network in enumerate(("2D", "3D", "4D"), start=1):
        for what, names, figures in (
            ("175B", ("175B",), _PERF[network]),
            ("17B, 175B and 1T", ("17B", "175B", "1T"), _GROUP[network]),
        ):
            optimum = _solved(network, names, Objective.PERF)
            label = f"{network}, {what}, least time"
            out += _allocation(label, optimum, figures)
            out.append(_gap(label, optimum))
        out += _per_cost(network)
        progress(number / 4)
    out += _gains()
    progress(1.0)
    return out


def _allocation(
    label: str, optimum: Optimum, figures: tuple[float, ...], why: str = ""
) -> list[Row]:
    return [
        Row(f"{label}: B{d}", float(ours), theirs, _PUBLISHED, 0.02, "GB/s", reason=why)
        for d, (ours, theirs) in enumerate(zip(optimum.bandwidths, figures, strict=True), start=1)
    ]


def _gap(label: str, optimum: Optimum) -> Row:
    what = f"{label}: certified gap"
    return Row(what, 100 * optimum.gap, 0, "goal of this project", _LARGEST_GAP, "%")


def _per_cost(network: str) -> list[Row]:
    """Time x cost of the published allocation over ours, and the allocation."""
    optimum = _solved(network, ("175B",), Objective.PERF_PER_COST)
    published = tuple(Fraction(str(b)) for b in _PERF_PER_COST[network])
    (time,) = times_ns(optimum.problem, published)
    ratio = time * PRICES.cost(optimum.problem.network, published) / optimum.value
    label = f"{network}, 175B, least time x cost"
    reason = ""
    if network == "4D":
        reason = (
            f"the published allocation is {100 * float(ratio - 1):.3f} % above the optimum, which "
            f"is certified to {100 * optimum.gap:.1g} %"
        )
    out = [
        Row(
            f"{label}: that of the published allocation over ours",
            float(ratio),
            1,
            _PUBLISHED,
            0,
            "x",
            at_least=True,
        ),
        *_allocation(label, optimum, _PERF_PER_COST[network], reason),
        _gap(label, optimum),
    ]
    return out


def _gains() -> list[Row]:
    out = []
    for total, figures in _GAINS.items():
        for network, gain in zip(("3D-4096", "4D-4096"), figures, strict=True):
            optimum = optimise(problem(network, "GPT-3", total=total, forward_comm_count=1))
            title = optimum.problem.network.name
            what = f"GPT-3 on {title}, {total} GB/s: gain over equal bandwidths"
            ours = optimum.speedup_over_equal
            out.append(Row(what, ours, gain, "derived from the released inputs", 0.005, "x"))
            out.append(_gap(f"GPT-3 on {title}, {total} GB/s", optimum))
    return out


def draw(path: Path) -> None:
    """Allocations, ours beside the published ones."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sets = (
        ("175B, least time", ("175B",), Objective.PERF, _PERF),
        ("17B, 175B and 1T, least time", ("17B", "175B", "1T"), Objective.PERF, _GROUP),
        ("175B, least time x cost", ("175B",), Objective.PERF_PER_COST, _PERF_PER_COST),
    )
    figure, panels = plt.subplots(1, 3, figsize=(12, 4), sharey=True)
    for panel, (title, names, objective, published) in zip(panels, sets, strict=True):
        for place, (network, theirs) in enumerate(published.items()):
            ours = [float(b) for b in _solved(network, names, objective).bandwidths]
            for shift, values in ((-0.2, ours), (0.2, list(theirs))):
                bottom = 0.0
                for d, value in enumerate(values):
                    panel.bar(
                        place + shift,
                        value,
                        0.36,
                        bottom=bottom,
                        color=f"C{d}",
                        hatch="" if shift < 0 else "//",
                        edgecolor="white",
                        label=f"B{d + 1}" if network == "4D" and shift < 0 else None,
                    )
                    bottom += value
        panel.set_xticks(range(3), list(published))
        panel.set_title(title, fontsize=10)
    panels[0].set_ylabel("GB/s of 100")
    panels[2].legend(loc="center right", fontsize=8)
    figure.suptitle("Plain: ours. Hatched: published.", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)

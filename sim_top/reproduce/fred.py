"""The figures of FRED (ISCA 2025): microbenchmarks of the wafer, and training iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

from sim_top.reproduce import fred_routability, fred_switches
from sim_top.reproduce.registry import Row, Table
from sw_model.wafer.collectives import all_reduce_seconds
from sw_model.wafer.fabric import COLUMNS, FABRICS, IO_CONTROLLERS, NPUS, ROWS, broadcast_uses
from sw_model.wafer.iteration import (
    IO_BANDWIDTH,
    SAMPLES,
    Strategy,
    communication_seconds,
    compute_seconds,
    implied_compute,
    io_share,
    streaming_seconds,
)
from sw_model.workload.catalogue import model_named

__all__ = ["draw", "rows", "tables"]

#: Relative times as printed, the mesh being 1; by microbenchmark.
_WAFER_WIDE = {"A": 0.81, "B": 0.53, "C": 0.50, "D": 0.26}
_DATA_PART = {"A": 2.0, "B": 1.25, "C": 0.25, "D": 0.16}
#: Effective bandwidths of an NPU as printed, GB/s: bytes that it sends over the time.
_WAFER_WIDE_RATES = {"mesh": 1500, "A": 375 + 4 * 375, "B": 1500, "C": 3000, "D": 3000}
_DATA_PART_RATES = {"mesh": 750, "A": 375, "B": 375, "C": 3000, "D": 3000}
_BYTES = 10**9
#: Operations per second of an NPU. Recalled from the paper's table, not read again.
_PEAK = 10**15
#: Model, strategy, printed gains of Fred-C and Fred-D: weights stay.
_STATIONARY = (
    ("resnet152", Strategy(tensor=1, data=20, pipeline=1), 1.41, 1.76),
    ("transformer-17b", Strategy(tensor=3, data=3, pipeline=2, microbatches=8), 1.75, 1.87),
)
#: The same, weights streamed.
_STREAMED = (
    ("gpt3", Strategy(tensor=2, data=5, pipeline=2, microbatches=2), 1.34, 1.34),
    ("transformer-1t", Strategy(tensor=1, data=20, pipeline=1), 1.40, 1.40),
)
_PRINTED = "printed, evaluation"
_SAMPLES = f"{SAMPLES} samples a replica"


def _groups() -> dict[str, list[tuple[int, ...]]]:
    """Members of all groups, by microbenchmark."""
    return {
        "MP(20)": [tuple(range(NPUS))],
        "DP of MP(2)-DP(5)-PP(2)": Strategy(tensor=2, data=5, pipeline=2).data_groups(),
    }


def _microbenchmarks() -> dict[str, dict[str, float]]:
    """Relative times by microbenchmark and fabric."""
    out = {}
    for name, members in _groups().items():
        seconds = {f: all_reduce_seconds(FABRICS[f], members, _BYTES) for f in FABRICS}
        out[name] = {f: float(s / seconds["mesh"]) for f, s in seconds.items()}
    return out


def _rates() -> list[Row]:
    """Effective bandwidths, from the bytes that an NPU sends: all of them once in the network, and
    2 (n - 1) / n of them by rings."""
    out = []
    for (name, members), printed in zip(
        _groups().items(), (_WAFER_WIDE_RATES, _DATA_PART_RATES), strict=True
    ):
        n = len(members[0])
        for fabric, figure in printed.items():
            network = FABRICS[fabric]
            sent = Fraction(1) if network.in_network else Fraction(2 * (n - 1), n)
            seconds = all_reduce_seconds(network, members, _BYTES)
            title = fabric if fabric == "mesh" else f"Fred-{fabric}"
            reason = ""
            if (n, fabric) == (NPUS, "A"):
                # What crosses the trunk: of the quarter that an L1 leaves to each of its four.
                least = Fraction(2 * (ROWS - 1), ROWS) * _BYTES / network.trunk
                reason = (
                    f"the trunk of an L1 carries {float(least * network.trunk) / _BYTES:g} "
                    f"payloads at {network.trunk / 10**9:g} GB/s, and an NPU sends "
                    f"{float(sent):g} meanwhile, so that no more than "
                    f"{float(sent * _BYTES / least) / 10**9:.5g} GB/s can be had; the printed "
                    "figure is that of 2 payloads"
                )
            out.append(
                Row(
                    f"{name} all-reduce, {title}, effective bandwidth of an NPU",
                    float(sent * _BYTES / seconds) / 10**9,
                    figure,
                    "printed rates",
                    0.05 * figure,
                    "GB/s",
                    reason=reason,
                )
            )
    return out


def rows(progress: Callable[[float], object]) -> list[Row]:
    """All figures."""
    out = []
    for (name, ours), printed in zip(
        _microbenchmarks().items(), (_WAFER_WIDE, _DATA_PART), strict=True
    ):
        for fabric, figure in printed.items():
            out.append(
                Row(
                    f"{name} all-reduce, Fred-{fabric}, time over the mesh's",
                    ours[fabric],
                    figure,
                    "printed rates, derived times",
                    0.05 * figure,
                )
            )
    out += _rates()
    progress(0.4)
    for mesh in range(3, 7):
        out.append(
            Row(
                f"I/O streams on the hottest link, {mesh} x {mesh} mesh",
                max(broadcast_uses(mesh, mesh).values()),
                2 * mesh - 1,
                "printed: (2N - 1) P",
                0,
                "streams",
            )
        )
    for name, strategy, with_c, with_d in _STATIONARY:
        out += _stationary(name, strategy, with_c, with_d)
    progress(0.8)
    for name, strategy, with_c, with_d in _STREAMED:
        out += _streamed(name, strategy, with_c, with_d)
    out += fred_switches.rows()
    out += fred_routability.rows(lambda share: progress(0.8 + 0.2 * share))
    return out


def tables() -> list[Table]:
    """See `fred_switches.tables`."""
    return fred_switches.tables()


def _stationary(name: str, strategy: Strategy, with_c: float, with_d: float) -> list[Row]:
    model = model_named(name)
    title = f"{model.title}, {strategy.name}"
    moved = {f: communication_seconds(FABRICS[f], model, strategy) for f in ("mesh", "C", "D")}
    computed = compute_seconds(model, strategy, operations_per_second=_PEAK)
    needed = implied_compute(Fraction(str(with_c)), moved["mesh"], moved["C"])
    rate = float(computed / needed)
    reason = (
        f"the printed gain of Fred-C needs {float(needed) * 1e3:.3g} ms of compute "
        f"beside {float(moved['mesh']) * 1e3:.3g} ms of communication on the mesh, "
        f"but {_SAMPLES} take {float(computed) * 1e3:.3g} ms at 1000 TFLOPS: "
        f"it needs NPUs {rate:.3g} times as fast, or as many times the bytes"
    )
    out = _gains(title, moved, computed, {"C": with_c, "D": with_d}, reason)
    gain = (needed + moved["mesh"]) / (needed + moved["D"])
    out.append(
        Row(
            f"{title}, gain of Fred-D, compute from the printed gain of Fred-C",
            float(gain),
            with_d,
            _PRINTED,
            0.1 * with_d,
            "x",
        )
    )
    return out


def _gains(
    title: str,
    moved: Mapping[str, Fraction],
    computed: Fraction,
    printed: Mapping[str, float],
    reason: str,
) -> list[Row]:
    """Gains over the mesh by fabric, from seconds of communication and of compute."""
    return [
        Row(
            f"{title}, gain of Fred-{fabric}, compute at 1000 TFLOPS",
            float((computed + moved["mesh"]) / (computed + moved[fabric])),
            figure,
            f"{_PRINTED}; the NPU's rate is recalled",
            0.1 * figure,
            "x",
            reason=reason,
        )
        for fabric, figure in printed.items()
    ]


def _streamed(name: str, strategy: Strategy, with_c: float, with_d: float) -> list[Row]:
    model = model_named(name)
    title = f"{model.title}, {strategy.name}, streamed"
    moved = {f: streaming_seconds(FABRICS[f], model) for f in ("mesh", "C", "D")}
    computed = compute_seconds(model, strategy, operations_per_second=_PEAK)
    needed = implied_compute(Fraction(str(with_c)), moved["mesh"], moved["C"])
    reason = (
        f"the mesh spreads {100 * float(io_share(FABRICS['mesh'])):.1f} % of the I/O "
        f"bandwidth, so streaming takes {float(moved['mesh']):.3g} s instead of "
        f"{float(moved['C']):.3g} s and the gain is at most "
        f"{float(moved['mesh'] / moved['C']):.3f}; the printed one needs "
        f"{float(needed):.3g} s of compute beside it, but {_SAMPLES} take "
        f"{float(computed):.3g} s at 1000 TFLOPS"
    )
    out = _gains(title, moved, computed, {"C": with_c, "D": with_d}, reason)
    out.append(
        Row(
            f"{title}, the most that streaming can gain",
            float(moved["mesh"] / moved["D"]),
            max(with_c, with_d),
            f"{_PRINTED}: what was gained",
            0,
            "x",
            at_least=True,
        )
    )
    return out


def draw(path: Path) -> None:
    """Bars of the microbenchmarks, ours beside the printed ones."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(10, 4))
    for panel, (name, ours), printed in zip(
        panels, _microbenchmarks().items(), (_WAFER_WIDE, _DATA_PART), strict=True
    ):
        labels = list(ours)
        places = range(len(labels))
        panel.bar([p - 0.2 for p in places], [ours[f] for f in labels], 0.4, label="ours")
        theirs = [printed.get(f, 1.0) for f in labels]
        panel.bar([p + 0.2 for p in places], theirs, 0.4, label="printed")
        panel.set_xticks(list(places), [f if f == "mesh" else f"Fred-{f}" for f in labels])
        panel.set_title(f"{name} all-reduce", fontsize=10)
        panel.set_ylabel("time over the mesh's")
    panels[0].legend()
    figure.suptitle(
        f"{ROWS} x {COLUMNS} NPUs, {IO_CONTROLLERS} I/O controllers "
        f"of {IO_BANDWIDTH // 10**9} GB/s",
        fontsize=9,
    )
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)

"""The engine's design space as a plot: SRAM and FSM contexts, on the model and on the RTL.

    python -m sim_top.bench.ace_design docs/images/ace-design.png build/bench.jsonl

draws what the transaction-level model says now, and the points of the RTL from the last benchmark
of them in the history.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from sim_top.bench.ace import CONFIRMED, CONTEXTS, SRAM_CHUNKS, design_space, line_share

__all__ = ["confirmed", "draw", "point"]


def point(chunks: int, contexts: int) -> str:
    """The benchmark of one engine."""
    return f"ace.design.chunks_{chunks}.contexts_{contexts}"


def confirmed(history: Path) -> dict[tuple[int, int], float]:
    """Shares of the line rate on the RTL, from the last line that has them.

    Raises
    ------
    ValueError
        where no line has them.
    """
    for line in reversed(history.read_text().splitlines()):
        found = {result["name"]: result["value"] for result in json.loads(line)["results"]}
        if all(point(*engine) in found for engine in CONFIRMED):
            return {engine: found[point(*engine)] for engine in CONFIRMED}
    raise ValueError(f"{history} must have the benchmarks ace.design: antiphon bench --only ace")


def draw(
    path: Path, model: Mapping[tuple[int, int], int], rtl: Mapping[tuple[int, int], float]
) -> None:
    """Lines of the model's cycles over contexts, a marker for each point of the RTL."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.5))
    for chunks in SRAM_CHUNKS:
        shares = [100 * line_share(model[chunks, contexts]) for contexts in CONTEXTS]
        (line,) = axis.plot(CONTEXTS, shares, marker=".", label=f"{chunks} chunks")
        there = {contexts: share for (size, contexts), share in rtl.items() if size == chunks}
        axis.plot(
            list(there),
            [100 * share for share in there.values()],
            linestyle="",
            marker="s",
            markersize=9,
            fillstyle="none",
            color=line.get_color(),
        )
    axis.set_xscale("log", base=2)
    axis.set_xticks(CONTEXTS, [str(contexts) for contexts in CONTEXTS])
    axis.set_xlabel("FSM contexts of a dim (squares: RTL)")
    axis.set_ylabel("of the busiest ring's line rate, from end to end, %")
    axis.set_title("all-reduce of 4 MiB per NPU, scaled, on 4 x 2 x 2", fontsize=10)
    axis.legend(title="SRAM at each position", fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), design_space(), confirmed(Path(sys.argv[2])))

"""The engine's design space, SRAM and FSM contexts, on the model and on the RTL.

    python -m sim_top.bench.ace_design docs/images/ace-design.png build/bench.jsonl

prints the tables of docs/ace.md and draws its plot: what the transaction-level model says now, and
the points of the RTL from the last benchmark of them in the history. Without arguments it prints
the model's table only.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from sim_top.bench.ace import (
    CONFIRMED,
    CONTEXTS,
    SRAM_CHUNKS,
    design_space,
    line_share,
    torus_platform,
)
from sim_top.bench.ace_bounds import point
from sim_top.bench.bounds import AGREEMENT, agree

__all__ = ["check_agreement", "confirmed", "confirmed_table", "draw", "main", "model_table"]

Cycles = Mapping[tuple[int, int], int]
"""By chunks at each position and FSM contexts."""


def confirmed(history: Path) -> dict[tuple[int, int], int]:
    """Cycles on the RTL, from the last line that has them.

    Raises
    ------
    ValueError
        where no line has them.
    """
    for line in reversed(history.read_text().splitlines()):
        found = {result["name"]: result["value"] for result in json.loads(line)["results"]}
        if all(f"{point(*where)}.cycles" in found for where in CONFIRMED):
            return {where: int(found[f"{point(*where)}.cycles"]) for where in CONFIRMED}
    raise ValueError(f"{history} must have the benchmarks ace.design: antiphon bench --only ace")


def check_agreement(model: Cycles, rtl: Cycles) -> None:
    """Both must agree, or one of them is of an earlier state.

    Raises
    ------
    ValueError
        naming the first engine for which they do not.
    """
    for (chunks, contexts), cycles in rtl.items():
        if not agree(cycles, model[chunks, contexts]):
            raise ValueError(
                f"{chunks} chunks and {contexts} contexts: the RTL's {cycles:,} cycles must be "
                f"within {AGREEMENT:.0%} of the TLM's {model[chunks, contexts]:,}; measure again: "
                "antiphon bench --only ace"
            )


def model_table(model: Cycles) -> str:
    """Shares of the line rate as Markdown: a row for each size of SRAM, a column for each number of
    contexts."""
    first, *others = (str(contexts) for contexts in CONTEXTS)
    lines = [
        f"| chunks (KiB of SRAM) | {first} context | {' | '.join(others)} |",
        "|---" * (1 + len(CONTEXTS)) + "|",
    ]
    for chunks in SRAM_CHUNKS:
        shares = [f"{line_share(model[chunks, contexts]):.3f}" for contexts in CONTEXTS]
        lines.append(f"| {chunks} ({_sram_kib(chunks)}) | {' | '.join(shares)} |")
    return "\n".join(lines)


def confirmed_table(model: Cycles, rtl: Cycles) -> str:
    """Cycles of the RTL and of the model as Markdown."""
    lines = ["| chunks | contexts | RTL | TLM | difference |", "|---|---|---|---|---|"]
    for (chunks, contexts), cycles in rtl.items():
        said = model[chunks, contexts]
        error = 100 * abs(said - cycles) / cycles
        lines.append(f"| {chunks} | {contexts} | {cycles:,} | {said:,} | {error:.3f} % |")
    return "\n".join(lines)


def _sram_kib(chunks: int) -> int:
    parameters = torus_platform(sram_chunks=chunks).engine
    flits = sum(part.buffers * part.flits for part in parameters.partitions)
    return flits * parameters.flit_bytes // 1024


def draw(path: Path, model: Cycles, rtl: Cycles) -> None:
    """Lines of the model's shares over contexts, a marker for each point of the RTL."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.5))
    for chunks in SRAM_CHUNKS:
        shares = [100 * line_share(model[chunks, contexts]) for contexts in CONTEXTS]
        (line,) = axis.plot(CONTEXTS, shares, marker=".", label=f"{chunks} chunks")
        there = {contexts: cycles for (size, contexts), cycles in rtl.items() if size == chunks}
        axis.plot(
            list(there),
            [100 * line_share(cycles) for cycles in there.values()],
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


def main(arguments: list[str] | None = None) -> None:
    """Print the tables; draw the plot, where it is named."""
    parser = argparse.ArgumentParser(prog="python -m sim_top.bench.ace_design")
    parser.add_argument("plot", nargs="?", type=Path, help="the plot that is drawn")
    parser.add_argument("history", nargs="?", type=Path, help="the history of the benchmarks")
    named = parser.parse_args(arguments)
    if named.plot is not None and named.history is None:
        parser.error("the history must be named too: build/bench.jsonl")
    rtl: Cycles = {}
    try:
        if named.history is not None:
            rtl = confirmed(named.history)
        model = design_space()
        check_agreement(model, rtl)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(model_table(model))
    if named.history is not None:
        print()
        print(confirmed_table(model, rtl))
        draw(named.plot, model, rtl)


if __name__ == "__main__":
    main()

"""The TLM against the RTL on one page with its plot (``docs/validation.md``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from sw_model.results import Crosscheck, CrosscheckCase

__all__ = ["draw", "explanation", "page"]

_WORST = 10


def page(check: Crosscheck, plot: str, *, command: str) -> str:
    """Markdown: the verdict, a line for every setting, the worst cases.

    Parameters
    ----------
    check : what was found; the name of a case is ``setting: collective``
    plot : where the plot is, from the page
    command : that made the page
    """
    timed, stalled = check.timed, [case for case in check.cases if not case.timed]
    free = tuple(case for case in timed if case.unrefused)
    one = tuple(case for case in free if case.uncontended)
    out = [
        "# The TLM against the RTL\n",
        f"Made by `{command}`; do not edit. Every case is one collective on an idle platform, "
        "planned once and executed by both. Its data must be those of the plan's replay in NumPy "
        "bit for bit, and flits, headers, reductions and memory bytes of every rank and dim must "
        "be equal. Cycles count from the entry of the last rank to the end of the last; they must "
        "be equal where the collective is one chunk and no bank of an SRAM has refused a request, "
        f"lie within {check.bound:.0%} or {check.slack} cycles of each other else, and within "
        f"{check.mean_bound:.0%} in the mean. Where memories refuse at random, which the TLM "
        "cannot know, cycles are not compared.\n",
        "| | cases | data right | counters equal | equal to the cycle | mean error "
        "| largest | verdict |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
        f"| timed | {len(timed):,} | {_share(timed, 'data_ok')} | {_share(timed, 'counters_ok')} "
        f"| {_exact(timed):,} | {check.mean_error:.2%} | {check.max_error:.2%} "
        f"| {'passed' if check.ok else '**failed**'} |",
        *(
            f"| {name} | {len(part):,} | {_share(part, 'data_ok')} | {_share(part, 'counters_ok')} "
            f"| {_exact(part):,} | {Crosscheck(part).mean_error:.2%} "
            f"| {Crosscheck(part).max_error:.2%} | |"
            for name, part in (
                ("of these, no bank has refused", free),
                ("of these, one chunk", one),
            )
        ),
        f"| memories refuse at random | {len(stalled):,} | {_share(stalled, 'data_ok')} "
        f"| {_share(stalled, 'counters_ok')} | | | | |",
        f"\n![cycles of the TLM against those of the RTL, and the error]({plot})\n",
        "\n## By platform and schedule\n",
        "| platform, schedule | cases | equal to the cycle | no bank has refused | of these, equal "
        "| mean error | largest | cycles |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for setting, cases in _by_setting(timed).items():
        part = Crosscheck(tuple(cases))
        its = tuple(case for case in cases if case.unrefused)
        fewest, most = (f(case.rtl_cycles for case in cases) for f in (min, max))
        out.append(
            f"| {setting} | {len(cases)} | {_exact(cases)} | {len(its)} | {_exact(its)} "
            f"| {part.mean_error:.2%} | {part.max_error:.2%} | {fewest:,} to {most:,} |"
        )
    worst = sorted(timed, key=lambda case: (-abs(case.error), case.name))[:_WORST]
    out += [
        "\n## The worst\n",
        "The TLM leaves out the banks of the SRAM ([tlm.md](tlm.md)): of the cases in which none "
        f"has refused a request, {_exact(free):,} of {len(free):,} are equal to the cycle, and "
        f"none is off by more than {_most(free)}. A request that is refused costs its stream a "
        "cycle, and where two messages come within a cycle of each other, their order. Requests "
        "are those of the busiest rank.\n",
        "| case | RTL cycles | TLM cycles | difference | error | explanation |",
        "|---|---:|---:|---:|---:|---|",
        *(
            f"| {case.name} | {case.rtl_cycles:,} | {case.tlm_cycles:,} "
            f"| {case.tlm_cycles - case.rtl_cycles:+,} | {case.error:+.2%} | {explanation(case)} |"
            for case in worst
        ),
    ]
    failing = [case for case in check.cases if not check.passes(case)]
    if failing:
        out += ["\n## What fails\n", *(f"* {case.name}: {_why(case)}" for case in failing)]
    return "\n".join(out) + "\n"


def explanation(case: CrosscheckCase) -> str:
    """Why the cycles of a case differ, as far as the RTL's counters tell."""
    difference = case.tlm_cycles - case.rtl_cycles
    if not difference:
        return "equal"
    if case.bank_collisions:
        refused = f"banks refused {case.bank_collisions:,} requests"
        if -case.bank_collisions <= difference < 0:
            return refused
        return f"{refused}, and messages went in another order"
    if case.bank_collisions == 0:
        return "no bank refused a request"
    return "not known"


def _exact(cases: Iterable[CrosscheckCase]) -> int:
    return sum(case.rtl_cycles == case.tlm_cycles for case in cases)


def _most(cases: Iterable[CrosscheckCase]) -> int:
    return max((abs(case.tlm_cycles - case.rtl_cycles) for case in cases), default=0)


def _share(cases: Iterable[CrosscheckCase], what: str) -> str:
    values = [getattr(case, what) for case in cases]
    return "all" if all(values) else f"{sum(values):,} of {len(values):,}"


def _by_setting(cases: Iterable[CrosscheckCase]) -> dict[str, list[CrosscheckCase]]:
    groups: dict[str, list[CrosscheckCase]] = defaultdict(list)
    for case in cases:
        groups[case.name.partition(": ")[0]].append(case)
    return groups


def _why(case: CrosscheckCase) -> str:
    return "; ".join(
        (
            *([] if case.data_ok else ["the data are wrong"]),
            *([] if case.counters_ok else ["counters differ"]),
            f"{case.rtl_cycles:,} cycles on the RTL, {case.tlm_cycles:,} on the TLM",
            *case.notes,
        )
    )


def draw(check: Crosscheck, path: Path) -> None:
    """Cycles of the TLM over those of the RTL, and the errors under them; one point a case."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    timed = check.timed
    rtl = [case.rtl_cycles for case in timed]
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(7, 7.5), sharex=True, height_ratios=(2, 1), layout="constrained"
    )
    above.loglog(
        [min(rtl, default=1), max(rtl, default=10)],
        [min(rtl, default=1), max(rtl, default=10)],
        color="#888888",
        linewidth=0.8,
    )
    above.loglog(rtl, [case.tlm_cycles for case in timed], ".", color="#0060a8", markersize=3)
    above.set_ylabel("TLM, cycles")
    below.semilogx(rtl, [100 * case.error for case in timed], ".", color="#0060a8", markersize=3)
    span = sorted({*rtl, 1})
    edge = [100 * max(check.bound, check.slack / cycles) for cycles in span]
    for side in (1, -1):
        below.plot(span, [side * e for e in edge], color="#c03020", linewidth=0.8)
    below.set_xlim(min(rtl, default=1) / 1.3, max(rtl, default=10) * 1.3)
    below.set_ylim(-6, 6)
    below.set_xlabel("RTL, cycles")
    below.set_ylabel("error, %")
    figure.suptitle(f"{len(timed):,} collectives: TLM against RTL")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)

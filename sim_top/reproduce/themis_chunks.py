"""Themis and ``balanced`` with few chunks, in the minimal model: 1000 MiB, without latencies.

The derived figures come from other programs for the same model. Shares of a linear program have
many optima, each cut in its own way, and a search finds what its moves and its time allow: so a
figure of the program is met nearly, and one of a search is a floor. How long the search with four
chunks took is not known: a share of 1 in the mean, of 3 on one network, is left to that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import mean

from sim_top.reproduce.registry import Row
from sw_model.schedule.balanced import balance
from sw_model.schedule.evaluation import NETWORKS, evaluation_instance
from sw_model.schedule.execution import Intra
from sw_model.schedule.single import Candidate, Instance
from sw_model.schedule.starts import equal_pieces

__all__ = ["rows"]

_SIZE = 1000 * 2**20
_DERIVED = "derived for the minimal model"
_PROGRAM = "derived: a linear program's shares in equal pieces; it has many optima"
_GREEDY = "derived: the better of a linear program's shares and a greedy choice"
_SEARCH = "derived: a local search"
_CLOSE = 0.05
#: Chunks, whether the worst network in place of the mean, share of the bound, tolerance.
_PIECES = ((64, False, 98.8, 1.0), (64, True, 92.6, 2.0), (8, False, 87.0, 3.0))
#: The same, and by whom.
_FLOORS = (
    (64, False, 99.7, _GREEDY, 0.0),
    (64, True, 98.4, _GREEDY, 0.0),
    (8, False, 92.5, _GREEDY, 0.0),
    (64, False, 100.0, _SEARCH, _CLOSE),
    (64, True, 100.0, _SEARCH, _CLOSE),
    (16, False, 100.0, _SEARCH, _CLOSE),
    (8, False, 98.0, f"{_SEARCH}, 3,000 schedules", 0.0),
    (8, True, 94.0, f"{_SEARCH}, 3,000 schedules", 0.0),
    (8, False, 99.0, f"{_SEARCH} of 0.3 s", 0.0),
    (8, True, 95.1, f"{_SEARCH} of 0.3 s", 0.0),
    (4, False, 95.1, f"{_SEARCH} of unknown length", 1.0),
    (4, True, 84.4, f"{_SEARCH} of unknown length", 3.0),
)

Schedule = Callable[[Instance], Candidate]


def rows() -> list[Row]:
    """All figures."""
    hetero = evaluation_instance("3D-SW_SW_SW_hetero", _SIZE)
    fifo = _share(hetero, hetero.themis(64, Intra.FIFO))
    what = "utilisation, 3D-SW_SW_SW_hetero, 1000 MiB, Themis + FIFO"
    out = [Row(what, fifo, 97.86, _DERIVED, 0.01, "%")]
    few = mean(_shares(lambda instance: instance.themis(8, Intra.SCF)))
    what = "mean utilisation, Themis + SCF, 8 chunks"
    out.append(Row(what, few, 82.3, _DERIVED, 0.1, "%"))
    full = [100 * float(i.ideal_seconds / i.bound_seconds) for i in _instances()]
    what = "utilisation at the linear program's bound, worst network"
    out.append(Row(what, min(full), 100, "derived: the program", 1e-6, "%"))
    cut = {chunks: _shares(partial(equal_pieces, chunks=chunks)) for chunks in (64, 8)}
    for chunks, worst, figure, near in _PIECES:
        what = f"a linear program's shares, {chunks} chunks, SCF: {_label(worst)}"
        out.append(Row(what, _of(cut[chunks], worst), figure, _PROGRAM, near, "%"))
    found = {chunks: _shares(partial(balance, chunks=chunks)) for chunks in (64, 16, 8, 4)}
    for chunks, worst, figure, who, near in _FLOORS:
        what = f"balanced, at most {chunks} chunks: {_label(worst)}"
        out.append(Row(what, _of(found[chunks], worst), figure, who, near, "%", at_least=True))
    return out


def _of(shares: list[float], worst: bool) -> float:
    return min(shares) if worst else mean(shares)


def _label(worst: bool) -> str:
    return "worst share of the bound" if worst else "mean share of the bound"


def _instances() -> list[Instance]:
    return [evaluation_instance(name, _SIZE) for name in NETWORKS]


def _share(instance: Instance, candidate: Candidate) -> float:
    """Of the bound, which here is the ideal time."""
    return 100 * float(instance.bound_seconds / instance.seconds(instance.run(candidate).end))


def _shares(schedule: Schedule) -> list[float]:
    return [_share(instance, schedule(instance)) for instance in _instances()]

"""The minimal model with one more thing to share: the memory of an endpoint without an engine.

An op needs its dim's port and some of the memory's bandwidth. The ops under way (at most one a dim)
share the memory max-min fairly: who needs less than an equal share has what it needs, the others
share the rest. An op's pace is its share over its need, at most 1. Where memory is enough for all
this is `sw_model.schedule.minimal`, exactly.

Time is a whole number of units. Paces are whole multiples of 2^-30, rounded down, and an end is
rounded up to a unit, so nothing depends on floating point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush

from sw_model.schedule.execution import Intra
from sw_model.schedule.minimal import Op, Run

__all__ = ["fair_paces", "run_shared"]

_ONE = 1 << 30


def fair_paces(needs: Mapping[int, Fraction]) -> dict[int, Fraction]:
    """Paces under max-min fairness.

    Parameters
    ----------
    needs : share of the memory that each op takes at full pace
    """
    paces: dict[int, Fraction] = {}
    left, count = Fraction(1), len(needs)
    for name, need in sorted(needs.items(), key=lambda item: (item[1], item[0])):
        share = min(need, left / count)
        paces[name] = share / need if need else Fraction(1)
        left -= share
        count -= 1
    return paces


@dataclass
class _Active:
    chunk: int
    serial: int
    left: int  # of its port time, in 2^-30 units
    need: Fraction
    latency: int
    pace: int = _ONE


def run_shared(
    chunks: Sequence[Sequence[Op]],
    needs: Sequence[Sequence[int]],
    *,
    dims: int,
    intra: Intra,
    ranks: Sequence[Sequence[int]] | None = None,
) -> Run:
    """Run ``chunks`` as `run_minimal` does.

    Parameters
    ----------
    needs : of each op, the time that the memory alone takes for its bytes

    Returns
    -------
    Run
        ``busy`` is the time that a dim was held, waiting for memory included.
    """
    waiting: list[list[tuple[int, int, int]]] = [[] for _ in range(dims)]
    active: dict[int, _Active] = {}
    busy = [0] * dims
    orders: list[list[tuple[int, int]]] = [[] for _ in range(dims)]
    at = [0] * len(chunks)
    ready: list[tuple[int, int, int]] = []  # (time, start order, chunk) after a latency
    arrivals = serial = now = 0

    def arrive(chunk: int) -> None:
        nonlocal arrivals
        phase = at[chunk]
        if phase == len(chunks[chunk]):
            return
        dim, time, _ = chunks[chunk][phase]
        key = ranks[chunk][phase] if ranks is not None else time if intra is Intra.SCF else 0
        arrivals += 1
        heappush(waiting[dim], (key, arrivals, chunk))

    for chunk in range(len(chunks)):
        arrive(chunk)
    while True:
        changed = False
        for dim in range(dims):
            if dim in active or not waiting[dim]:
                continue
            chunk = heappop(waiting[dim])[2]
            phase = at[chunk]
            _, time, latency = chunks[chunk][phase]
            time = max(time, 1) if needs[chunk][phase] else time
            need = Fraction(needs[chunk][phase], time) if time else Fraction(0)
            orders[dim].append((chunk, phase))
            serial += 1
            active[dim] = _Active(chunk, serial, time * _ONE, need, latency)
            changed = True
        if changed:
            _set_paces(active)
        times = [now - (-op.left // op.pace) for op in active.values()]
        if ready:
            times.append(ready[0][0])
        if not times:
            break
        then = min(times)
        ends: list[tuple[int, int, int]] = []  # (start order, freed dim, ready chunk)
        for dim, op in list(active.items()):
            busy[dim] += then - now
            op.left -= op.pace * (then - now)
            if op.left <= 0:
                del active[dim]
                ends.append((op.serial, dim, op.chunk if not op.latency else -1))
                if op.latency:
                    heappush(ready, (then + op.latency, op.serial, op.chunk))
        if ends and active:
            _set_paces(active)
        now = then
        while ready and ready[0][0] == now:
            _, order, chunk = heappop(ready)
            ends.append((order, -1, chunk))
        for _, _, chunk in sorted(ends):
            if chunk >= 0:
                at[chunk] += 1
                arrive(chunk)
    return Run(now, tuple(busy), tuple(tuple(order) for order in orders))


def _set_paces(active: Mapping[int, _Active]) -> None:
    needs = {dim: op.need for dim, op in active.items()}
    if sum(needs.values()) <= 1:
        for op in active.values():
            op.pace = _ONE
        return
    for dim, pace in fair_paces(needs).items():
        active[dim].pace = max(1, int(pace * _ONE))

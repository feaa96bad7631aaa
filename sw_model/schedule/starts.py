"""What the search of ``balanced`` begins with: the orders that it knows, and its starts.

A start is a schedule: by chunk an order and a size, and by op a factor that makes its time the key
by which its dim chooses (1: smallest first, 0: first in first out). Starts are made of

* any schedule that is there already;
* the shares of the linear program, cut into pieces that follow each other evenly. Many orders cost
  the same under its prices, so it has many optima: several are taken. Pieces are equal, or smaller
  at the beginning and the end, where dims wait for their first op or have had their last.

The search gives each start several rules within a dim and keeps the best.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations, product

from sw_model.collective.plan import Operation, Phase
from sw_model.schedule.bound import Column, Order, other_columns
from sw_model.schedule.execution import Intra
from sw_model.schedule.phases import build_phases
from sw_model.schedule.single import Candidate, Instance

__all__ = ["Start", "Ways", "equal_pieces", "given_start", "made_starts"]

_SEED = 1
_ORDERS = 600
#: Of five dims and more a random order is seldom a good one: those of the optima matter.
_SAMPLED = 160
_OPTIMA = 12
_TAPERS = (0, 2)


@dataclass
class Ways:
    """The orders that chunks may take, numbered.

    Attributes
    ----------
    phases : of each order
    ops : of each order, for one grain
    scatters : of each order, how many phases come before the all-gather
    number : of the phases
    """

    phases: list[tuple[Phase, ...]]
    ops: list[tuple[tuple[int, int, int], ...]]
    scatters: list[int]
    number: dict[tuple[Phase, ...], int]

    def __init__(self, instance: Instance, most_phases: int | None = None) -> None:
        self.instance = instance
        self.overlapped = replace(instance, serial_latency=False)
        self.most_phases = most_phases
        self.phases, self.ops, self.scatters, self.number = [], [], [], {}
        many = sum(dim.size > 1 for dim in instance.topology.dims) > 4
        for order in islice(_orders(instance), _SAMPLED if many else _ORDERS):
            phases = self.phases_of(order)
            if self.allows(phases):
                self.of(phases)

    def allows(self, phases: tuple[Phase, ...]) -> bool:
        """Whether they are not too many."""
        return self.most_phases is None or len(phases) <= self.most_phases

    def phases_of(self, order: Order) -> tuple[Phase, ...]:
        """Phases of an order of dims."""
        return build_phases(
            self.instance.operation,
            self.instance.topology,
            scatter=order[0],
            gather=order[1],
            turn=self.instance.turn,
            algorithms=self.instance.algorithms,
        )

    def of(self, phases: tuple[Phase, ...]) -> int:
        """The number of an order, which is new where it was not known."""
        found = self.number.get(phases)
        if found is None:
            found = self.number[phases] = len(self.phases)
            self.phases.append(phases)
            gathers = sum(phase.operation is Operation.ALL_GATHER for phase in phases)
            self.scatters.append(len(phases) - gathers)
            self.ops.append(self.overlapped.ops(self.instance.grain, phases))
        return found


def _orders(instance: Instance) -> Iterator[Order]:
    """Those of the bound first, then mirrored ones, then all; of five dims and more a sample."""
    dims = [k for k, dim in enumerate(instance.topology.dims) if dim.size > 1]
    for column in instance.bound.columns:
        yield column.order
    scatters = instance.operation is not Operation.ALL_GATHER
    gathers = instance.operation is not Operation.REDUCE_SCATTER
    if len(dims) > 4:
        rng = random.Random(_SEED)
        while True:
            scatter, gather = (tuple(rng.sample(dims, len(dims))) for _ in range(2))
            if not (scatters and gathers):
                yield (scatter, ()) if scatters else ((), gather)
            else:
                yield scatter, scatter[::-1] if rng.random() < 0.5 else gather
    if not (scatters and gathers):
        for order in permutations(dims):
            yield (order, ()) if scatters else ((), order)
        return
    for order in permutations(dims):
        yield order, order[::-1]
    yield from product(permutations(dims), permutations(dims))


Start = tuple[list[int], list[int], list[list[float]]]


def given_start(ways: Ways, candidate: Candidate, chunks: int) -> Start:
    """A candidate as a start of the search, its last chunk rounded up to whole grains."""
    grain = ways.instance.grain
    order = [ways.of(phases) for phases in candidate.phases]
    size = [-(-extent // grain) for extent in candidate.extents]
    factor = 1.0 if candidate.intra is Intra.SCF else 0.0
    empty = chunks - len(order)
    return (
        order + [0] * empty,
        size + [0] * empty,
        [[factor] * len(phases) for phases in candidate.phases] + [[1.0]] * empty,
    )


def made_starts(ways: Ways, instance: Instance, chunks: int) -> list[Start]:
    """Starts out of the linear program."""
    grains = -(-instance.payload.extent // instance.grain)
    if grains < chunks:
        return []
    starts: list[Start] = []
    for columns in _optima(instance, chunks):
        if not all(ways.allows(ways.phases_of(column.order)) for column in columns):
            continue
        seen: list[tuple[list[int], list[int]]] = []
        for depth, by_time in product(_TAPERS, (False, True)):
            order, size = _pieces(ways, columns, chunks, grains, depth, by_time)
            for turned in (False, True):
                pieces = (order[::-1], size[::-1]) if turned else (order, size)
                if pieces not in seen:
                    seen.append(pieces)
                    ones = [[1.0] * len(ways.phases[number]) for number in pieces[0]]
                    starts.append((*pieces, ones))
    return starts


def equal_pieces(instance: Instance, chunks: int) -> Candidate:
    """The linear program's shares alone: each in equal pieces that follow each other evenly, the
    smallest op first."""
    ways = Ways(instance)
    grains = -(-instance.payload.extent // instance.grain)
    columns = instance.bound.columns[:chunks]
    extents, phases = [], []
    left = instance.payload.extent
    for number, size in zip(*_pieces(ways, columns, chunks, grains, 0, False), strict=True):
        extent = min(left, size * instance.grain)
        left -= extent
        if extent:
            extents.append(extent)
            phases.append(ways.phases[number])
    return Candidate(tuple(extents), tuple(phases), Intra.SCF, origin="linear program")


def _optima(instance: Instance, chunks: int) -> list[tuple[Column, ...]]:
    """Several optima of the linear program, each of at most as many orders as chunks."""
    active = [k for k, dim in enumerate(instance.costs.dims) if dim.size > 1]
    found = [instance.bound.columns[:chunks]]
    if len(active) > 2:
        rng = random.Random(_SEED)
        for _ in range(_OPTIMA - 1):
            rng.shuffle(active)
            found.append(other_columns(instance.costs, active)[:chunks])
    distinct = {frozenset(column.order for column in columns): columns for columns in found}
    return [columns for columns in distinct.values() if columns]


def _pieces(
    ways: Ways, columns: Sequence[Column], chunks: int, grains: int, depth: int, by_time: bool
) -> tuple[list[int], list[int]]:
    """Orders and sizes of interleaved pieces. Each order gets as many as its share asks for, or,
    ``by_time``, so that the longest ops of all orders take the same time: what begins on a slow
    dim is then cut finer. The first and last ``depth`` of each order shrink by halves."""
    pieces: list[tuple[float, int, int]] = []  # (place, order, grains)
    left = grains
    numbers = [ways.of(ways.phases_of(column.order)) for column in columns]
    weights = [column.share for column in columns]
    if by_time:
        longest = [max(time for _, time, _ in ways.ops[number]) for number in numbers]
        weights = [share * time for share, time in zip(weights, longest, strict=True)]
    counts = _counts(weights, chunks)
    for column, number, count in zip(columns, numbers, counts, strict=True):
        whole = left if column is columns[-1] else min(left, round(column.share * grains))
        left -= whole
        least = min(depth, (count - 1) // 2)
        parts = [2 ** min(i, count - 1 - i, least) for i in range(count)]
        total, before = sum(parts), 0
        for weight in parts:
            size = whole * (before + weight) // total - whole * before // total
            pieces.append(((before + weight / 2) / total, number, size))
            before += weight
    pieces.sort(key=lambda piece: piece[:2])
    empty = chunks - len(pieces)
    return (
        [number for _, number, _ in pieces] + [0] * empty,
        [size for _, _, size in pieces] + [0] * empty,
    )


def _counts(weights: Sequence[float], chunks: int) -> list[int]:
    """How many of the chunks each column gets: at least one, otherwise by its weight."""
    counts = [1] * len(weights)
    for _ in range(chunks - len(weights)):
        most = max(range(len(weights)), key=lambda i: weights[i] / counts[i])
        counts[most] += 1
    return counts

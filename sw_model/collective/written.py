"""Algorithms that are not built in: the moves of an all-gather, written down as data.

A new algorithm is a value that goes wherever a built-in one does (``ScheduleOptions.algorithms``,
``Baseline``, ``Themis``); nothing else must be told of it. Its reduce-scatter is the all-gather
backwards with sums in place of copies, its all-reduce one after the other
(`sw_model.collective.rounds`). Decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

__all__ = ["ShardMove", "WrittenAlgorithm"]

#: Sender, receiver, first shard, number of shards that follow one another.
ShardMove = tuple[int, int, int, int]


@dataclass(frozen=True)
class WrittenAlgorithm:
    """How an all-gather of a dim of so many NPUs goes; for FullyConnected dims, where a link leads
    to everybody.

    Parameters
    ----------
    value : its name, for messages and reports
    size : NPUs of the dim
    gather : rounds of moves, one round after another; moves of a round can go at once. At first
        coordinate i has shard i alone

    Raises
    ------
    ValueError
        where a coordinate sends what it does not have when the round begins, or does not get every
        shard exactly once.
    """

    value: str
    size: int
    gather: tuple[tuple[ShardMove, ...], ...]

    def __post_init__(self) -> None:
        held = [{coordinate} for coordinate in range(self.size)]
        for number, moves in enumerate(self.gather):
            before = [set(shards) for shards in held]
            for sender, receiver, first, count in moves:
                moved = set(range(first, first + count))
                where = f"{self.value}, round {number}: coordinate"
                if not {sender, receiver} <= set(range(self.size)) or sender == receiver:
                    raise ValueError(
                        f"{where}s must be two of 0 to {self.size - 1}, not {sender} and {receiver}"
                    )
                if not moved or not moved <= before[sender]:
                    raise ValueError(
                        f"{where} {sender} must send shards of {sorted(before[sender])}, "
                        f"not {sorted(moved)}"
                    )
                if moved & held[receiver]:
                    raise ValueError(
                        f"{where} {receiver} must get every shard once, not "
                        f"{sorted(moved & held[receiver])} again"
                    )
                held[receiver] |= moved
        for coordinate, shards in enumerate(held):
            if len(shards) < self.size:
                missing = sorted(set(range(self.size)) - shards)
                raise ValueError(
                    f"{self.value}: coordinate {coordinate} must get every shard, and {missing} "
                    "never come"
                )

    @cached_property
    def most_sent(self) -> int:
        """Shards that the busiest NPU sends; all receive P - 1."""
        sent = [0] * self.size
        for moves in self.gather:
            for sender, _, _, count in moves:
                sent[sender] += count
        return max(sent)

    @cached_property
    def link_shards(self) -> int:
        """Shards on the busiest link of each round, of all rounds together."""
        total = 0
        for moves in self.gather:
            links: dict[tuple[int, int], int] = {}
            for sender, receiver, _, count in moves:
                links[sender, receiver] = links.get((sender, receiver), 0) + count
            total += max(links.values(), default=0)
        return total

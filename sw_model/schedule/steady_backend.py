"""A backend of the training loop that knows only how fast collectives are in the steady state.

Collectives over the same dims follow each other, in order of issue and without a gap; over other
dims they run beside them. One takes its bytes times the seconds a byte of a large one takes alone
on these dims. A run of a whole iteration so takes milliseconds, and tells what exposed
communication is made of, for studies over many networks (`sim_top.reproduce.themis_training`);
chunks of different collectives do not fill each other's gaps here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from heapq import heappop, heappush

from sw_model.backend import Completion
from sw_model.collective.plan import Collective

__all__ = ["PICOSECONDS", "SteadyBackend"]

#: Cycles of this backend in a second.
PICOSECONDS = 10**12


class SteadyBackend:
    """All ranks are alike, and rank 0 stands for them.

    Parameters
    ----------
    seconds : of a collective alone
    """

    representatives: Sequence[int] = (0,)

    def __init__(self, seconds: Callable[[Collective], Fraction]) -> None:
        self.seconds = seconds
        self.now = 0
        self.free: dict[int, int] = {}  # by dim, when what is under way there has ended
        self.ends: list[tuple[int, int]] = []  # (cycle, number)
        self.issued = 0

    def issue(self, collective: Collective, ranks: Sequence[int]) -> int:
        """See `sw_model.backend.Backend`."""
        begin = max([self.now, *(self.free.get(dim, 0) for dim in collective.dims)])
        end = begin + round(self.seconds(collective) * PICOSECONDS)
        self.free |= dict.fromkeys(collective.dims, end)
        heappush(self.ends, (end, self.issued))
        self.issued += 1
        return self.issued - 1

    async def wait(self, until: int | None) -> list[Completion]:
        """See `sw_model.backend.Backend`."""
        if self.ends and (until is None or self.ends[0][0] <= until):
            self.now = self.ends[0][0]
        elif until is not None:
            self.now = until
        done = []
        while self.ends and self.ends[0][0] <= self.now:
            done.append(Completion(heappop(self.ends)[1], 0, self.now))
        return done

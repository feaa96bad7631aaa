"""What the training loop asks of anything that carries collectives out.

Two things do: the transaction-level fabric, and the RTL platform behind a simulator. Time is whole
cycles of the backend's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sw_model.collective.plan import Collective

__all__ = ["Backend", "Completion", "run_alone"]


@dataclass(frozen=True)
class Completion:
    """The part of ``rank`` in collective number ``collective`` ended in ``cycle``."""

    collective: int
    rank: int
    cycle: int


class Backend(Protocol):
    """Carries collectives out, and keeps the time."""

    @property
    def now(self) -> int:
        """The present cycle."""

    @property
    def representatives(self) -> Sequence[int]:
        """The ranks to be walked. Each of the others does what one of these does, when it does
        it, and takes part without being named: ``(0,)`` where all ranks are alike."""

    def issue(self, collective: Collective, ranks: Sequence[int]) -> int:
        """``ranks``, ascending and all representatives, enter a collective now. Returns its
        number at once.

        Every rank enters the collectives of one group in the same order; the n-th entry of each
        member is the same collective and gets the same number, also where the members enter in
        different cycles.
        """

    async def wait(self, until: int | None) -> list[Completion]:
        """Run until the first cycle with a completion, or until cycle ``until``, whichever is
        first; None: until a completion. Afterwards ``now`` is that cycle, and all completions of
        it are returned.

        An empty list for None says that nothing can happen any more; a backend that knows more
        about it raises `DeadlockError`.
        """


async def run_alone(backend: Backend, collective: Collective, ranks: Sequence[int]) -> None:
    """Let ``ranks`` enter ``collective`` now, and run until it has ended on all of them. Nothing
    else may be under way."""
    backend.issue(collective, ranks)
    waiting = set(ranks)
    while waiting:
        for completion in await backend.wait(None):
            waiting.remove(completion.rank)

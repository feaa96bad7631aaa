"""How collectives are scheduled, and the plans that every executor shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sw_model.collective.plan import Collective, CollectivePlan
from sw_model.platform import Platform
from sw_model.schedule.limits import PlannerState
from sw_model.schedule.planner import plan_collective

__all__ = ["PlanBook", "ScheduleOptions"]


@dataclass(frozen=True)
class ScheduleOptions:
    """How collectives are planned: the choices of :func:`plan_collective` that a user makes.

    Parameters
    ----------
    scheduler : "baseline", "themis" or "balanced"
    intra : "fifo" or "scf"
    chunks : of one collective, at most, unless a chunk would not fit into an engine's buffers
    """

    scheduler: str = "themis"
    intra: str = "scf"
    chunks: int = 64


class PlanBook:
    """The plans of a sequence of collectives. Each is made once, by whoever asks first, and handed
    to every executor that runs the same sequence on the same platform.

    Parameters
    ----------
    platform, options : for the planner
    check : called with every new plan; raises where it is wrong
    """

    def __init__(
        self,
        platform: Platform,
        options: ScheduleOptions,
        *,
        check: Callable[[CollectivePlan], object] | None = None,
    ) -> None:
        self.platform = platform
        self.options = options
        self.check = check
        self.plans: list[CollectivePlan] = []
        self._state = PlannerState()

    def plan(self, number: int, collective: Collective) -> CollectivePlan:
        """The plan of collective ``number`` (from 0) of the sequence.

        Raises
        ------
        ValueError
            where another collective has that number, or the one before it has no plan yet.
        InputError
            where it cannot be planned.
        """
        if number < len(self.plans):
            plan = self.plans[number]
            if plan.collective != collective:
                raise ValueError(
                    f"collective {number} must be {plan.collective!r}, not {collective!r}"
                )
            return plan
        if number > len(self.plans):
            raise ValueError(f"number must be at most {len(self.plans)}, not {number!r}")
        plan = plan_collective(
            collective,
            self.platform,
            scheduler=self.options.scheduler,
            intra=self.options.intra,
            chunks=self.options.chunks,
            state=self._state,
        )
        if self.check is not None:
            self.check(plan)
        self.plans.append(plan)
        return plan

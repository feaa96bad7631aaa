"""How collectives are scheduled, and the plans that every executor shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sw_model.collective.cost import algorithm_of
from sw_model.collective.plan import AnyAlgorithm, Collective, CollectivePlan, Operation
from sw_model.errors import InputError
from sw_model.fred.tree.placement import tree_table
from sw_model.fred.tree.table import TreeTable
from sw_model.platform import Platform
from sw_model.schedule.limits import PlannerState
from sw_model.schedule.planner import SCHEDULERS, Scheduler, plan_collective
from sw_model.topology import Topology

__all__ = ["PlanBook", "ScheduleOptions"]


@dataclass(frozen=True)
class ScheduleOptions:
    """How collectives are planned: the choices of :func:`plan_collective` that a user makes.

    Parameters
    ----------
    scheduler : "baseline", "themis" or "balanced"
    intra : "fifo" or "scf"
    chunks : of one collective, at most, unless a chunk would not fit into an engine's buffers
    algorithms : one for each dim of the network; by default those of the dims' kinds. What an
        algorithm has no program for is direct (`sw_model.collective.cost.algorithm_of`)
    """

    scheduler: str = "themis"
    intra: str = "scf"
    chunks: int = 64
    algorithms: tuple[AnyAlgorithm, ...] = ()

    def for_operation(self, operation: Operation, topology: Topology) -> str | Scheduler:
        """The scheduler of collectives of one kind.

        Raises
        ------
        InputError
            where the algorithms are not those of the network's dims.
        """
        if not self.algorithms:
            return self.scheduler
        if len(self.algorithms) != len(topology.dims):
            raise InputError(
                f"algorithms must be one for each of the {len(topology.dims)} dims, "
                f"not {len(self.algorithms)}"
            )
        if self.scheduler not in SCHEDULERS:
            raise InputError(
                f"algorithms must come with one of the schedulers {', '.join(SCHEDULERS)}, "
                f"not {self.scheduler!r}"
            )
        chosen = tuple(
            algorithm_of(dim, operation, wanted)
            for dim, wanted in zip(topology.dims, self.algorithms, strict=True)
        )
        return replace(SCHEDULERS[self.scheduler], algorithms=chosen)  # type: ignore[type-var]


class PlanBook:
    """The plans of a sequence of collectives. Each is made once, by whoever asks first, and handed
    to every executor that runs the same sequence on the same platform.

    Parameters
    ----------
    platform, options : for the planner
    check : called with every new plan; raises where it is wrong
    collectives : on a tree of FRED switches, all that will be planned, since its configurations are
        chosen for all of them together

    Attributes
    ----------
    flows : on a tree, the configuration memories of its switches

    Raises
    ------
    InputError
        where the switches of a tree cannot be configured for all of the collectives.
    """

    def __init__(
        self,
        platform: Platform,
        options: ScheduleOptions,
        *,
        check: Callable[[CollectivePlan], object] | None = None,
        collectives: Iterable[Collective] = (),
    ) -> None:
        self.platform = platform
        self.options = options
        self.check = check
        self.plans: list[CollectivePlan] = []
        self._states = [PlannerState() for _ in range(platform.engine.lanes)]
        self.flows: TreeTable | None = None
        if platform.tree is not None:
            self.flows = tree_table(
                platform.tree, collectives, class_channels=platform.engine.lanes > 1
            )

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
            scheduler=self.options.for_operation(collective.operation, self.platform.topology),
            intra=self.options.intra,
            chunks=self.options.chunks,
            state=self._states[self.platform.engine.lane_of(collective.traffic_class)],
        )
        if self.check is not None:
            self.check(plan)
        self.plans.append(plan)
        return plan

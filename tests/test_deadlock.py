"""Whatever the timing, the ranks finish; and the model of this would notice if they did not."""

from __future__ import annotations

import dataclasses
import random
from fractions import Fraction

import pytest

from sw_model.collective.plan import Algorithm, Collective, CollectivePlan, Operation
from sw_model.errors import DeadlockError
from sw_model.schedule.baseline import Baseline
from sw_model.schedule.limits import Limits, PlannerState
from sw_model.schedule.marked_engine import Rules
from sw_model.schedule.marked_graph import CLASSES, Program, run_program
from sw_model.schedule.planner import plan_collective
from sw_model.schedule.themis import Themis
from sw_model.topology import Dim, DimKind, Topology
from tests.plan_cases import OPERATIONS

RING, FRED, FULL = DimKind.RING, DimKind.FRED, DimKind.FULLY_CONNECTED
CASES, BLOCKS = 10_000, 10


def _case(rng: random.Random) -> tuple[Program, Rules]:
    """One to three dims, one to three classes, up to two collectives of up to four chunks each,
    on engines with one to three contexts and buffers; a collective may wait for one of another
    class, in one program order for all ranks."""
    dims = rng.choice((1, 2, 2, 2, 3))
    sizes = [rng.choice({1: (2, 3, 4, 5), 2: (2, 2, 3), 3: (2,)}[dims]) for _ in range(dims)]
    topology = Topology(
        tuple(
            Dim(rng.choice((RING, FRED)), size, Fraction(rng.choice((1, 2, 4))), 0)
            for size in sizes
        )
    )
    limits = Limits(
        contexts=rng.choice((1, 1, 2, 3)),
        buffers=tuple((rng.choice((1, 1, 2, 3)), 1 << 20) for _ in range(2 * dims)),
    )
    plans: dict[str, list[CollectivePlan]] = {}
    for name in rng.choice((("dp",), ("dp",), ("mp", "dp"), CLASSES)):
        state = PlannerState()
        plans[name] = [
            plan_collective(
                Collective(
                    rng.choice((Operation.ALL_REDUCE, *OPERATIONS)),
                    rng.choice((1, 2, 3, 8, 16, 40)),
                    traffic_class=name,
                    dims=tuple(d for d in range(dims) if rng.random() < 0.8),
                ),
                topology,
                scheduler=rng.choice(("themis", "baseline")),
                intra=rng.choice(("fifo", "scf")),
                chunks=rng.choice((1, 2, 3, 4)),
                state=state,
                limits=limits,
            )
            for _ in range(rng.choice((1, 1, 2)))
        ]
    after = _dependencies(rng, plans)
    return Program(plans, after), _rules(rng, limits)


def _rules(rng: random.Random, limits: Limits) -> Rules:
    """All of them, for engines of so many contexts."""
    return Rules(
        contexts=limits.contexts or 1,
        queue_depth=rng.choice((1, 2, 4)),
        switch_slots=rng.choice((1, 2)),
    )


def _dependencies(
    rng: random.Random, plans: dict[str, list[CollectivePlan]]
) -> dict[tuple[str, int], list[tuple[str, int]]]:
    """One program order of all classes, in which some collectives wait for an earlier one."""
    left = {name: [(name, index) for index in range(len(p))] for name, p in plans.items()}
    order: list[tuple[str, int]] = []
    after = {}
    while any(left.values()):
        one = left[rng.choice([name for name in left if left[name]])].pop(0)
        if order and rng.random() < 0.3:
            after[one] = [rng.choice(order)]
        order.append(one)
    return after


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_timing_never_deadlocks(block):
    for seed in range(block * CASES // BLOCKS, (block + 1) * CASES // BLOCKS):
        rng = random.Random(seed)
        program, rules = _case(rng)
        try:
            run_program(program, rng, rules)
        except DeadlockError as error:
            pytest.fail(f"seed {seed}: {error}")


@pytest.mark.full
@pytest.mark.parametrize("block", range(20))
def test_random_timing_never_deadlocks_wide(block):
    for seed in range(CASES + block * 5000, CASES + (block + 1) * 5000):
        rng = random.Random(seed)
        program, rules = _case(rng)
        run_program(program, rng, rules)


def _exchange_case(rng: random.Random) -> tuple[Program, Rules]:
    """All-to-alls and sends through switches and round rings, mixed with the other collectives."""
    dims = rng.choice((1, 1, 2, 2, 3))
    sizes = [rng.choice({1: (2, 3, 4, 5), 2: (2, 2, 3), 3: (2,)}[dims]) for _ in range(dims)]
    kinds = [FRED, *(rng.choice((RING, FRED)) for _ in sizes[1:])]
    topology = Topology(
        tuple(
            Dim(kind, size, Fraction(rng.choice((1, 2, 4))), 0)
            for kind, size in zip(kinds, sizes, strict=True)
        )
    )
    limits = Limits(
        contexts=rng.choice((1, 1, 2, 3)),
        buffers=tuple((rng.choice((1, 1, 2, 3)), 1 << 20) for _ in range(2 * dims)),
    )
    state, plans = PlannerState(), []
    for _ in range(rng.choice((1, 2, 3))):
        operation = rng.choice(
            (
                Operation.ALL_TO_ALL,
                Operation.ALL_TO_ALL,
                Operation.SEND,
                Operation.ALL_REDUCE,
                *OPERATIONS,
            )
        )
        ends = {}
        if operation is Operation.SEND:
            ends = {name: rng.randrange(topology.npus) for name in ("root", "target")}
        plans.append(
            plan_collective(
                Collective(
                    operation, rng.choice((1, 2, 3, 8, 16, 40)), dims=tuple(range(dims)), **ends
                ),
                topology,
                scheduler=rng.choice(("themis", "baseline")),
                intra=rng.choice(("fifo", "scf")),
                chunks=rng.choice((1, 2, 3, 4)),
                state=state,
                limits=limits,
            )
        )
    return Program({"dp": plans}), _rules(rng, limits)


def _stopped(cases: range, **broken: bool) -> list[int]:
    """Seeds of the exchanges that get stuck."""
    out = []
    for seed in cases:
        rng = random.Random(seed)
        program, rules = _exchange_case(rng)
        try:
            run_program(program, rng, dataclasses.replace(rules, **broken))
        except DeadlockError:
            out.append(seed)
    return out


def test_messages_through_switches_never_deadlock():
    assert _stopped(range(400)) == []


@pytest.mark.full
def test_messages_through_switches_never_deadlock_wide():
    assert _stopped(range(400, 10_400)) == []


def test_messages_through_switches_deadlock_without_a_barrier():
    """One in ten does: a later op's message overtakes a slow sender's."""
    assert len(_stopped(range(60), barrier=False)) >= 3


def _ports_case(rng: random.Random) -> tuple[Program, Rules]:
    """The same with dims of several ports, on which receivers wait for one another, and any
    algorithm that has programs there."""
    dims = rng.choice((1, 2, 2, 2, 3))
    sizes = [rng.choice({1: (3, 4, 5), 2: (2, 3, 4), 3: (2, 3)}[dims]) for _ in range(dims)]
    topology = Topology(
        tuple(
            Dim(rng.choice((FULL, FULL, RING, FRED)), size, Fraction(rng.choice((1, 2, 4))), 0)
            for size in sizes
        )
    )
    algorithms = tuple(_algorithm(rng, dim) for dim in topology.dims)
    limits = Limits(
        contexts=rng.choice((1, 1, 2, 3, 4)),
        buffers=tuple((rng.choice((1, 1, 2, 3, 4)), 1 << 20) for _ in range(2 * dims)),
    )
    plans: dict[str, list[CollectivePlan]] = {}
    for name in rng.choice((("dp",), ("dp",), ("mp", "dp"))):
        state = PlannerState()
        plans[name] = [
            plan_collective(
                Collective(
                    rng.choice((Operation.ALL_REDUCE, *OPERATIONS)),
                    rng.choice((1, 3, 8, 16, 40)),
                    traffic_class=name,
                    dims=tuple(d for d in range(dims) if rng.random() < 0.85),
                ),
                topology,
                scheduler=rng.choice((Baseline, Themis))(algorithms=algorithms),
                intra=rng.choice(("fifo", "scf")),
                chunks=rng.choice((1, 2, 3, 4, 8)),
                state=state,
                limits=limits,
            )
            for _ in range(rng.choice((1, 2)))
        ]
    rules = Rules(
        contexts=limits.contexts or 1,
        queue_depth=rng.choice((1, 2, 4)),
        switch_slots=rng.choice((1, 1, 2)),
    )
    return Program(plans), rules


def _algorithm(rng: random.Random, dim: Dim) -> Algorithm:
    if dim.kind is not FULL:
        return Algorithm.RING if dim.kind is RING else Algorithm.IN_NETWORK
    known = [Algorithm.DIRECT, Algorithm.DIRECT, Algorithm.BIDIRECTIONAL_RING, Algorithm.RING]
    return rng.choice(known + [Algorithm.HALVING_DOUBLING] * (dim.size in (2, 4)))


def test_several_ports_never_deadlock():
    for seed in range(700):
        rng = random.Random(seed)
        program, rules = _ports_case(rng)
        try:
            run_program(program, rng, rules)
        except DeadlockError as error:
            pytest.fail(f"seed {seed}: {error}")


@pytest.mark.full
def test_several_ports_never_deadlock_wide():
    for seed in range(700, 5700):
        rng = random.Random(seed)
        program, rules = _ports_case(rng)
        run_program(program, rng, rules)


@dataclasses.dataclass(frozen=True)
class Mixed:
    """A case of everything at once: a program, its rules, and how it was planned."""

    program: Program
    rules: Rules
    dims: int
    schedulers: frozenset[str]

    @property
    def exchanges_beside_classes(self) -> bool:
        """Whether one of several classes runs an all-to-all."""
        asked = [plan.collective for plans in self.program.plans.values() for plan in plans]
        exchange = any(one.operation is Operation.ALL_TO_ALL for one in asked)
        return exchange and len(self.program.plans) > 1


def _mixed_case(rng: random.Random) -> Mixed:
    """One to four dims of all kinds with programs for all-to-alls, one to three classes that wait
    for one another, all three schedulers, and every operation in any class."""
    dims = rng.choice((1, 2, 3, 4, 4))
    sizes = [rng.choice({1: (2, 3, 4), 2: (2, 2, 3)}.get(dims, (2,))) for _ in range(dims)]
    topology = Topology(
        tuple(
            Dim(rng.choice((RING, FRED, FULL)), size, Fraction(rng.choice((1, 2, 4))), 0)
            for size in sizes
        )
    )
    limits = Limits(
        contexts=rng.choice((1, 1, 2, 3)),
        buffers=tuple((rng.choice((1, 1, 2, 3)), 1 << 20) for _ in range(2 * dims)),
    )
    plans: dict[str, list[CollectivePlan]] = {}
    schedulers = set()
    for name in rng.choice((("dp",), ("mp", "dp"), CLASSES)):
        state, plans[name] = PlannerState(), []
        for _ in range(rng.choice((1, 1, 2))):
            operation = rng.choice(
                (Operation.ALL_TO_ALL, Operation.ALL_TO_ALL, Operation.SEND, *OPERATIONS)
            )
            ends = {}
            if operation is Operation.SEND:
                ends = {end: rng.randrange(topology.npus) for end in ("root", "target")}
            scheduler = rng.choice(("balanced", "themis", "baseline"))
            schedulers.add(scheduler)
            plans[name].append(
                plan_collective(
                    Collective(
                        operation,
                        rng.choice((1, 2, 3, 8, 16, 40)),
                        traffic_class=name,
                        dims=tuple(range(dims)),
                        **ends,
                    ),
                    topology,
                    scheduler=scheduler,
                    intra=rng.choice(("fifo", "scf")),
                    chunks=rng.choice((1, 2, 3, 4)),
                    state=state,
                    limits=limits,
                )
            )
    rules = _rules(rng, limits)
    program = Program(plans, _dependencies(rng, plans))
    return Mixed(program, rules, dims, frozenset(schedulers))


def _stopped_mixed(cases: range, **broken: bool) -> tuple[list[int], list[Mixed]]:
    """Seeds of the mixed cases that get stuck, and all cases."""
    stopped, every = [], []
    for seed in cases:
        rng = random.Random(seed)
        case = _mixed_case(rng)
        every.append(case)
        try:
            run_program(case.program, rng, dataclasses.replace(case.rules, **broken))
        except DeadlockError:
            stopped.append(seed)
    return stopped, every


def test_all_at_once_never_deadlocks():
    """Of 120 cases more than 40 have four dims, half a balanced plan, and 40 an all-to-all of one
    class beside others."""
    stopped, cases = _stopped_mixed(range(120))
    assert stopped == []
    assert sum(case.dims == 4 for case in cases) >= 40
    assert sum("balanced" in case.schedulers for case in cases) >= 60
    assert sum(case.exchanges_beside_classes for case in cases) >= 40
    both = [c for c in cases if c.exchanges_beside_classes and "balanced" in c.schedulers]
    assert any(case.dims == 4 for case in both)


@pytest.mark.full
def test_all_at_once_never_deadlocks_wide():
    stopped, _ = _stopped_mixed(range(120, 3120))
    assert stopped == []


@pytest.mark.parametrize("rule", ["grants", "private_contexts", "class_contexts"])
def test_all_at_once_deadlocks_without_a_rule(rule):
    stopped, _ = _stopped_mixed(range(40), **{rule: False})
    assert len(stopped) >= 3


# The test of the test: without a rule, the model gets stuck.


def _plan(kinds, sizes, *, contexts, buffers=8, intra="scf", scheduler="themis"):
    topology = Topology(
        tuple(
            Dim(kind, size, Fraction(bandwidth), 0)
            for kind, size, bandwidth in zip(kinds, sizes, (2, 1), strict=True)
        )
    )
    limits = Limits(contexts=contexts, buffers=((buffers, 1 << 20),) * 4)
    return plan_collective(
        Collective(Operation.ALL_REDUCE, 512, dims=(0, 1)),
        topology,
        chunks=8,
        limits=limits,
        intra=intra,
        scheduler=scheduler,
    )


def _stuck(plan, rules, seeds=range(10), **options) -> int:
    stuck = 0
    for seed in seeds:
        try:
            run_program(Program({"dp": [plan]}), random.Random(seed), rules, **options)
        except DeadlockError:
            stuck += 1
    return stuck


@pytest.mark.parametrize(
    "kinds", [(RING, RING), (RING, FRED), (FRED, RING), (FRED, FRED), (FULL, FULL), (FULL, RING)]
)
@pytest.mark.parametrize("contexts", [1, 2])
def test_contexts_in_one_pool_deadlock(kinds, contexts):
    plan = _plan(kinds, (3, 3), contexts=contexts)
    assert _stuck(plan, Rules(contexts=contexts)) == 0
    assert _stuck(plan, Rules(contexts=contexts, private_contexts=False)) >= 5


@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("kinds", [(RING, RING), (RING, FRED), (FRED, FRED)])
def test_contexts_that_classes_share_deadlock(kinds, contexts):
    """Where one class takes a context at one rank, and another at the next, each waits for the
    other's receiver. With contexts of their own all three classes end, whatever the timing."""
    plan = _plan(kinds, (3, 3), contexts=contexts)
    program = Program({name: [plan] for name in CLASSES})
    ends = {True: 0, False: 0}
    for own in ends:
        rules = Rules(contexts=contexts, class_contexts=own)
        for seed in range(10):
            try:
                run_program(program, random.Random(seed), rules)
                ends[own] += 1
            except DeadlockError:
                pass
    assert ends[True] == 10
    assert ends[False] <= 5


@pytest.mark.parametrize("kinds", [(RING, RING), (RING, FRED), (FRED, FRED)])
def test_ranks_that_disagree_on_the_order_deadlock(kinds):
    """Each rank's own plan is a good one; only the orders on the dims differ."""
    plan = _plan(kinds, (3, 3), contexts=2)
    other = _plan(kinds, (3, 3), contexts=2, intra="fifo")
    assert plan.ops != other.ops
    assert _stuck(other, Rules()) == 0
    assert _stuck(plan, Rules(), by_rank=lambda rank, p: other if rank == 4 else p) == 10


@pytest.mark.parametrize(
    ("kind", "algorithm"), [(RING, Algorithm.RING), (FULL, Algorithm.BIDIRECTIONAL_RING)]
)
def test_messages_without_a_grant_deadlock(kind, algorithm):
    """A later op's message overtakes on a ring, and blocks those that its own op waits for."""
    scheduler = Themis(algorithms=(algorithm, algorithm))
    plan = _plan((kind, kind), (4, 4), contexts=3, buffers=2, scheduler=scheduler)
    assert _stuck(plan, Rules(contexts=3)) == 0
    assert _stuck(plan, Rules(contexts=3, grants=False)) >= 2


def test_a_deadlock_names_who_is_stuck():
    plan = _plan((RING, FRED), (3, 3), contexts=1)
    rules = Rules(contexts=1, private_contexts=False)
    with pytest.raises(DeadlockError) as error:
        run_program(Program({"dp": [plan]}), random.Random(0), rules)
    text = str(error.value)
    assert "engines are stuck: rank 0, class dp:" in text
    assert "of dim 1 sent" in text or "of dim 2 sent" in text


def test_a_late_rank_only_makes_it_later():
    """The same draws, but everything at every rank takes its own time: always the same end."""
    plan = _plan((RING, FRED), (3, 3), contexts=2)
    ends = {run_program(Program({"dp": [plan]}), random.Random(5)) for _ in range(3)}
    assert len(ends) == 1


@pytest.mark.parametrize("seed", [784, 1114, 5059, 6225])
def test_gathers_that_overtake_each_other_deadlock(seed):
    """Found by the random cases: in an all-gather through a switch a quick member is an op ahead
    of a slow one, and its message blocks a port whose rank cannot start that op yet."""
    for gather_order in (True, False):
        rng = random.Random(seed)
        program, rules = _case(rng)
        rules = dataclasses.replace(rules, gather_order=gather_order)
        if gather_order:
            run_program(program, rng, rules)
        else:
            with pytest.raises(DeadlockError):
                run_program(program, rng, rules)

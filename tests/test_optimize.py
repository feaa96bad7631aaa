"""The optimum: published figures, other solvers, and the certificate."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from sim_top.reproduce import libra
from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.optimize.conic import solve_conic
from sw_model.optimize.constraint import parse_constraint
from sw_model.optimize.demand import Communicator, Demand, traffic
from sw_model.optimize.iteration import Iteration, Path, Step, TrainingTask
from sw_model.optimize.network import OpenDim, OpenNetwork, Tier
from sw_model.optimize.prices import Prices, TierPrices
from sw_model.optimize.problem import Objective, Problem, optimise, times_ns
from sw_model.optimize.program import (
    Multipliers,
    Piece,
    Program,
    ProgramPath,
    ProgramStep,
    lower_bound,
)
from sw_model.optimize.scheduling import Scheduling, TimeModel
from sw_model.optimize.simplex import Row, maximise
from sw_model.topology import DimKind
from sw_model.workload.astra_text import read
from sw_model.workload.layers import Mode
from tests.chakra_traces import TRACES, needs_shared

RING, FULL, SWITCH, FRED = (
    DimKind.RING,
    DimKind.FULLY_CONNECTED,
    DimKind.SWITCH,
    DimKind.FRED,
)
PRICES = Prices(tiers={Tier.INTER_NODE: TierPrices(link=Fraction(3), switch=Fraction(8))})


@pytest.mark.parametrize(
    ("network", "names", "published"),
    [
        ("2D", ("175B",), (81.92, 18.08)),
        ("3D", ("175B",), (81.92, 13.77, 4.31)),
        ("4D", ("175B",), (43.96, 38.47, 15.62, 1.95)),
        ("2D", ("17B", "175B", "1T"), (84.48, 15.52)),
        ("3D", ("17B", "175B", "1T"), (80.95, 10.80, 8.25)),
        ("4D", ("17B", "175B", "1T"), (43.09, 37.71, 11.25, 7.95)),
    ],
)
def test_published_allocations(network, names, published):
    optimum = optimise(libra.problem(network, *names))
    np.testing.assert_allclose([float(b) for b in optimum.bandwidths], published, atol=0.02)
    assert sum(optimum.bandwidths) == 100
    assert 0 <= optimum.gap <= 1e-6


@pytest.mark.parametrize(
    ("network", "published"),
    [
        ("2D", ("96.59", "3.41")),
        ("3D", ("92.46", "6.61", "0.93")),
        ("4D", ("58.91", "36.65", "3.96", "0.48")),
    ],
)
def test_no_worse_than_the_published_time_and_cost(network, published):
    optimum = optimise(libra.problem(network, "175B", objective=Objective.PERF_PER_COST))
    theirs = tuple(Fraction(b) for b in published)
    assert sum(theirs) == 100
    (time,) = times_ns(optimum.problem, theirs)
    # In the artifact a Ring or FullyConnected dim costs half its links, a Switch all three parts.
    prices = {"2D": (2, 57.4), "3D": (2, 2, 57.4), "4D": (1, 2, 2, 57.4)}[network]
    cost = 1024 * sum(Fraction(str(p)) * b for p, b in zip(prices, theirs, strict=True))
    assert optimum.value <= time * cost
    assert optimum.value == optimum.time_ns * optimum.cost
    assert 0 <= optimum.gap <= 1e-6


@pytest.mark.parametrize(
    ("network", "total", "published"),
    [
        ("3D-4096", 100, 1.241),
        ("4D-4096", 100, 1.301),
        ("3D-4096", 300, 1.095),
        ("4D-4096", 300, 1.117),
        ("3D-4096", 1000, 1.031),
        ("4D-4096", 1000, 1.037),
    ],
)
def test_gains_over_equal_bandwidths(network, total, published):
    optimum = optimise(libra.problem(network, "GPT-3", total=total, forward_comm_count=1))
    assert optimum.problem.network.npus == 4096
    assert optimum.speedup_over_equal == pytest.approx(published, abs=0.005)
    assert 0 <= optimum.gap <= 1e-6


@needs_shared
@pytest.mark.parametrize(
    ("name", "file", "mode", "at_once"),
    [
        ("17B", "10_libra_sc22/transformer_17B.txt", None, False),
        ("175B", "10_libra_sc22/transformer_175B.txt", None, False),
        ("1T", "10_libra_sc22/transformer_1T.txt", None, False),
        ("175B", "07_libra_gpt3_3d/GPT_3.txt", Mode.DATA, True),
    ],
)
def test_workloads_are_those_that_were_released(name, file, mode, at_once):
    theirs = read(TRACES / file, headerless_mode=mode)
    ours = libra.workload(libra.SHAPES[name], gradients_at_once=at_once)
    for one, other in zip(ours.layers, theirs.layers, strict=True):
        assert replace(one, name="") == replace(other, name="")


def network(*dims):
    return OpenNetwork(dims=tuple(OpenDim(kind=k, size=n, tier=Tier.INTER_NODE) for k, n in dims))


def problem_of(dims, iteration, *constraints, **more):
    return Problem(
        network=dims,
        tasks=(TrainingTask(name="w", iteration=iteration),),
        constraints=tuple(parse_constraint(c, len(dims.dims)) for c in constraints),
        **more,
    )


def one_collective(dims, size, operation=Operation.ALL_REDUCE, compute=0):
    sizes = tuple(dim.size for dim in dims.dims)
    demand = Demand(operation, size, Communicator(sizes))
    return Iteration((Step((Path(Fraction(compute), ((demand, 1),)),)),))


def test_one_collective_takes_bandwidth_in_proportion_to_its_traffic():
    """The closed form of the paper."""
    dims = network((RING, 4), (FULL, 8), (SWITCH, 16))
    loads = np.array([3 / 4, 7 / 8 / 4, 15 / 16 / 32])
    optimum = optimise(problem_of(dims, one_collective(dims, 10**9), "total = 77"))
    np.testing.assert_allclose(
        [float(b) for b in optimum.bandwidths], 77 * loads / loads.sum(), rtol=1e-5
    )
    fred = network((RING, 4), (FRED, 8))
    optimum = optimise(problem_of(fred, one_collective(fred, 10**9), "total = 70"))
    np.testing.assert_allclose([float(b) for b in optimum.bandwidths], [60, 10], rtol=1e-5)


def random_iteration(source, dims):
    """Steps of compute and collectives over random groups, some beside each other."""

    def path():
        demands = []
        for _ in range(source.randint(1, 3)):
            sizes = tuple(source.choice((1, d.size)) for d in dims.dims)
            operation = source.choice(list(SIMPLE))
            demand = Demand(operation, source.randrange(10**6, 10**9), Communicator(sizes))
            if not demand.idle:
                demands.append((demand, source.randint(1, 3)))
        return Path(Fraction(source.randrange(10**8)), tuple(demands))

    steps = [
        Step(tuple(path() for _ in range(source.randint(1, 2))), source.randint(1, 3))
        for _ in range(source.randint(1, 4))
    ]
    # Something that spans everything, so that no dim is left without traffic.
    return Iteration((*steps, *one_collective(dims, 10**8).steps))


SIMPLE = (
    Operation.ALL_REDUCE,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_TO_ALL,
)


def random_problem(source, **more):
    kinds = [source.choice((RING, FULL, SWITCH, FRED)) for _ in range(source.randint(2, 4))]
    dims = network(*((kind, source.choice((2, 4, 8))) for kind in kinds))
    constraints = ["total <= 100", f"B1 >= {source.randint(1, 9)}"]
    if source.random() < 0.5:
        constraints.append("B1 <= 3 B2")
    return problem_of(dims, random_iteration(source, dims), *constraints, prices=PRICES, **more)


LOADS = {}


def value_of(problem, bandwidths):
    """In floating point, from the traffic of every demand."""
    widths = np.array([float(b) for b in bandwidths])
    (task,) = problem.tasks

    def of(demand):
        if demand not in LOADS:
            LOADS[demand] = np.array([float(t) for t in traffic(problem.network, demand)])
        return max(LOADS[demand] / widths)

    def path_time(path):
        return float(path.compute_ns) + sum(n * of(demand) for demand, n in path.demands)

    time = sum(s.count * max(map(path_time, s.paths)) for s in task.iteration.steps)
    if problem.objective is Objective.PERF:
        return time
    return time * np.dot([float(r) for r in PRICES.rates(problem.network)], widths)


@pytest.mark.parametrize("objective", list(Objective))
def test_another_solver_in_log_space_finds_nothing_better(objective):
    """Time, and time x cost, as a geometric program: convex in log B under these constraints, so
    descent in log B from any start ends at the optimum."""
    source = random.Random(f"log {objective.value}")
    for _ in range(4):
        LOADS.clear()
        problem = random_problem(source, objective=objective)
        optimum = optimise(problem)
        assert 0 <= optimum.gap <= 1e-5
        best = None
        rows = [c.row for c in problem.constraints]
        start = np.log([float(b) for b in optimum.bandwidths])
        for _ in range(3):
            shift = np.array([source.gauss(0, 0.5) for _ in start])

            def objective_of(x, problem=problem):
                return np.log(value_of(problem, np.exp(x)))

            limits = [
                {
                    "type": "ineq",
                    "fun": lambda x, row=row: (
                        float(row.right) - np.dot([float(c) for c in row.coefficients], np.exp(x))
                    ),
                }
                for row in rows
            ]
            found = minimize(
                objective_of, start + shift, method="COBYLA", constraints=limits,
                options={"maxiter": 300, "rhobeg": 0.3, "catol": 1e-9},
            )  # fmt: skip
            if all(limit["fun"](found.x) >= -1e-7 for limit in limits):
                value = value_of(problem, np.exp(found.x))
                best = value if best is None else min(best, value)
        assert best is not None
        assert float(optimum.value) <= best * (1 + 1e-6)
        assert best <= float(optimum.value) * 1.02  # the other one comes close, so it has tried


def test_time_and_cost_under_an_equality_against_a_fine_grid():
    """An equality is no constraint of a geometric program; the optimum is global all the same."""
    dims = network((RING, 8), (SWITCH, 16))
    LOADS.clear()
    for compute in (0, 10**7, 10**9):
        problem = problem_of(
            dims,
            one_collective(dims, 10**9, compute=compute),
            "B1 + B2 = 50",
            objective=Objective.PERF_PER_COST,
            prices=PRICES,
        )
        optimum = optimise(problem)
        grid = np.linspace(0.05, 49.95, 999)
        best = min(value_of(problem, (b, 50 - b)) for b in grid)
        assert float(optimum.value) <= best
        assert best <= float(optimum.value) * 1.001
        assert 0 <= optimum.gap <= 1e-6


def random_program(source):
    variables, times = source.randint(1, 4), source.randint(1, 4)

    def fraction(low=0):
        return Fraction(source.randint(low, 20), source.randint(1, 5))

    def path(later):
        counts = {c: fraction() for c in range(times) if source.random() < 0.7}
        return ProgramPath(fraction(), counts, {s: fraction() for s in later})

    pieces = tuple(
        tuple(
            Piece(fraction(1), tuple(fraction(1) for _ in range(variables)))
            for _ in range(source.randint(1, 3))
        )
        for _ in range(times)
    )
    steps = tuple(
        ProgramStep(tuple(path(range(s + 1, 2)) for _ in range(2)), fraction()) for s in range(2)
    )
    rows = (
        Row((Fraction(1),) * variables, Fraction(50), equal=source.random() < 0.5),
        *(Row(tuple(Fraction(-(i == d)) for i in range(variables)), Fraction(-1, 10))
          for d in range(variables)),
    )  # fmt: skip
    ranges = tuple((Fraction(1, 10), Fraction(50)) for _ in range(variables))
    centre = (Fraction(50, variables),) * variables
    counts = {c: fraction() for c in range(times)}
    return Program(pieces, fraction(), counts, steps, rows, ranges, centre)


def test_any_multipliers_give_a_bound():
    """The certificate holds whatever the solver says: random multipliers and feasible points."""
    source = random.Random(2)
    for _ in range(80):
        program = random_program(source)
        multipliers = Multipliers(
            tuple(
                tuple((source.uniform(-1, 5), source.uniform(-1, 9)) for _ in pieces)
                for pieces in program.times
            ),
            tuple(tuple(source.uniform(-1, 5) for _ in step.paths) for step in program.steps),
            tuple(source.uniform(-9, 9) for _ in program.rows),
        )
        bound = lower_bound(program, multipliers)
        for _ in range(5):
            shares = [Fraction(source.randint(1, 99)) for _ in program.ranges]
            total = 50 if program.rows[0].equal else source.randint(10, 50)
            point = [s * total / sum(shares) for s in shares]
            if all(row.holds(point) for row in program.rows):
                assert bound <= program.value(point)


def test_the_solvers_multipliers_close_the_gap():
    source = random.Random(4)
    for _ in range(40):
        program = random_program(source)
        point, multipliers = solve_conic(program)
        value = float(program.value([Fraction(z) for z in point]))
        bound = float(lower_bound(program, multipliers))
        assert bound == pytest.approx(value, rel=1e-6)


def test_collectives_of_a_byte_beside_those_of_terabytes():
    """Steps whose share of the objective is beyond a solver's accuracy take none of it away."""
    dims = network((SWITCH, 16), (RING, 8), (RING, 7))

    def path(compute, *demands):
        return Path(
            Fraction(compute),
            tuple((Demand(OF[op], size, Communicator(group)), n) for op, size, group, n in demands),
        )

    OF = dict(zip(("AR", "RS", "AG", "A2A"), SIMPLE, strict=True))  # noqa: N806
    first = (
        Step((path(1, ("AG", 10**9, (1, 8, 7), 23)), path(10**9, ("A2A", 10**9, (16, 8, 1), 22)))),
    )
    second = (
        Step(
            (
                path(10**6, ("AR", 10**6, (16, 1, 7), 15), ("AG", 7, (1, 8, 7), 18)),
                path(10**9, ("AG", 10**9, (16, 1, 7), 31)),
            ),
            3,
        ),
    )
    third = (
        Step(
            (
                path(1, ("RS", 1, (1, 8, 1), 50), ("A2A", 1, (16, 8, 1), 29)),
                path(10**6, ("RS", 1000, (1, 8, 1), 6), ("AG", 10**6, (16, 8, 7), 40)),
            ),
            9,
        ),
        Step(
            (
                path(10**6),
                path(
                    10**9,
                    ("AG", 1, (16, 1, 1), 13),
                    ("RS", 1000, (16, 1, 7), 45),
                    ("AR", 10**12, (16, 1, 7), 8),
                ),
                path(
                    0,
                    ("AG", 10**9, (1, 8, 7), 34),
                    ("AR", 1, (16, 8, 7), 50),
                    ("AG", 1000, (1, 8, 7), 46),
                ),
            ),
            2,
        ),
        Step((path(0, ("RS", 7, (16, 1, 1), 20)),)),
        Step((path(10**6), path(10**6, ("A2A", 7, (16, 8, 7), 11)), path(10**6)), 7),
    )
    tasks = tuple(
        TrainingTask(name=str(weight), iteration=Iteration(steps), weight=Fraction(weight))
        for weight, steps in ((1, first), (2, second), (1000, third))
    )
    constraints = ("total <= 1e6", "B1 + B2 <= 60", "B1 = 3 B3")
    problem = Problem(
        network=dims,
        tasks=tasks,
        constraints=tuple(parse_constraint(text, 3) for text in constraints),
        prices=PRICES,
    )
    for objective in Objective:
        optimum = optimise(replace(problem, objective=objective))
        assert 0 <= optimum.gap <= 1e-7
    optimum = optimise(problem)
    # One bandwidth is free, with B2 = 60 - B1 and B3 = B1 / 3: nothing on a grid of it is better.
    for b in np.linspace(20, 59.9, 60):
        point = tuple(Fraction(float(x)) for x in (b, 60 - b, b / 3))
        pairs = zip(tasks, times_ns(problem, point), strict=True)
        assert float(optimum.value) <= float(sum(t.weight * ns for t, ns in pairs)) * (1 + 1e-9)


def dual_by_hand(counts, loads, total, start):
    """Of a sum of maxima over dims under one total: for any shares of each collective on its dims,
    sum_d q_d / B_d is at least (sum_d sqrt(q_d))^2 / total by Cauchy and Schwarz. The best shares
    by another solver, which need not be exact: any give a bound."""

    def bound(x):
        weights = np.exp(x.reshape(loads.shape))
        weights = weights / weights.sum(axis=1, keepdims=True)
        return np.sqrt((counts[:, None] * weights * loads).sum(axis=0)).sum() ** 2 / total

    top = loads.max()
    found = minimize(lambda x: -bound(x) / top, np.log(start + 1e-9).ravel(), method="BFGS")
    return bound(found.x)


def test_the_bound_against_a_dual_written_by_hand():
    """The optimum of three collectives lies between a dual of its own and what the solver found,
    which leaves nothing between them."""
    dims = network((RING, 4), (FULL, 8), (SWITCH, 16))
    source = random.Random(11)
    for _ in range(5):
        demands = [
            (Demand(Operation.ALL_REDUCE, source.randrange(10**8, 10**9), Communicator(sizes)), n)
            for sizes, n in (((4, 1, 1), 2), ((4, 8, 1), 1), ((1, 8, 16), 3))
        ]
        iteration = Iteration((Step((Path(Fraction(10**6), tuple(demands)),)),))
        optimum = optimise(problem_of(dims, iteration, "total = 90"))
        counts = np.array([float(n) for _, n in demands])
        loads = np.array([[float(t) for t in traffic(dims, d)] for d, _ in demands])
        times = loads / np.array([float(b) for b in optimum.bandwidths])
        bound = 1e6 + dual_by_hand(counts, loads, 90, (times > 0.999 * times.max(1, keepdims=True)))
        assert bound <= float(optimum.value) * (1 + 1e-9)
        assert float(optimum.bound) <= float(optimum.value)
        assert bound == pytest.approx(float(optimum.bound), rel=1e-4)


def brute_balanced(dims, sizes, bandwidths, operation, size):
    """The least largest dim time over all mixtures of orders, by another solver on all orders."""
    from itertools import permutations

    from scipy.optimize import linprog

    def loads(order):
        out, left = np.zeros(len(sizes)), size
        for d in order:
            out[d] = left * (sizes[d] - 1) / sizes[d] / bandwidths[d]
            left /= sizes[d]
        return out

    orders = [loads(order) for order in permutations(range(len(sizes)))]
    halves = 2 if operation is Operation.ALL_REDUCE else 1
    columns = np.array(orders).T
    count = columns.shape[1]
    found = linprog(
        [0] * count + [1],
        A_ub=np.hstack([columns, -np.ones((len(sizes), 1))]),
        b_ub=np.zeros(len(sizes)),
        A_eq=[[1] * count + [0]],
        b_eq=[1],
    )
    return halves * found.fun


def test_balanced_time_is_the_optimum_over_all_orders():
    source = random.Random(8)
    for _ in range(15):
        sizes = tuple(source.choice((2, 4, 8)) for _ in range(source.randint(2, 4)))
        dims = network(*((source.choice((RING, FULL, SWITCH)), n) for n in sizes))
        bandwidths = [Fraction(source.randint(1, 60)) for _ in sizes]
        operation = source.choice((Operation.ALL_REDUCE, Operation.REDUCE_SCATTER))
        demand = Demand(operation, 10**9, Communicator(sizes))
        ours = TimeModel(dims, Scheduling.BALANCED).time_ns(demand, bandwidths)
        theirs = brute_balanced(dims, sizes, [float(b) for b in bandwidths], operation, 1e9)
        assert float(ours) == pytest.approx(theirs, rel=1e-6)


def test_a_balanced_scheduler_changes_what_is_best():
    """One all-reduce, balanced: any bandwidths with B1 at most B2 x P1 or so reach the ideal, the
    bytes over all bandwidth; so time x cost has another optimum than with the fixed order."""
    dims = network((RING, 8), (SWITCH, 16))
    iteration = one_collective(dims, 10**9)
    fixed = optimise(problem_of(dims, iteration, "total = 50"))
    balanced = problem_of(dims, iteration, "total = 50", scheduling=Scheduling.BALANCED)
    best = optimise(balanced)
    ideal = 2 * 10**9 * Fraction(127, 128) / 50
    assert float(best.time_ns) == pytest.approx(float(ideal), rel=1e-6)
    assert float(fixed.time_ns) == pytest.approx(float(ideal), rel=1e-6)
    assert 0 <= best.gap <= 1e-6
    # Where B2 must be large the fixed order cannot use it, a balanced one can.
    skewed = replace(balanced, constraints=(*balanced.constraints, parse_constraint("B2 >= 25", 2)))
    assert float(optimise(skewed).time_ns) == pytest.approx(float(ideal), rel=1e-6)
    slow = optimise(replace(skewed, scheduling=Scheduling.BASELINE))
    assert float(slow.time_ns) == pytest.approx(2 * 10**9 * 7 / 8 / 25, rel=1e-6)


@pytest.mark.parametrize("objective", list(Objective))
def test_balanced_problems_are_certified_and_no_slower(objective):
    source = random.Random(f"balanced {objective.value}")
    for _ in range(3):
        problem = random_problem(source, objective=objective)
        fixed = optimise(problem)
        balanced = optimise(replace(problem, scheduling=Scheduling.BALANCED))
        assert 0 <= balanced.gap <= 1e-5
        assert balanced.value <= fixed.value * (1 + Fraction(1, 10**6))


def test_bounds_on_cost():
    dims = network((RING, 8), (SWITCH, 16))
    rates = PRICES.rates(dims)
    assert rates == (384, 1408)
    limit = parse_constraint("cost <= 10000", 2, rates)
    problem = replace(
        problem_of(dims, one_collective(dims, 10**9), "total <= 1000", prices=PRICES),
    )
    optimum = optimise(replace(problem, constraints=(*problem.constraints, limit)))
    assert optimum.cost <= 10000
    assert float(optimum.cost) == pytest.approx(10000, rel=1e-6)
    # T (B1, B2) in proportion 7/8 : 15/128, scaled to the cost.
    unit = 7 / 8 * 384 + 15 / 128 * 1408
    expected = [7 / 8 * 10000 / unit, 15 / 128 * 10000 / unit]
    np.testing.assert_allclose([float(b) for b in optimum.bandwidths], expected, rtol=1e-5)


def test_what_is_not_limited():
    dims = network((RING, 8), (SWITCH, 16))
    with pytest.raises(InputError) as caught:
        optimise(problem_of(dims, one_collective(dims, 10**9), "B1 <= 100"))
    assert str(caught.value) == (
        "the constraints must limit every bandwidth, but B2 can grow for ever: add one such as "
        "'B1 + B2 <= 100'"
    )

    with pytest.raises(InputError) as caught:
        optimise(problem_of(dims, one_collective(dims, 10**9), "total <= 1e12"))
    assert str(caught.value) == (
        "the constraints must leave every bandwidth at most 1e+09 GB/s, but B1 may have 1e+12"
    )


def test_nothing_to_send():
    dims = network((RING, 8), (SWITCH, 16))
    iteration = Iteration((Step((Path(Fraction(500)),)),))
    optimum = optimise(problem_of(dims, iteration, "total = 10"))
    assert optimum.time_ns == 500
    assert 0 <= optimum.gap <= 1e-6
    cheap = problem_of(
        dims, iteration, "total = 10", objective=Objective.PERF_PER_COST, prices=PRICES
    )
    optimum = optimise(cheap)
    least = 500 * (384 * (10 - Fraction(1, 1000)) + 1408 * Fraction(1, 1000))
    assert float(optimum.value) == pytest.approx(float(least), rel=1e-6)
    assert 0 <= optimum.gap <= 1e-6


def test_parameters_of_a_problem():
    dims = network((RING, 8))
    iteration = one_collective(dims, 64)
    with pytest.raises(ValueError, match=r"^tasks must have at least one workload$"):
        Problem(network=dims, tasks=(), constraints=())
    with pytest.raises(ValueError, match=r"^minimum must be above 0, not 0$"):
        problem_of(dims, iteration, minimum=Fraction(0))
    message = r"^prices must be given for the objective perf-per-cost$"
    with pytest.raises(ValueError, match=message):
        problem_of(dims, iteration, objective=Objective.PERF_PER_COST)


def test_the_nearest_feasible_point_is_exact():
    from sw_model.optimize.conic import nearest_feasible

    rows = [Row((Fraction(1), Fraction(1)), Fraction(50), equal=True)]
    point = nearest_feasible([Fraction("30.1"), Fraction("19.7")], rows, [Fraction(1)] * 2)
    assert sum(point) == 50
    assert point == (Fraction("30.2"), Fraction("19.8"))
    assert maximise([Fraction(1), Fraction(0)], rows) == (50, 0)


def test_constraints_that_leave_one_point():
    """Where the constraints leave no room, the one point is the optimum, and certified."""
    dims = network((RING, 8), (SWITCH, 16))
    iteration = one_collective(dims, 10**9)
    rates = PRICES.rates(dims)
    cheapest = parse_constraint("cost <= 17.92", 2, rates)  # of 10 MB/s on both
    for constraints in (
        ("B1 <= 40", "B1 >= 40", "B2 = 10"),
        ("total <= 50", "B1 >= 40", "B2 >= 10"),
    ):
        optimum = optimise(problem_of(dims, iteration, *constraints, prices=PRICES))
        assert optimum.bandwidths == (40, 10)
        assert 0 <= optimum.gap <= 1e-6
    tight = problem_of(dims, iteration, prices=PRICES, minimum=Fraction(1, 100))
    for objective in Objective:
        optimum = optimise(replace(tight, constraints=(cheapest,), objective=objective))
        assert optimum.bandwidths == (Fraction(1, 100), Fraction(1, 100))
        assert 0 <= optimum.gap <= 1e-6


def test_an_optimum_far_from_where_the_solver_begins():
    """One dim: (K + a / B) c B = c (K B + a) is least at the least bandwidth, nine powers of ten
    below the most."""
    dims = network((SWITCH, 8))
    iteration = one_collective(dims, 8 * 10**6, compute=5000)
    problem = problem_of(
        dims, iteration, "total <= 1000000", objective=Objective.PERF_PER_COST, prices=PRICES
    )
    optimum = optimise(problem)
    assert optimum.bandwidths[0] == pytest.approx(Fraction(1, 1000), rel=1e-3)
    assert float(optimum.value) == pytest.approx(8 * 11 * (5000 / 1000 + 14 * 10**6), rel=1e-6)
    assert 0 <= optimum.gap <= 1e-6


def test_demands_of_one_rank_take_no_time():
    dims = network((RING, 1), (SWITCH, 4))
    nothing = Demand(Operation.ALL_REDUCE, 10**6, Communicator((1, 1)))
    iteration = Iteration((Step((Path(Fraction(9), ((nothing, 2),)),)),))
    for scheduling in Scheduling:
        optimum = optimise(problem_of(dims, iteration, "total = 10", scheduling=scheduling))
        assert optimum.time_ns == 9

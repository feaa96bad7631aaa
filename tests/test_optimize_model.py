"""LIBRA's time and cost model, the exact linear programs, and constraints as text."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.optimize.constraint import check_constraints, parse_constraint
from sw_model.optimize.demand import Communicator, Demand, split_groups, traffic
from sw_model.optimize.iteration import Overlap, iteration_of_layers
from sw_model.optimize.network import OpenDim, OpenNetwork, Tier
from sw_model.optimize.prices import Prices, TierPrices
from sw_model.optimize.simplex import (
    Row,
    UnboundedError,
    feasible_point,
    maximise,
    minimal_clash,
)
from sw_model.topology import DimKind
from sw_model.workload.layers import Communication, Layer, Mode, Pass, Workload

RING, FULL, SWITCH, FRED = KINDS = (
    DimKind.RING,
    DimKind.FULLY_CONNECTED,
    DimKind.SWITCH,
    DimKind.FRED,
)


def network(*dims, tiers=None):
    tiers = tiers or [None] * len(dims)
    return OpenNetwork(
        dims=tuple(OpenDim(kind=k, size=n, tier=t) for (k, n), t in zip(dims, tiers, strict=True))
    )


def published_traffic(operation, size, groups):
    """The formulas of the model as they are printed, in floating point."""
    out = np.zeros(len(groups))
    up, down = range(len(groups)), reversed(range(len(groups)))
    for d in down if operation is Operation.ALL_GATHER else up:
        g = groups[d]
        if operation is Operation.ALL_REDUCE:
            out[d], size = 2 * size * (g - 1) / g, size / g
        elif operation is Operation.REDUCE_SCATTER:
            out[d], size = size * (g - 1) / g, size / g
        elif operation is Operation.ALL_GATHER:
            out[d], size = size * (g - 1), size * g
        else:
            out[d] = size * (g - 1) / g
    return out


OPERATIONS = (
    Operation.ALL_REDUCE,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_TO_ALL,
)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_traffic_is_the_published_formula(operation):
    source = random.Random(operation.value)
    for _ in range(40):
        sizes = [source.choice((1, 2, 3, 8, 16)) for _ in range(source.randint(1, 5))]
        dims = network(*((source.choice(KINDS[:3]), n) for n in sizes))
        size = source.randrange(1, 10**9)
        ours = traffic(dims, Demand(operation, size, Communicator(tuple(sizes))))
        theirs = published_traffic(operation, size, sizes)
        if all(n == 1 for n in sizes):
            theirs = np.zeros(len(sizes))
        np.testing.assert_allclose([float(t) for t in ours], theirs, rtol=1e-12)


def test_a_group_takes_its_part_of_a_dim():
    dims = network((RING, 8), (SWITCH, 128))
    inner, outer = split_groups(dims, (16, 64), ("tensor", "data"))
    assert (inner.sizes, inner.inside) == ((8, 2), (1, 1))
    assert (outer.sizes, outer.inside) == ((1, 64), (8, 2))
    ours = traffic(dims, Demand(Operation.ALL_REDUCE, 1600, inner))
    assert ours == (2800, 200)


def test_groups_that_do_not_fit():
    dims = network((RING, 8), (SWITCH, 12))
    message = (
        r"^tensor must fill the network from inside, or divide what is left of the dim it ends in: "
        r"16 leaves 2 for 3 of dim 2$"
    )
    with pytest.raises(InputError, match=message):
        split_groups(network((RING, 8), (SWITCH, 3)), (16,), ("tensor",))
    assert split_groups(dims, (16,), ("tensor",))[0].sizes == (8, 2)
    message = r"^data must be at most the NPUs that are left to it, not 96 of Ring8_SW12$"
    with pytest.raises(InputError, match=message):
        split_groups(dims, (2, 96), ("tensor", "data"))


def test_fred_dims_reduce_in_the_network():
    """By hand: an all-reduce of m turns on the outer Fred dim, which sees a quarter of it once; a
    reduce-scatter sends all there, an all-gather receives all; nothing is shrunk by (P - 1)/P."""
    dims, m = network((RING, 4), (FRED, 8)), 3200

    def of(operation, size=m):
        return traffic(dims, Demand(operation, size, Communicator((4, 8))))

    assert of(Operation.ALL_REDUCE) == (2 * m * 3 // 4, m // 4)
    assert of(Operation.REDUCE_SCATTER) == (m * 3 // 4, m // 4)
    assert of(Operation.ALL_GATHER, 100) == (800 * 3, 800)
    assert of(Operation.ALL_TO_ALL) == (m * 3 // 4, m * 7 // 8)
    inner = network((FRED, 4), (RING, 8))
    ours = traffic(inner, Demand(Operation.ALL_REDUCE, m, Communicator((4, 8))))
    assert ours == (2 * m, 2 * (m // 4) * 7 // 8)


def test_a_message_uses_one_link():
    demand = Demand(None, 600, Communicator((1, 4, 2)))
    assert traffic(network((RING, 8), (SWITCH, 4), (RING, 2)), demand) == (0, 600, 0)
    assert traffic(network((RING, 8), (FULL, 4), (RING, 2)), demand) == (0, 1800, 0)


PRICES = Prices(
    tiers={
        Tier.INTER_CHIPLET: TierPrices(link=Fraction(2)),
        Tier.INTER_PACKAGE: TierPrices(link=Fraction(4), switch=Fraction(13)),
        Tier.INTER_NODE: TierPrices(link=Fraction(4), switch=Fraction(13)),
        Tier.INTER_POD: TierPrices(link=Fraction("7.8"), switch=Fraction(18), nic=Fraction("31.6")),
    }
)


def test_cost_by_hand():
    dims = network(
        (RING, 2), (FULL, 8), (SWITCH, 4), (SWITCH, 8), (FRED, 2),
        tiers=(*Tier, Tier.INTER_NODE),
    )  # fmt: skip
    assert PRICES.rates(dims) == tuple(1024 * Fraction(p) for p in ("2", "4", "17", "57.4", "17"))
    cost = PRICES.cost(dims, [Fraction(b) for b in (100, 50, 20, 10, 1)])
    assert cost == 1024 * (200 + 200 + 340 + 574 + 17)
    shared = Prices(tiers=PRICES.tiers, shared_links=True)
    assert shared.rates(dims) == tuple(1024 * Fraction(p) for p in ("1", "2", "17", "57.4", "17"))


@pytest.mark.parametrize(
    ("prices", "dim", "message"),
    [
        ({}, (RING, Tier.INTER_POD), "prices must have inter-pod, the tier of dim 3"),
        ({}, (RING, None), "dim 3 must have a tier, by which it is priced"),
        (
            {Tier.INTER_NODE: TierPrices(link=Fraction(1))},
            (SWITCH, Tier.INTER_NODE),
            "prices must have switch for inter-node: dim 3 is a Switch",
        ),
        (
            {Tier.INTER_POD: TierPrices(link=Fraction(1), switch=Fraction(1))},
            (FRED, Tier.INTER_POD),
            "prices must have nic for inter-pod: dim 3 is a Fred",
        ),
    ],
)
def test_prices_that_are_missing(prices, dim, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Prices(tiers=prices).per_npu(OpenDim(kind=dim[0], size=2, tier=dim[1]), 3)


def test_prices_must_be_positive():
    with pytest.raises(ValueError, match=r"^nic must be a positive price, not 0$"):
        TierPrices(link=Fraction(1), nic=Fraction(0))
    with pytest.raises(ValueError, match=r"^kind must be one of Ring, .*, Fred, not 'Mesh2D'$"):
        OpenDim(kind=DimKind.MESH2D, size=4)


def layer(*times, sizes):
    def of(size):
        return Communication(Operation.ALL_REDUCE, size) if size else Communication()

    forward, inputs, weights = times
    return Layer(
        "l", forward, of(sizes[0]), inputs, of(sizes[1]), weights, of(sizes[2]), update_ns=7
    )


def queued_backward(layers, times):
    """A backward pass and the queue of its reductions, event by event."""
    clock = server = 0
    for one in reversed(layers):
        inputs = clock + one.input_gradient_ns
        weights = inputs + one.weight_gradient_ns
        clock = max(weights, inputs + times(one, Pass.INPUT_GRADIENT))
        if one.weight_gradient.operation is not None:
            server = max(server, weights) + times(one, Pass.WEIGHT_GRADIENT)
    return max(clock, server)


@pytest.mark.parametrize("overlap", list(Overlap))
def test_iteration_time_of_every_mode(overlap):
    source = random.Random(3)
    dims = network((RING, 4), (SWITCH, 8))
    inner, outer = split_groups(dims, (8, 4), ("tensor", "data"))
    for _ in range(30):
        layers = tuple(
            layer(
                *(source.randrange(2000) for _ in range(3)),
                sizes=[source.choice((0, 0, 64 * source.randrange(1, 2000))) for _ in range(3)],
            )
            for _ in range(source.randint(1, 9))
        )
        iteration = iteration_of_layers(
            Workload(mode=Mode.DATA, layers=layers),
            lambda _, part: outer if part is Pass.WEIGHT_GRADIENT else inner,
            forward_comm_count=2,
            overlap=overlap,
        )
        bandwidths = (Fraction(source.randrange(1, 99)), Fraction(source.randrange(1, 99)))

        def of_demand(demand, bandwidths=bandwidths):
            loads = traffic(dims, demand)
            return max(load / b for load, b in zip(loads, bandwidths, strict=True))

        def time(one, part, bandwidths=bandwidths):
            group = outer if part is Pass.WEIGHT_GRADIENT else inner
            size = one.communication(part).bytes
            loads = published_traffic(Operation.ALL_REDUCE, size, group.sizes)
            return max(loads / np.array([float(b) for b in bandwidths]))

        expected = sum(one.forward_ns + 2 * time(one, Pass.FORWARD) for one in layers)
        for one in layers:
            ig, wg = one.input_gradient_ns, one.weight_gradient_ns
            ig_comm, wg_comm = time(one, Pass.INPUT_GRADIENT), time(one, Pass.WEIGHT_GRADIENT)
            if overlap is Overlap.NONE:
                expected += ig + ig_comm + wg + wg_comm
            elif overlap is Overlap.LAYER:
                expected += max(ig + ig_comm, ig + wg + wg_comm)
        if overlap is Overlap.BACKWARD:
            expected += queued_backward(layers, time)
        assert float(iteration.time_ns(of_demand)) == pytest.approx(expected, rel=1e-12)


def random_rows(source, variables):
    rows = []
    for _ in range(source.randint(1, 6)):
        coefficients = tuple(Fraction(source.randint(-3, 4)) for _ in range(variables))
        rows.append(Row(coefficients, Fraction(source.randint(-6, 12)), source.random() < 0.3))
    return rows


def by_scipy(objective, rows):
    """linprog's status and value: 0 optimal, 2 infeasible, 3 unbounded."""
    args = {}
    for equal, names in ((False, ("A_ub", "b_ub")), (True, ("A_eq", "b_eq"))):
        chosen = [row for row in rows if row.equal is equal]
        if chosen:
            args[names[0]] = [[float(c) for c in row.coefficients] for row in chosen]
            args[names[1]] = [float(row.right) for row in chosen]
    found = linprog([-float(c) for c in objective], **args, method="highs")
    return found.status, found.fun


def test_linear_programs_agree_with_another_solver():
    source = random.Random(11)
    seen = set()
    for _ in range(150):
        variables = source.randint(1, 5)
        rows = random_rows(source, variables)
        objective = [Fraction(source.randint(-3, 4)) for _ in range(variables)]
        status, value = by_scipy(objective, rows)
        if status == 4:  # that solver cannot tell infeasible from unbounded
            continue
        seen.add(status)
        try:
            point = maximise(objective, rows)
        except UnboundedError:
            assert status == 3
            continue
        assert (point is None) == (status == 2)
        if point is not None:
            assert all(row.holds(point) for row in rows)
            assert all(x >= 0 for x in point)
            ours = sum(c * x for c, x in zip(objective, point, strict=True))
            assert float(ours) == pytest.approx(-value, abs=1e-7)
    assert seen == {0, 2, 3}


def test_clashes_are_minimal():
    """Against all subsets: what is named clashes, and nothing less of it does."""
    source = random.Random(5)
    found = 0
    for _ in range(60):
        variables = source.randint(1, 3)
        rows = random_rows(source, variables)
        clash = minimal_clash(rows, variables)
        feasible = by_scipy([Fraction(0)] * variables, rows)[0] == 0
        assert feasible == (not clash)
        if clash:
            found += 1
            assert by_scipy([Fraction(0)] * variables, [rows[k] for k in clash])[0] == 2
            for rest in itertools.combinations(clash, len(clash) - 1):
                assert feasible_point([rows[k] for k in rest], variables) is not None
    assert found > 10


@pytest.mark.parametrize(
    ("text", "coefficients", "right", "equal"),
    [
        ("B1 + B2 = 50", (1, 1, 0), 50, True),
        ("B1 >= B2", (-1, 1, 0), 0, False),
        ("2 B1 - 0.5*B3 <= 10 GB/s", (2, 0, "-1/2"), 10, False),
        ("total == 300", (1, 1, 1), 300, True),
        ("10 + B2 ≥ 3*B1/4 - B3", ("3/4", -1, -1), 10, False),
        ("-B1 + 1e2 <= B2 + 40", (-1, -1, 0), -60, False),
        ("1/3 B1 <= 5", ("1/3", 0, 0), 5, False),
        ("cost <= 1000", (2, 3, 4), 1000, False),
        ("5<=B1", (-1, 0, 0), -5, False),
    ],
)
def test_constraints_as_text(text, coefficients, right, equal):
    rates = [Fraction(2), Fraction(3), Fraction(4)]
    row = parse_constraint(text, 3, rates).row
    assert row == Row(tuple(Fraction(c) for c in coefficients), Fraction(right), equal)


SUM = "a constraint must be a sum such as '2 B1 + B2', not"
RELATION = "a constraint must have one relation, which is =, <= or >=, not"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("B1 + B4 = 50", "unknown dim 'B4': the network has B1..B3"),
        ("B0 = 50", "unknown dim 'B0': the network has B1..B3"),
        ("b1 = 50", "unknown dim 'b1': the network has B1..B3"),
        ("B1 + Foo = 100", "unknown name 'Foo' (known: B1, B2, B3, cost, total)"),
        ("B1 + totl = 100", "unknown name 'totl' (did you mean 'total'?)"),
        ("B1 + B2", f"{RELATION} 'B1 + B2'"),
        ("1 <= B1 <= 2", f"{RELATION} '1 <= B1 <= 2'"),
        ("B1 < 2", f"{RELATION} '<'"),
        ("B1 + + B2 = 3", f"{SUM} '+ B2'"),
        ("B1 * B2 = 3", f"{SUM} '* B2'"),
        ("B1 + = 3", f"{SUM} the end"),
        ("B1 = ", f"{SUM} the end"),
        ("B1/0 = 3", "a constraint must not divide by 0"),
        ("1/0 B1 = 3", "a constraint must not divide by 0"),
        ("5 = 100", "a constraint must name a bandwidth such as B1, not '5 = 100'"),
        ("B1 >= B1", "a constraint must name a bandwidth such as B1, not 'B1 >= B1'"),
        ("B2 = 0", "the bandwidth of a dim must be above 0: 'B2 = 0' leaves B2 0 GB/s"),
        ("2 B2 <= -4", "the bandwidth of a dim must be above 0: '2 B2 <= -4' leaves B2 -2 GB/s"),
        ("0 >= B3", "the bandwidth of a dim must be above 0: '0 >= B3' leaves B3 0 GB/s"),
        ("cost <= 5", "a constraint on cost must have prices"),
    ],
)
def test_constraints_that_are_none(text, message):
    with pytest.raises(InputError) as caught:
        parse_constraint(text, 3, path="e.yaml", line=4, column=5)
    assert str(caught.value) == f"e.yaml:4:5: {message}"


def test_clashing_constraints_are_named():
    lines = ("B1 + B2 = 50", "B1 >= B2", "B3 <= 20", "B2 >= 30", "B1 + B3 >= 5")
    constraints = [
        parse_constraint(text, 3, path="e.yaml", line=number, column=5)
        for number, text in enumerate(lines, start=7)
    ]
    with pytest.raises(InputError) as caught:
        check_constraints(constraints, Fraction(1, 1000), 3)
    assert str(caught.value) == (
        "e.yaml:7:5: the constraints 'B1 + B2 = 50' in line 7, 'B1 >= B2' in line 8 and 'B2 >= 30' "
        "in line 10 cannot all hold (every bandwidth is at least 0.001 GB/s); without any one of "
        "them the others can"
    )
    with pytest.raises(InputError) as caught:
        check_constraints([parse_constraint("total = 0", 3)], Fraction(1, 1000), 3)
    assert str(caught.value) == (
        "the constraint 'total = 0' cannot hold: every bandwidth is at least 0.001 GB/s"
    )
    check_constraints(constraints[:3], Fraction(1, 1000), 3)

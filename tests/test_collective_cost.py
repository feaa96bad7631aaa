"""Phase costs by kind of dim, algorithms that a dim can run, and groups as networks."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from sw_model.collective.cost import algorithm_of, algorithms_of, phase_cost
from sw_model.collective.plan import Algorithm, Operation
from sw_model.errors import InputError
from sw_model.schedule.group import folds, group_topology, parse_ranks
from sw_model.topology import DimKind, Topology
from tests.plan_cases import GB, dim

AR, RS, AG, A2A = (
    Operation.ALL_REDUCE,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_TO_ALL,
)
RING, FULL, SWITCH, FRED = (
    DimKind.RING,
    DimKind.FULLY_CONNECTED,
    DimKind.SWITCH,
    DimKind.FRED,
)


@pytest.mark.parametrize(
    ("kind", "operation", "algorithm", "expected"),
    [
        # sent, received, steps, share; 8 NPUs, 64 units of payload
        (RING, RS, Algorithm.RING, (56, 56, 7, 1)),
        (RING, AR, Algorithm.RING, (112, 112, 14, 1)),
        (RING, A2A, Algorithm.RING, (224, 224, 7, 1)),
        (RING, AG, Algorithm.DIRECT, (224, 224, 7, 1)),
        (RING, A2A, Algorithm.DIRECT, (224, 224, 7, 1)),
        (FULL, RS, Algorithm.DIRECT, (56, 56, 1, 1)),
        (FULL, AR, Algorithm.DIRECT, (112, 112, 2, 1)),
        (FULL, A2A, Algorithm.DIRECT, (56, 56, 1, 1)),
        (FULL, RS, Algorithm.RING, (56, 56, 7, Fraction(1, 7))),
        (FULL, AG, Algorithm.HALVING_DOUBLING, (56, 56, 3, Fraction(1, 7))),
        (SWITCH, RS, Algorithm.HALVING_DOUBLING, (56, 56, 3, 1)),
        (SWITCH, AG, Algorithm.DIRECT, (56, 56, 1, 1)),
        (SWITCH, AR, Algorithm.RING, (112, 112, 14, 1)),
        (SWITCH, A2A, Algorithm.DIRECT, (56, 56, 1, 1)),
        (FRED, AR, Algorithm.IN_NETWORK, (64, 64, 1, 1)),
        (FRED, RS, Algorithm.IN_NETWORK, (64, 8, 1, 1)),
        (FRED, AG, Algorithm.IN_NETWORK, (8, 64, 1, 1)),
        (FRED, RS, Algorithm.HALVING_DOUBLING, (56, 56, 3, 1)),
        (FRED, A2A, Algorithm.DIRECT, (56, 56, 1, 1)),
    ],
)
def test_costs(kind, operation, algorithm, expected):
    cost = phase_cost(dim(kind, 8), operation, algorithm, 64)
    assert (cost.sent, cost.received, cost.steps, cost.share) == expected
    assert cost.port == max(expected[:2]) / Fraction(expected[3])


def test_messages_round_a_ring_by_counting_them():
    """Direct messages between all pairs of a ring of P: what each link carries."""
    for size in (2, 3, 5, 8):
        carried = [0] * size
        for source, target in product(range(size), repeat=2):
            for hop in range((target - source) % size):
                carried[(source + hop) % size] += 1
        (per_link,) = set(carried)
        cost = phase_cost(dim(RING, size), A2A, Algorithm.RING, size)  # shards of one unit
        assert cost.sent == per_link


def test_a_dim_of_one_costs_nothing():
    for kind, operation in product((RING, FULL, SWITCH, FRED), Operation):
        one = dim(kind, 1)
        cost = phase_cost(one, operation, algorithm_of(one, operation), 64)
        assert (cost.port, cost.steps) == (0, 0)


def test_default_algorithms():
    assert algorithm_of(dim(RING, 8), AR) is Algorithm.RING
    assert algorithm_of(dim(FULL, 8), AR) is Algorithm.DIRECT
    assert algorithm_of(dim(SWITCH, 8), AR) is Algorithm.HALVING_DOUBLING
    assert algorithm_of(dim(SWITCH, 6), AR) is Algorithm.DIRECT
    assert algorithm_of(dim(SWITCH, 8), A2A) is Algorithm.DIRECT
    assert algorithm_of(dim(FRED, 8), AR) is Algorithm.IN_NETWORK
    assert algorithm_of(dim(FRED, 8), A2A) is Algorithm.DIRECT
    dims = (dim(RING, 4), dim(SWITCH, 8))
    assert algorithms_of(dims, AR, "ring") == (Algorithm.RING,) * 2
    assert algorithms_of(dims, AR, "ring, direct") == (Algorithm.RING, Algorithm.DIRECT)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("rings", "unknown algorithm 'rings' (did you mean 'ring'?)"),
        ("in-network", "a Ring dim runs ring, direct, bidirectional-ring, not 'in-network'"),
        (
            "ring,halving-doubling",
            "halving-doubling must have a power of two of NPUs, not 6 on a Switch dim",
        ),
        (
            "ring,ring,ring",
            "--algorithm must name one algorithm, or one for each of the 2 dims, not 3",
        ),
    ],
)
def test_wrong_algorithms(names, message):
    with pytest.raises(InputError) as error:
        algorithms_of((dim(RING, 4), dim(SWITCH, 6)), AR, names)
    assert str(error.value) == message


def test_groups():
    network = Topology((dim(RING, 8, GB, 5), dim(FULL, 4, 3 * GB), dim(SWITCH, 4)))
    half = group_topology(network, range(4))
    assert [d.size for d in half.dims] == [4, 1, 1]
    assert half.dims[0].bandwidth == GB
    assert half.dims[0].latency_ps == 5 * 5  # from NPU 3 round to NPU 0
    every_other = group_topology(network, (0, 2, 4, 6))
    assert every_other.dims[0].latency_ps == 2 * 5
    across = group_topology(network, (0, 8, 32, 40))
    assert [d.size for d in across.dims] == [1, 2, 2]
    assert across.dims[1].bandwidth == GB  # one link of three
    assert group_topology(network, range(128)) == network


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ((0, 64), "a rank of the group must be in 0..31, not 64"),
        (
            (0, 1, 8),
            "the group must be all combinations of its coordinates on the dims (2 x 2 ranks), "
            "not 3 of them",
        ),
    ],
)
def test_wrong_groups(ranks, message):
    network = Topology((dim(RING, 8), dim(SWITCH, 4)))
    with pytest.raises(InputError) as error:
        group_topology(network, ranks)
    assert str(error.value) == message


def test_a_part_of_a_mesh_is_refused():
    network = Topology((dim(DimKind.MESH2D, 4),))
    with pytest.raises(InputError, match="a group must have all 4 NPUs of a Mesh2D dim, not 2"):
        group_topology(network, (0, 1))


def test_what_folds():
    network = Topology((dim(RING, 8), dim(DimKind.MESH2D, 4)))
    assert folds(network, (0, 2, 5))
    assert folds(network, (0, 8, 16, 24))
    assert not folds(network, (0, 9))
    assert not folds(network, (0, 8))  # a part of a mesh


def test_ranks():
    assert parse_ranks("0-3,8, 10-11") == (0, 1, 2, 3, 8, 10, 11)
    for text, message in (
        ("a", "a group must be ranks such as '0-7' or '0,2,8-11', not 'a'"),
        ("3-", "a group must be ranks such as '0-7' or '0,2,8-11', not '3-'"),
        ("7-0", "a range of ranks must not run backwards, not '7-0'"),
        ("0-3,2", "a group must name a rank once, not rank 2 twice"),
    ):
        with pytest.raises(ValueError) as error:  # noqa: PT011
            parse_ranks(text)
        assert str(error.value) == message

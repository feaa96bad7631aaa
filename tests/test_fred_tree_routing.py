"""The global router of a tree of switches, and what its configurations carry."""

import random
import re
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from sw_model.collective.check import check_plan
from sw_model.collective.plan import Collective, Operation
from sw_model.collective.replay_groups import replay_groups
from sw_model.errors import InputError
from sw_model.fabric.channels import platform_channels
from sw_model.fred.reduction import leaves
from sw_model.fred.tree.placement import tree_table
from sw_model.fred.tree.routing import GroupFlow, switch_flows
from sw_model.fred.tree.shape import TreePorts, TreeShape
from sw_model.fred.tree.table import TreeTable
from sw_model.network import read_network
from sw_model.platform import EngineParameters, Partition, Platform
from sw_model.schedule.limits import Limits
from sw_model.schedule.planner import plan_collective
from sw_model.topology import Dim, DimKind, Topology

WAFER = TreePorts(TreeShape(4, 4, 2).tree(20))


def all_reduce(ranks, traffic_class="dp"):
    ranks = tuple(ranks)
    return GroupFlow(group=ranks, sources=ranks, sinks=ranks, traffic_class=traffic_class)


def platform(size=20, **shape):
    shape = TreeShape(**({"ranks": 4, "ups": 4, "tops": 2} | shape))
    dim = Dim(DimKind.FRED, size, Fraction(20 * 10**9), 20_000, tree=shape)
    engine = EngineParameters(partitions=(Partition(8, 256), Partition(8, 256)))
    return Platform.from_topology(Topology((dim,)), engine=engine)


def test_ports_of_the_wafer() -> None:
    """Five FRED(8) with four NPUs and four up links, two FRED(10) with two links of each."""
    assert (WAFER.ports("L1"), WAFER.ports("L2")) == (8, 10)
    assert len(WAFER.switches) == 7
    ends = {WAFER.top(switch, link) for switch in range(5) for link in range(4)}
    assert ends == {(top, port) for top in range(2) for port in range(10)}


def test_an_all_reduce_over_all_reduces_in_l1_then_in_l2() -> None:
    everyone = all_reduce(range(20))
    tree = TreeTable(WAFER, [[everyone]]).tree(everyone)

    def below(node):
        """The L1 switches of a part of the tree."""
        return {rank // 4 for rank in leaves(node)}

    def check(node):
        """Where two parts meet, neither is of an L1 switch that the other has a part of, but
        within one."""
        if isinstance(node, int):
            return
        left, right = map(below, node)
        assert not left & right or (left == right and len(left) == 1)
        check(node[0])
        check(node[1])

    check(tree)
    assert sorted(leaves(tree)) == list(range(20))


def test_data_groups_of_every_l1_run_at_once_through_links_of_their_own() -> None:
    columns = [all_reduce(range(place, 20, 4)) for place in range(4)]
    table = TreeTable(WAFER, [columns])
    assert [table.index(flow) for flow in columns] == [0] * 4
    for switch in range(5):
        assert len({table.ways[flow.key].ups[switch] for flow in columns}) == 4


def test_groups_that_route_together_share_an_entry_whoever_asked_for_them() -> None:
    sets = [[all_reduce((0, 1, 2, 3), "mp")], [all_reduce((4, 5, 8, 9), "mp")]]
    sets.append([all_reduce((6, 10, 12, 16))])
    table = TreeTable(WAFER, sets)
    assert [table.index(flows[0]) for flows in sets] == [0, 0, 0]
    for (flow,) in sets:
        assert sorted(leaves(table.tree(flow))) == list(flow.sources)


def keeps_order(table: TreeTable, flows) -> bool:
    """Trunk order, spelled out: flows that leave an L1 switch by one port share an input."""
    rising = []
    for flow in flows:
        for (level, number), part in switch_flows(WAFER, flow, table.ways.get(flow.key)):
            if level == "L1" and part.outputs[0] >= 4:
                rising.append((number, part.outputs, set(part.inputs)))
    return all(
        a[2] & b[2] for a, b in combinations(rising, 2) if a[:2] == b[:2]
    )  # fmt: skip


def test_random_groups_are_heard_exactly_and_leave_in_order() -> None:
    """Random sets of groups of one size; one set at a time in which all that is asked for fits."""
    generator = random.Random(5)
    routed = 0
    for _ in range(60):
        sets = []
        for _ in range(generator.randrange(1, 4)):
            size = generator.choice((2, 3, 4, 5, 8, 10))
            ranks = generator.sample(range(20), 20)
            count = generator.randrange(1, 20 // size + 1)
            groups = [sorted(ranks[i * size : (i + 1) * size]) for i in range(count)]
            sets.append([all_reduce(group, generator.choice(("mp", "dp"))) for group in groups])
        try:
            table = TreeTable(WAFER, sets)
        except InputError:
            continue
        routed += 1
        flows = [flow for flows in sets for flow in flows]
        for flow in flows:
            assert sorted(leaves(table.tree(flow))) == list(flow.sources)
        assert keeps_order(table, flows)
    assert routed >= 20


def test_a_group_that_no_up_link_is_left_for() -> None:
    sets = [[all_reduce((place, place + 4))] for place in range(4)]
    narrow = TreePorts(TreeShape(4, 2, 1).tree(8))
    message = (
        "the groups must leave every L1 switch in one order: no up links are left for group 2,6 of "
        "class dp that it would share only with groups that have a source of its own below the "
        "same L1 switch; place them on other NPUs, or give the tree more up links"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        TreeTable(narrow, sets)


def test_classes_with_channels_of_their_own_may_share_a_link() -> None:
    sets = [[all_reduce((0, 4), "mp")], [all_reduce((1, 5), "dp")]]
    narrow = TreePorts(TreeShape(4, 1, 1).tree(8))
    with pytest.raises(InputError, match="no up links are left for group 1,5 of class dp"):
        TreeTable(narrow, sets)
    table = TreeTable(narrow, sets, class_channels=True)
    assert [table.index(flows[0]) for flows in sets] == [0, 1]


def test_memories_that_are_too_small() -> None:
    message = (
        "the collectives need 2 configurations of the switches, and their memories hold 1: use "
        "fewer groups, operations or data types"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        TreeTable(WAFER, [[all_reduce(range(20))], [all_reduce((0, 1))]], capacity=1)


def test_a_flow_that_was_not_asked_for() -> None:
    table = TreeTable(WAFER, [[all_reduce(range(20))]])
    with pytest.raises(ValueError, match=r"^flow dp 0,1 > 0,1 of fp16 sum must be in the"):
        table.index(all_reduce((0, 1)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ups": 3}, "tree.ups must be a multiple of the 2 L2 switches, not 3"),
        ({"ranks": 0}, "tree.ranks must be at least 1, not 0"),
        (
            {"ranks": 3},
            "a tree with 3 NPUs below each L1 switch must have a multiple of that, 6 or more, "
            "not 20",
        ),
        (
            {"ups": 62},
            "an L1 switch of 66 ports: ports must be an integer in 2..64, not 66",
        ),
    ],
)
def test_shapes_that_cannot_be(changes, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        platform(**changes)


def test_a_tree_beside_another_dim() -> None:
    dim = platform().topology.dims[0]
    ring = Dim(DimKind.RING, 2, Fraction(20 * 10**9), 1000)
    message = "a tree of FRED switches must be the only dim, not one of 2"
    with pytest.raises(ValueError, match=f"^{message}$"):
        Platform.from_topology(Topology((ring, dim)))


def test_a_description_in_a_file(tmp_path) -> None:
    file = tmp_path / "wafer.yml"
    dim = "{kind: Fred, size: 20, bandwidth_per_npu: 20 GB/s, latency: 20 ns, tree: %s}"
    file.write_text("dims:\n  - " + dim % "{ranks: 4, ups: 4, tops: 2}")
    assert read_network(file).dims[0].tree == TreeShape(4, 4, 2)
    file.write_text("dims:\n  - " + dim % "{ranks: 6, ups: 4, tops: 2}")
    with pytest.raises(InputError, match="a tree with 6 NPUs below each L1 switch must have a mul"):
        read_network(file)
    file.write_text("dims:\n  - " + (dim % "{ranks: 4, ups: 4, tops: 2}").replace("Fred", "Ring"))
    with pytest.raises(InputError, match="tree is for a Fred dim only"):
        read_network(file)
    ring = "{kind: Ring, size: 2, bandwidth_per_npu: 20 GB/s, latency: 20 ns}"
    file.write_text(f"dims:\n  - {ring}\n  - " + dim % "{ranks: 4, ups: 4, tops: 2}")
    message = "wafer.yml:1:1: a tree of FRED switches must be the only dim, not one of 2"
    with pytest.raises(InputError, match=f"{message}$"):
        read_network(file)


def test_channels_of_the_wafer_have_no_cycle() -> None:
    graph = platform_channels(platform().topology)
    assert len(graph) == 80  # both directions of 20 links below and 20 above
    assert graph.cycle() == []


GROUPS = {
    "everyone": {"dims": (0,)},
    "pairs": {"groups": tuple((i, i + 1) for i in range(0, 20, 2)), "traffic_class": "mp"},
    "columns": {"groups": tuple(tuple(range(i, 20, 4)) for i in range(4))},
    "one": {"groups": ((3, 4, 7, 19),)},
}


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize(
    "operation", [Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER]
)
def test_every_group_has_its_own_result(operation, groups) -> None:
    """INT32, which no order changes, against NumPy."""
    where = platform()
    elements = 400 if operation is Operation.ALL_REDUCE else 4 * 20 * 4
    request = Collective(operation, elements, "int32", **groups)
    plan = plan_collective(request, where, chunks=3)
    check_plan(plan, limits=Limits.of(where))
    generator = np.random.default_rng(3)
    sources = [generator.integers(-(2**20), 2**20, elements, np.int32) for _ in range(20)]
    results = replay_groups(plan, sources, tree_table(where.tree, [request]))
    members = set()
    for group in plan.groups:
        total = sum(sources[rank] for rank in group)
        for place, rank in enumerate(group):
            members.add(rank)
            block = elements // len(group)
            right = {
                Operation.ALL_REDUCE: total,
                Operation.REDUCE_SCATTER: total[place * block : (place + 1) * block],
                Operation.ALL_GATHER: np.concatenate([sources[other] for other in group]),
            }[operation]
            assert np.array_equal(results[rank], right)
    assert all(results[rank].size == 0 for rank in set(range(20)) - members)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (((0, 1), (1, 2)), "groups must be ascending ranks, and share none, not ((0, 1), (1, 2))"),
        (((1, 0),), "groups must be ascending ranks, and share none, not ((1, 0),)"),
        (((0, 1), (2, 3, 4)), "groups must have one size, of 2 or more, not [2, 3]"),
        (((0,),), "groups must have one size, of 2 or more, not [1]"),
    ],
)
def test_groups_that_cannot_be(groups, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Collective(Operation.ALL_REDUCE, 8, groups=groups)


def test_groups_beside_dims() -> None:
    with pytest.raises(
        ValueError, match=r"^groups must stand in place of dims, not beside \(0,\)$"
    ):
        Collective(Operation.ALL_REDUCE, 8, dims=(0,), groups=((0, 1),))


def test_groups_where_there_is_no_tree() -> None:
    request = Collective(Operation.ALL_REDUCE, 8, groups=((0, 1),))
    ring = Platform.from_topology(Topology((Dim(DimKind.RING, 4, Fraction(20 * 10**9), 1000),)))
    message = "groups must be on a network that is one tree of FRED switches"
    with pytest.raises(InputError, match=f"^{message}$"):
        plan_collective(request, ring)
    with pytest.raises(InputError, match=r"^a group must name ranks in 0\.\.19, not 20$"):
        plan_collective(Collective(Operation.ALL_REDUCE, 8, groups=((19, 20),)), platform())

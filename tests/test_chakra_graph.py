"""The graph of one rank: attributes of any kind, and what is wrong in a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sw_model.chakra.files import encode_trace, parse_trace
from sw_model.chakra.graph import build_graph, shortest_cycle
from sw_model.chakra.messages import NodeKind, message
from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from tests.chakra_traces import all_reduce, compute, node, receive, send, trace


def graph(*nodes):
    return build_graph(trace(nodes))


def wrong(*nodes) -> str:
    with pytest.raises(InputError) as error:
        graph(*nodes)
    return str(error.value)


@pytest.mark.parametrize(
    "kind",
    ["int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
     "sfixed64", "double", "float"],
)  # fmt: skip
def test_numbers_of_any_kind(kind):
    made = message("Node")(id=1, type=NodeKind.COMM_COLL)
    for name, value in (("comm_type", 7), ("comm_size", 4096), ("comm_priority", 3)):
        setattr(made.attr.add(name=name), f"{kind}_val", value)
    read = graph(made).nodes[0]
    assert (read.operation, read.size, read.priority) == (Operation.REDUCE_SCATTER, 4096, 3)


def test_groups_by_name_number_and_dims():
    nodes = (
        all_reduce(0, 8, pg_name="tp"),
        all_reduce(1, 8, pg_name=12),
        all_reduce(2, 8, involved_dim=[True, False]),
        all_reduce(3, 8),
    )
    read = graph(*nodes).nodes
    assert [n.group for n in read] == ["tp", "12", "", ""]
    assert [n.dims for n in read] == [None, None, (True, False), None]


def test_dependencies_of_both_kinds_and_defaults():
    first, second, third = graph(
        compute(4, 2), compute(2, 3, is_cpu_op=True), compute(9, 0, data=[2, 4], control=[4])
    ).nodes
    assert (first.number, first.duration_ns, first.on_cpu) == (2, 3000, True)
    assert (second.number, second.duration_ns, second.on_cpu) == (4, 2000, False)
    assert third.parents == (0, 1)


def test_messages():
    sends, receives = graph(send(0, 3, 16, 7), receive(1, 2, 32, 8)).nodes
    assert (sends.destination, sends.size, sends.tag, sends.source) == (3, 16, 7, -1)
    assert (receives.source, receives.size, receives.tag, receives.destination) == (2, 32, 8, -1)


def test_groups_that_a_trace_defines():
    made = node(0, NodeKind.METADATA)
    made.inputs.values = '[\'[{"pg_name": "5", "ranks": [1, 3]}, {"pg_name": "6", "ranks": []}]\']'
    other = node(1, NodeKind.METADATA)
    other.inputs.values = "something else"
    assert graph(made, other).groups == {"5": (1, 3)}


def test_nanoseconds_of_our_own():
    assert graph(compute(0, 1, antiphon_duration_nanos=1234)).nodes[0].duration_ns == 1234


def test_a_missing_dependency_names_file_node_and_dependency():
    assert wrong(compute(5, 1, name="c", control=[0])) == (
        "t.et: node 5 'c': its control dependency must be a node of this rank, not 0, "
        "which does not exist"
    )
    assert wrong(compute(5, 1, name="c", data=[6])) == (
        "t.et: node 5 'c': its data dependency must be a node of this rank, not 6, "
        "which does not exist"
    )


def test_the_shortest_cycle_is_named():
    long = [compute(i, 1, data=[(i + 1) % 5]) for i in range(5)]
    assert wrong(*long, compute(7, 1, data=[8]), compute(8, 1, control=[7]), compute(9, 1)) == (
        "t.et: dependencies must not form a cycle; the shortest: node 7 'n7' -> node 8 'n8' -> "
        "node 7 'n7', where each waits for the next"
    )
    assert "node 3 'n3' -> node 3 'n3'" in wrong(compute(3, 1, data=[3]))


def test_shortest_cycles():
    assert shortest_cycle([(), (0,), (1, 0)]) == []
    assert shortest_cycle([(1,), (2,), (0, 1)]) == [1, 2]
    around = [((i + 1) % 20_000,) for i in range(20_000)]
    assert len(shortest_cycle(around)) == 20_000


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (node(1, NodeKind.COMM_COLL, comm_size=8),
         "node 1 'n1': must have the attribute 'comm_type'"),
        (node(1, NodeKind.COMM_COLL, comm_type=0),
         "node 1 'n1': must have the attribute 'comm_size'"),
        (node(1, NodeKind.COMM_COLL, comm_type=3, comm_size=8),
         "node 1 'n1': comm_type must be one of ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, "
         "REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, BROADCAST, BARRIER, not GATHER"),
        (node(1, NodeKind.COMM_COLL, comm_type=77, comm_size=8),
         "node 1 'n1': comm_type must be one of ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, "
         "REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, BROADCAST, BARRIER, not 77"),
        (all_reduce(1, "much"),
         "node 1 'n1': comm_size must be a whole number of at least 0, not 'much'"),
        (all_reduce(1, -4),
         "node 1 'n1': comm_size must be a whole number of at least 0, not -4"),
        (all_reduce(1, [True]),
         "node 1 'n1': comm_size must be a whole number of at least 0, not a list"),
        (all_reduce(1, 8, involved_dim=3),
         "node 1 'n1': involved_dim must be a list of truth values, one for each dim"),
        (node(1, NodeKind.COMM_SEND, comm_size=8),
         "node 1 'n1': must have the attribute 'comm_dst'"),
        (node(1, NodeKind.COMM_RECV, comm_src=0),
         "node 1 'n1': must have the attribute 'comm_size'"),
        (all_reduce(1, 8, antiphon_traffic_class="xp"),
         "node 1 'n1': antiphon_traffic_class must be one of mp, pp, dp, not 'xp'"),
        (node(1, 8),  # a later version's storage node
         "node 1 'n1': its type must be one of METADATA, MEM_LOAD, MEM_STORE, COMP, COMM_SEND, "
         "COMM_RECV, COMM_COLL, not 8"),
    ],
)  # fmt: skip
def test_wrong_nodes(made, message):
    assert wrong(made) == f"t.et: {message}"


def test_numbers_are_unique():
    assert wrong(compute(2, 1), compute(1, 1), compute(2, 1)) == (
        "t.et: node numbers must be unique; 2 stands twice"
    )


WHOLE = encode_trace(
    trace(
        [
            all_reduce(0, 4096, pg_name="g", involved_dim=[True, False], comm_priority=2),
            compute(1, 5, data=[0], num_ops=7, tensor_size=9, is_cpu_op=True),
            send(2, 1, 64, 3, control=[1]),
            receive(3, 1, 64, 4, data=[2, 0]),
        ]
    )
)


@given(
    st.lists(
        st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=6
    ),
    st.integers(0, len(WHOLE)),
)
def test_whatever_is_broken_is_bad_input_and_nothing_worse(changes, end):
    data = bytearray(WHOLE[:end] if end % 3 == 0 else WHOLE)
    for position, value in changes:
        if position < len(data):
            data[position] = value
    try:
        read = build_graph(parse_trace(bytes(data), "t.et"))
    except InputError:
        return
    assert all(0 <= parent < len(read.nodes) for node in read.nodes for parent in node.parents)

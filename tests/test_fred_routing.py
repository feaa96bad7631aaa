"""Exact routing against the printed and derived facts of FRED, and against the modes themselves."""

import re
import time
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sw_model.fred import patterns
from sw_model.fred.configuration import Configuration, Flow, parse_flow
from sw_model.fred.modes import CentreMode
from sw_model.fred.reduction import RoutingError, check, evaluate, reduction_trees
from sw_model.fred.report import route_report
from sw_model.fred.routing import Conflict, route, split


def refused(text, error=ValueError):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


def set_partitions(count):
    """All ways to split range(count) into groups."""
    if count == 0:
        yield []
        return
    for groups in set_partitions(count - 1):
        for i in range(len(groups)):
            yield [*groups[:i], (*groups[i], count - 1), *groups[i + 1 :]]
        yield [*groups, (count - 1,)]


def all_reduces(groups):
    return [Flow.all_reduce(group) for group in groups]


@pytest.mark.parametrize(
    ("ports", "partitions", "unroutable"),
    [(4, 15, 0), (5, 52, 0), (6, 203, 8), (7, 877, 32), (8, 4140, 448)],
)
def test_set_partitions_as_concurrent_all_reduces(ports, partitions, unroutable):
    found = list(set_partitions(ports))
    assert len(found) == partitions
    blocked = 0
    for groups in found:
        outcome = route(ports, 2, all_reduces(groups))
        if isinstance(outcome, Conflict):
            blocked += 1
        else:
            check(outcome)
        check(route(ports, 3, all_reduces(groups)))
    assert blocked == unroutable


@pytest.mark.parametrize(("copies", "routable"), [(2, False), (3, False), (4, True)])
def test_four_groups_of_three_on_twelve_ports(copies, routable):
    flows = all_reduces([(0, 2, 4), (1, 6, 8), (3, 7, 10), (5, 9, 11)])
    outcome = route(12, copies, flows)
    assert isinstance(outcome, Configuration) is routable
    assert len(split(12, copies, flows)) == (1 if routable else 2)


@pytest.mark.parametrize("ports", [5, 8, 11, 16, 64])
@given(st.data())
@settings(max_examples=15, deadline=None)
def test_unicasts_are_rearrangeable_at_two_copies(ports, data):
    targets = data.draw(st.permutations(range(ports)))
    check(route(ports, 2, [Flow((i,), (t,)) for i, t in enumerate(targets)]))


@st.composite
def flow_sets(draw):
    """Disjoint flows with unequal inputs and outputs on any switch."""
    ports = draw(st.integers(2, 13))
    count = draw(st.integers(1, ports))
    sides = [
        [draw(st.integers(-1, count - 1)) for _ in range(ports)] for _ in ("inputs", "outputs")
    ]
    flows = []
    for i in range(count):
        inputs, outputs = (tuple(p for p, o in enumerate(side) if o == i) for side in sides)
        if inputs and outputs:
            flows.append(Flow(inputs, outputs))
    return ports, draw(st.integers(2, 4)), flows


@given(flow_sets())
@settings(max_examples=300, deadline=None)
def test_a_route_carries_its_flows_and_a_conflict_is_minimal(case):
    ports, copies, flows = case
    outcome = route(ports, copies, flows)
    if isinstance(outcome, Configuration):
        check(outcome)
        word = outcome.modes_word()
        assert Configuration.from_modes_word(ports, copies, outcome.flows, word) == outcome
    else:
        assert len(outcome.flows) > copies
        for left_out in outcome.flows:
            rest = [flow for flow in outcome.flows if flow is not left_out]
            check(route(ports, copies, rest))
    configurations = split(ports, copies, flows)
    carried = [flow for configuration in configurations for flow in configuration.flows]
    assert sorted(carried, key=str) == sorted(flows, key=str)


@pytest.mark.parametrize("groups", list(set_partitions(3)))
def test_routes_are_found_whenever_any_modes_carry_the_flows(groups):
    """Brute force over all modes of FRED_2(3): the search misses nothing."""
    flows = all_reduces(groups)
    ways = (None, 0, 1)
    edge, pair = list(product(ways, ways)), [(way,) for way in ways]
    possible = False
    for modes in product(edge, pair, CentreMode, CentreMode, edge, pair):
        configuration = Configuration(3, 2, tuple(flows), modes)
        try:
            check(configuration)
        except RoutingError:
            continue
        possible = True
        break
    assert possible is isinstance(route(3, 2, flows), Configuration)


def test_4140_partitions_at_three_copies_are_quick():
    start = time.process_time()
    for groups in set_partitions(8):
        route(8, 3, all_reduces(groups))
    assert time.process_time() - start < 10


@pytest.mark.parametrize("stride", [1, 4, 16])
def test_a_phase_of_a_3d_parallel_job_on_64_ports_is_quick(stride):
    groups = [
        tuple(base + stride * i for i in range(4)) for base in range(64) if base // stride % 4 == 0
    ]
    start = time.process_time()
    configurations = split(64, 3, all_reduces(groups))
    assert time.process_time() - start < 1
    assert len(configurations) == 1
    check(configurations[0])


def test_the_reason_names_flows_and_stages():
    outcome = route(8, 2, all_reduces([(2, 7), (3, 5), (4, 6), (0, 1)]))
    assert [str(flow) for flow in outcome.flows] == ["2,7", "3,5", "4,6"]
    assert outcome.stage == 0
    assert str(outcome) == (
        "flows [2,7], [3,5] and [4,6] do not route together through FRED_2(8): at the edge of "
        "FRED_2(8) flows that share an edge switch need different middle copies, and 2 copies "
        "are too few (stages 0 and 4 of 0..4)"
    )


def test_the_reason_names_what_fails_inside():
    texts = ["4>4,5", "3,6>1", "5>6", "0>7", "1,2>2,3"]
    assert str(route(8, 2, map(parse_flow, texts))) == (
        "flows [4>4,5], [3,6>1], [5>6], [0>7] and [1,2>2,3] do not route together through "
        "FRED_2(8): at the edge of FRED_2(8) 2 middle copies are too few, since inside FRED_2(4) "
        "[4>4,5], [3,6>1] and [0>7] cannot share a middle copy (stages 0 and 4 of 0..4)"
    )


def test_flows_that_share_a_port_are_refused_in_one_configuration():
    with refused("flows of one configuration must not overlap: 0,1>0 and 1>2 share input port 1"):
        route(4, 2, [Flow((0, 1), (0,)), Flow((1,), (2,))])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,x", "a flow must read 0,1,2 or 0,4>1,3, not '0,x'"),
        ("0>1>2", "a flow must read 0,1,2 or 0,4>1,3, not '0>1>2'"),
        ("0,1>", "flow '0,1>': a flow must have at least one output port"),
        (">1", "flow '>1': a flow must have at least one input port"),
        ("1,1", "flow '1,1': the input ports of a flow must differ, not [1, 1]"),
    ],
)
def test_malformed_flows(text, message):
    with refused(message):
        parse_flow(text)


def test_a_port_out_of_range_is_refused():
    with refused("flow 0>4: a port must be in 0..3, not 4"):
        split(4, 2, [Flow((0,), (4,))])


def test_evaluate_follows_the_tree():
    configuration = route(5, 2, [Flow((0, 1, 4), (2, 3)), Flow((2,), (0, 4))])
    assert reduction_trees(configuration) == {
        configuration.flows[0]: ((0, 1), 4),
        configuration.flows[1]: 2,
    }
    values = evaluate(configuration, {0: "a", 1: "b", 2: "c", 4: "e"}, lambda a, b: f"({a}{b})")
    assert values == {2: "((ab)e)", 3: "((ab)e)", 0: "c", 4: "c"}


def test_modes_that_do_not_carry_the_flows_are_found_out():
    flow = Flow((0, 1), (0,))
    for mode, text in [
        (CentreMode.STRAIGHT, "output 0 of flow 0,1>0 must hear inputs [0, 1], not 0"),
        (CentreMode.ADD_BOTH, "outputs [1] must be idle, not driven"),
        (CentreMode.ONLY_0_TO_0, "RD switch 0 at () drops what arrives at its input 1"),
    ]:
        with refused(text, RoutingError):
            check(Configuration(2, 2, (flow,), (mode,)))
    with refused("RD switch 0 at () must have both operands of its reduction", RoutingError):
        evaluate(route(2, 2, [flow]), {0: 1}, max)


@pytest.mark.parametrize("groups", [[(0, 1, 2, 3)], [(0, 2), (1, 3)]])
def test_patterns_become_serial_configurations(groups):
    side = patterns.side_by_side
    assert len(side([patterns.all_reduce(g) for g in groups])) == 1
    for pattern in (patterns.reduce_scatter, patterns.all_gather, patterns.all_to_all):
        steps = side([pattern(g) for g in groups])
        assert len(steps) == len(groups[0]) - (pattern is patterns.all_to_all)
        for step in steps:
            check(route(4, 3, step))
    assert [str(s[0]) for s in patterns.scatter(0, (0, 1, 2))] == ["0>1", "0>2"]
    assert [str(s[0]) for s in patterns.gather(0, (0, 1, 2))] == ["1>0", "2>0"]


def test_the_report_of_antiphon_route():
    report = route_report(8, 2, ["2,7", "3,5", "4,6", "0,1"])
    assert report["routable"] is False
    assert report["configurations"] == len(report["plan"]) == 2
    assert (report["microswitches"], report["stages"]) == (20, 5)
    assert report["reason"].startswith("flows [2,7], [3,5] and [4,6] do not route together")
    assert route_report(5, 2, ["0,1,4"])["plan"][0][0]["order"] == "(0 + 1) + 4"
    with pytest.raises(ValueError, match=r"^at least one flow must be given"):
        route_report(4, 2, [])


@pytest.mark.parametrize("copies", [2, 3])
def test_the_fewest_configurations_are_the_fewest(copies):
    """Against brute force over all ways to group the flows, P = 6."""
    for groups in set_partitions(6):
        flows = all_reduces(groups)
        best = min(
            len(grouping)
            for grouping in set_partitions(len(flows))
            if all(
                isinstance(route(6, copies, [flows[i] for i in part]), Configuration)
                for part in grouping
            )
        )
        assert len(split(6, copies, flows)) == best

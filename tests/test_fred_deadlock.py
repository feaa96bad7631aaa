"""Trees of FRED switches under random timing: with our rules they always come to an end, without
any one of them they get stuck (docs/fred.md)."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

import sim_top.platform.build
import sw_model.fabric.network
from sim_top.platform.build import platform_model
from sw_model.errors import DeadlockError
from sw_model.fabric.backend import TlmBackend
from sw_model.fabric.channels import ChannelGraph, platform_channels, tree_channels
from sw_model.fred.tree.case import CLASSES, Collective, Flow, Tree, flows_of, keeps_trunk_order
from sw_model.fred.tree.rules import PUBLISHED, Rules
from sw_model.fred.tree.run import Outcome, run_tree
from sw_model.platform import Platform
from sw_model.schedule.options import PlanBook, ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology

CASES, BLOCKS = 10_000, 10


def run_case(seed: int, rules: Rules) -> Outcome:
    """A tree of two or three L1 switches and one or two L2 switches, three to six collectives of
    three classes: all-reduces, reduces and multicasts of one to three packets over any ranks; each
    may wait for earlier ones, of other classes too. A quarter of the ranks are late."""
    rng = random.Random(seed)
    tree = Tree(
        switches=rng.choice((2, 2, 3)),
        ranks=rng.choice((2, 2, 3)),
        ups=rng.choice((2, 3, 4)),
        tops=rng.choice((1, 1, 2)),
    )
    everyone = range(tree.switches * tree.ranks)
    program: list[Collective] = []
    flows: list[Flow] = []
    for number in range(rng.choice((3, 4, 5, 6))):
        members = tuple(sorted(rng.sample(everyone, rng.randint(2, len(everyone)))))
        root = (rng.choice(members),)
        sources, sinks = rng.choice(
            ((members, members),) * 4 + ((members, root), (root, members), (root, members))
        )
        after = tuple(c.number for c in program if rng.random() < 0.25)
        collective = Collective(
            number=number,
            traffic_class=rng.randrange(len(CLASSES)),
            sources=sources,
            sinks=sinks,
            packets=rng.choice((1, 1, 2, 3)),
            after=after,
        )
        for up in rng.sample(range(tree.ups), tree.ups):
            placed = replace(collective, up=up)
            mine = flows_of(tree, placed)
            beside = {f.switch: [g for g in flows if g.switch == f.switch] for f in mine}
            if not rules.trunk_order or all(keeps_trunk_order(f, beside[f.switch]) for f in mine):
                program.append(placed)
                flows += mine
                break
    late = [rank for rank in everyone if rng.random() < 0.25]
    return run_tree(tree, program, rng, rules=rules, room=rng.choice((1, 1, 2)), late=late)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_timing_never_deadlocks(block):
    bound = Rules().starvation_bound
    assert bound is not None
    for seed in range(block * CASES // BLOCKS, (block + 1) * CASES // BLOCKS):
        try:
            outcome = run_case(seed, Rules())
        except DeadlockError as error:
            pytest.fail(f"seed {seed}: {error}")
        # Where two classes have waited that long, one of them goes first.
        assert outcome.most_passed <= bound + 1, f"seed {seed}"


# The tests of the test: without a rule the model gets stuck.


@pytest.mark.parametrize(
    ("rules", "cases", "stuck"),
    [
        (PUBLISHED, 100, 95),
        (Rules(by_flow=False), 100, 50),
        (Rules(private_buffers=False), 100, 30),
        (Rules(agreed_order=False), 100, 30),
        (Rules(trunk_order=False), 400, 3),
        (Rules(whole_credit=False), 400, 5),
    ],
)
def test_without_one_rule_there_are_deadlocks(rules, cases, stuck):
    messages = deadlocks(rules, cases)
    assert len(messages) >= stuck
    assert all(text.startswith("no packet can move any more\n") for text in messages)


def deadlocks(rules, cases):
    """What is said of those of the first cases that get stuck."""
    messages = []
    for seed in range(cases):
        try:
            run_case(seed, rules)
        except DeadlockError as error:
            messages.append(str(error))
    return messages


@pytest.mark.full
@pytest.mark.parametrize(
    ("rules", "stuck"),
    [
        (PUBLISHED, 299),
        (Rules(by_flow=False), 205),
        (Rules(private_buffers=False), 141),
        (Rules(agreed_order=False), 150),
        (Rules(trunk_order=False), 10),
        (Rules(whole_credit=False), 15),
    ],
)
def test_the_figures_of_the_docs(rules, stuck):
    """Of the first 300 cases; docs/fred.md has them."""
    assert len(deadlocks(rules, 300)) == stuck


def test_without_the_starvation_bound_a_class_is_passed_as_long_as_there_is_a_higher_one():
    """Ranks 0 and 1 send 40 packets of MP; rank 1 sends one of DP to rank 0 beside them."""
    tree = Tree(switches=1, ranks=2, ups=1, tops=1)
    program = [
        Collective(number=0, traffic_class=0, sources=(0, 1), sinks=(0, 1), packets=40),
        Collective(number=1, traffic_class=2, sources=(1,), sinks=(0,), packets=1),
    ]

    def most_passed(bound: int | None) -> list[int]:
        rules = Rules(starvation_bound=bound)
        return [
            run_tree(tree, program, random.Random(seed), rules=rules, room=4).most_passed
            for seed in range(40)
        ]

    assert max(most_passed(3)) == 3
    assert max(most_passed(None)) >= 6


ONE = Tree(switches=1, ranks=4, ups=1, tops=1)
TWO = Tree(switches=2, ranks=2, ups=1, tops=1)


def all_reduce(number, ranks, traffic_class=0, packets=1, **options):
    ranks = tuple(ranks)
    return Collective(
        number=number,
        traffic_class=traffic_class,
        sources=ranks,
        sinks=ranks,
        packets=packets,
        **options,
    )


def stuck(tree, program, rules, seeds=20, **options) -> list[str]:
    messages = []
    for seed in range(seeds):
        try:
            run_tree(tree, program, random.Random(seed), rules=rules, **options)
        except DeadlockError as error:
            messages.append(str(error))
    return messages


@pytest.mark.parametrize(
    ("tree", "program"),
    [
        # A packet that exists only after the switch has forwarded.
        (TWO, [all_reduce(0, range(4))]),
        # Flows of unequal length.
        (ONE, [all_reduce(0, (0, 1), packets=5), all_reduce(1, (2, 3))]),
        # Tensor groups of one pipeline stage, and the stage after it.
        (
            ONE,
            [
                all_reduce(0, (0, 1)),
                Collective(number=1, traffic_class=1, sources=(0,), sinks=(2,), packets=1,
                           after=(0,)),
                all_reduce(2, (2, 3), after=(1,)),
            ],
        ),
    ],
)  # fmt: skip
def test_the_published_rule_deadlocks(tree, program):
    assert len(stuck(tree, program, PUBLISHED)) >= 15
    assert not stuck(tree, program, Rules())


def test_the_published_rule_serves_what_uses_all_ports_alike():
    program = [all_reduce(0, range(4), 2, packets=3), all_reduce(1, range(4), 0, packets=3)]
    assert not stuck(ONE, program, PUBLISHED)


def test_orders_that_form_a_cycle_block_and_the_watchdog_names_the_ports():
    """Groups {0, 1}, {1, 2}, {2, 0}; of the eight ways to order each rank's two, two are cycles."""
    tree = Tree(switches=1, ranks=3, ups=1, tops=1)
    program = [all_reduce(g, ranks) for g, ranks in enumerate(((0, 1), (1, 2), (0, 2)))]
    assert not stuck(tree, program, Rules(), seeds=100)
    messages = stuck(tree, program, Rules(agreed_order=False), seeds=100)
    assert 10 <= len(messages) <= 45
    assert set(messages) == {
        "no packet can move any more\n"
        "L1 0: packet 0 of collective 0 waits at rank 0 for rank 1\n"
        "L1 0: packet 0 of collective 1 waits at rank 1 for rank 2\n"
        "L1 0: packet 0 of collective 2 waits at rank 2 for rank 0",
        "no packet can move any more\n"
        "L1 0: packet 0 of collective 0 waits at rank 1 for rank 0\n"
        "L1 0: packet 0 of collective 1 waits at rank 2 for rank 1\n"
        "L1 0: packet 0 of collective 2 waits at rank 0 for rank 2",
    }


def test_flows_that_share_no_input_must_not_share_an_up_link():
    """Ranks agree on the order, but the switches below L2 let the groups pass each other."""
    ups = Tree(switches=2, ranks=2, ups=2, tops=1)
    shared = [all_reduce(0, (0, 2)), all_reduce(1, (1, 3))]
    apart = [shared[0], replace(shared[1], up=1)]
    (first, *_), (second, *_) = (flows_of(ups, collective) for collective in shared)
    assert not keeps_trunk_order(second, [first])
    assert keeps_trunk_order(flows_of(ups, apart[1])[0], [first])
    assert keeps_trunk_order(flows_of(ups, replace(shared[1], traffic_class=1))[0], [first])
    assert keeps_trunk_order(flows_of(ups, all_reduce(1, (0, 1, 3)))[0], [first])
    messages = stuck(ups, shared, Rules(), seeds=60)
    assert len(messages) >= 5
    assert "L2 0: packet 0 of collective 0 waits at L1 " in messages[0]
    assert not stuck(ups, apart, Rules(), seeds=60)


def test_who_never_starts_is_named():
    program = [all_reduce(0, (0, 1)), all_reduce(1, (0, 1), after=(0,))]
    rules = Rules()
    assert not stuck(ONE, program, rules, late=(1,))
    # Rank 0 waits for a collective that comes later.
    wrong = [all_reduce(0, (0, 1), after=(1,)), all_reduce(1, (0, 1))]
    messages = stuck(ONE, wrong, rules, seeds=1)
    assert messages == [
        "no packet can move any more\n"
        "rank 0: collective 0 waits for [1]\n"
        "rank 1: collective 0 waits for [1]"
    ]


# The channels of a network


def test_the_channels_of_platforms_have_no_cycle(monkeypatch):
    topology = Topology(
        (
            Dim(DimKind.FRED, 4, Fraction(10**9), 0),
            Dim(DimKind.RING, 3, Fraction(10**9), 0),
            Dim(DimKind.RING, 1, Fraction(10**9), 0),
        )
    )
    graph = platform_channels(topology)
    assert len(graph) == 2 * 4 + 3  # one group of each: a switch of four ports, three links
    assert graph.cycle() == []

    platform = Platform.from_topology(topology)
    checked = []
    for user in (sw_model.fabric.network, sim_top.platform.build):
        monkeypatch.setattr(user, "check_platform", checked.append)
    TlmBackend(PlanBook(platform, ScheduleOptions()))
    assert checked == [topology]
    small = Topology((Dim(DimKind.FRED, 2, Fraction(10**9), 0),))
    platform_model(Platform.from_topology(small))
    assert checked[1:] == [small]


@pytest.mark.parametrize("seed", range(20))
def test_up_and_down_a_tree_has_no_cycle(seed):
    rng = random.Random(seed)
    tree = Tree(switches=3, ranks=3, ups=2, tops=2)
    program = [
        all_reduce(number, rng.sample(range(9), rng.randint(2, 9)), up=rng.randrange(2))
        for number in range(6)
    ]
    tree_channels(tree, program).check()


def test_a_cycle_of_channels_is_named():
    """Three switches in a ring, each of which passes packets on to the second next."""
    graph = ChannelGraph()
    for number in range(3):
        here, after = f"link {number}", f"link {(number + 1) % 3}"
        graph.add((f"rank {number}",), (here,), f"switch {number}")
        graph.add((here,), (after, f"to rank {number}"), f"switch {(number + 1) % 3}")
    message = (
        "the channels of the network must not wait for each other in a cycle: "
        "link 0 for the next in switch 1, link 1 for the next in switch 2, "
        "link 2 for the next in switch 0"
    )
    with pytest.raises(DeadlockError, match=f"^{message}$"):
        graph.check()


def test_a_channel_that_waits_for_itself_is_a_cycle():
    graph = ChannelGraph()
    graph.add(("a",), ("b",), "first")
    graph.add(("b",), ("b",), "second")
    assert graph.cycle() == [("b", "second")]

"""What has its lanes to itself is not simulated op by op, and nobody can tell; what passes through
NPUs between its ends takes their links; and every instant of a rank is counted once."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import pytest

from sw_model.astra.system import AlgorithmName, CollectivePolicy, OpOrder, SystemConfig
from sw_model.chakra.messages import NodeKind
from sw_model.chakra.workload import load_workload
from sw_model.replay.overlapped import OverlappedFabric
from sw_model.replay.run import Semantics, TraceResult, replay_trace, schedule_of
from sw_model.replay.shapes import crossed_by_group, crossed_by_message
from sw_model.topology import Dim, DimKind, Topology
from tests.chakra_traces import all_reduce, compute, receive, send, write


def network(*sizes: int, kind: DimKind = DimKind.RING, latency: int = 10**6) -> Topology:
    """1 GB/s and, by default, 1 us a hop."""
    return Topology(tuple(Dim(kind, size, Fraction(10**9), latency) for size in sizes))


def run(prefix, topology, system, groups=None) -> TraceResult:
    workload = load_workload(prefix, topology, groups)
    return replay_trace(workload, system, schedule=schedule_of(system))


GROUPS = {
    "0": (0, 1, 2, 3), "1": (4, 5, 6, 7), "a": (0, 4), "b": (1, 5), "c": (2, 6), "d": (3, 7),
    "odd": (1, 2, 5), "all": tuple(range(8)),
}  # fmt: skip


def random_traces(seed: int, *, in_line: bool = False) -> list[list]:
    """Ranks of 4 x 2 that compute, send and reduce; a group's collectives in one order, with
    ``in_line`` all of a rank's."""
    draw = random.Random(seed)
    ranks: list[list] = [[] for _ in range(8)]
    last: dict[tuple[int, str], int] = {}

    def add(rank, make, group=None, **what):
        number = len(ranks[rank])
        back = draw.choice([1, 1, 2, 3])
        parents = {number - back} if number >= back else set()
        if group is not None:
            line = (rank, "" if in_line else group)
            parents |= {last[line]} if line in last else set()
            last[line] = number
            what["pg_name"] = group
        ranks[rank].append(make(number, data=sorted(parents), **what))

    for step in range(30):
        what = draw.random()
        if what < 0.4:
            for rank in range(8):
                add(rank, compute, micros=draw.choice([0, 3, 20, 20, 90]))
        elif what < 0.55:
            one, other = draw.sample(range(8), 2)
            size = draw.choice([100, 5000, 20000])
            add(one, send, to=other, size=size, tag=step)
            add(other, receive, source=one, size=size, tag=step)
        else:
            size = draw.choice([2, 4096, 30000, 65536])
            for name in draw.choice([("0", "1"), ("a", "b", "c", "d"), ("odd",), ("all",)]):
                for rank in GROUPS[name]:
                    add(rank, all_reduce, name, size=size)
    return ranks


@pytest.mark.parametrize("order", list(OpOrder))
@pytest.mark.parametrize("policy", [CollectivePolicy.FIFO, CollectivePolicy.LIFO])
def test_nobody_can_tell(tmp_path, monkeypatch, policy, order):
    """The same times, busy times and bytes, with and without the short cut."""
    topology = Topology(
        (
            Dim(DimKind.RING, 4, Fraction(10**9), 10**6),
            Dim(DimKind.SWITCH, 2, Fraction(7 * 10**8), 3 * 10**5),
        )
    )
    system = SystemConfig(policy=policy, splits=6, op_order=order)
    joined = 0
    for seed in range(10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        prefix = write(folder, *random_traces(seed))
        join = OverlappedFabric._join

        def counted(self, one, join=join):
            nonlocal joined
            joined += 1
            join(self, one)

        with monkeypatch.context() as patch:
            patch.setattr(OverlappedFabric, "_join", counted)
            short = run(prefix, topology, system, GROUPS)
        with monkeypatch.context() as patch:
            patch.setattr(OverlappedFabric, "shortcut", False)
            whole = run(prefix, topology, system, GROUPS)
        assert short.ranks == whole.ranks
        assert short.dims == whole.dims
        for one, other in zip(short.logs, whole.logs, strict=True):
            assert sorted(one.communication) == sorted(other.communication)
            assert one.compute == other.compute
    assert joined > 10


def piled_traces(seed: int) -> list[list]:
    """Ranks of 4 x 2 whose collectives wait for compute only, not for each other, so that many are
    there at once."""
    draw = random.Random(seed)
    ranks: list[list] = [[] for _ in range(8)]
    latest = [0] * 8

    def add(rank, make, **what):
        ranks[rank].append(make(len(ranks[rank]), **what))

    for step in range(60):
        what = draw.random()
        if what < 0.3 or step == 0:
            micros = draw.choice([1, 3, 20, 90, 500])
            for rank in range(8):
                parents = [latest[rank]] if ranks[rank] else []
                latest[rank] = len(ranks[rank])
                add(rank, compute, micros=micros + (rank == 5), data=parents)
        elif what < 0.33:
            one, other = draw.sample(range(8), 2)
            add(one, send, to=other, size=20000, tag=step, data=[latest[one]])
            add(other, receive, source=one, size=20000, tag=step)
        else:
            groups = draw.choice([("0", "1"), ("0", "1"), ("0", "1"), ("all",)])
            size = draw.choice([2, 4096, 30000, 65536])
            for name in groups:
                for rank in GROUPS[name]:
                    more = {"size": size, "pg_name": name, "data": [latest[rank]]}
                    add(rank, all_reduce, **more)
    return ranks


@pytest.mark.parametrize("latency", [0, 10**6, 4 * 10**6])
def test_nobody_can_tell_of_a_pile(tmp_path, monkeypatch, latency):
    """Collectives that pile up on the same lanes, with stragglers and messages between them."""
    topology = Topology(
        (
            Dim(DimKind.RING, 4, Fraction(10**9), latency),
            Dim(DimKind.SWITCH, 2, Fraction(7 * 10**8), 3 * 10**5),
        )
    )
    system = SystemConfig(splits=6)
    piled, dissolved = [], []
    pile, join = OverlappedFabric._pile, OverlappedFabric._join

    def counted(self, going):
        one = pile(self, going)
        piled.extend([one] * (one is not None))
        return one

    def joined(self, one):
        dissolved.extend(one.behind)
        join(self, one)

    for seed in range(5):
        folder = tmp_path / str(seed)
        folder.mkdir()
        prefix = write(folder, *piled_traces(seed))
        with monkeypatch.context() as patch:
            patch.setattr(OverlappedFabric, "_pile", counted)
            patch.setattr(OverlappedFabric, "_join", joined)
            short = run(prefix, topology, system, GROUPS)
        with monkeypatch.context() as patch:
            patch.setattr(OverlappedFabric, "shortcut", False)
            whole = run(prefix, topology, system, GROUPS)
        assert short.ranks == whole.ranks
        assert short.dims == whole.dims
        for one, other in zip(short.logs, whole.logs, strict=True):
            assert sorted(one.communication) == sorted(other.communication)
            assert one.compute == other.compute
    assert piled
    assert dissolved


def test_a_pile_in_closed_form(tmp_path) -> None:
    """A thousand all-reduces at once over a ring of 4, 1 GB/s: each holds the ring for 3 halves of
    its bytes, all of them one after the other, and only the last waits for its latency: three
    steps of 1 us after its last byte."""
    nodes = [all_reduce(number, 65536) for number in range(1000)]
    result = run(write(tmp_path, *[nodes] * 4), network(4), SystemConfig(splits=8))
    assert result.ns(result.latest.finish) == 1000 * 98304 + 3000


def test_who_lies_between() -> None:
    ring = network(8)
    assert crossed_by_group(ring, (0, 2, 4, 6)) == {0: (1, 3, 5, 7)}
    assert crossed_by_group(ring, (4, 5, 6, 7)) == {}  # the way back leads over members
    assert crossed_by_group(ring, tuple(range(8))) == {}
    assert crossed_by_group(ring, (0, 3)) == {0: (1, 2)}
    assert crossed_by_group(ring, (6, 1)) == {0: (0, 7)}
    square = network(4, 4)
    assert crossed_by_group(square, (0, 2, 8, 10)) == {0: (1, 3, 9, 11), 1: (4, 6, 12, 14)}
    assert crossed_by_group(network(4, 4, kind=DimKind.SWITCH), (0, 2)) == {}
    assert crossed_by_message(ring, 6, 1) == ((0, 7), (0, 0))
    assert crossed_by_message(square, 0, 10) == ((0, 1), (1, 6))


@pytest.mark.parametrize("stride", [1, 2])
def test_interleaved_groups_share_the_rings_links(tmp_path, stride):
    """Two rings of four on a ring of eight: side by side each has links of its own; interleaved
    every link carries both, and both together take twice as long as one."""
    size = 40_000
    a, b = ((0, 1, 2, 3), (4, 5, 6, 7)) if stride == 1 else ((0, 2, 4, 6), (1, 3, 5, 7))
    ranks = [[all_reduce(0, size, pg_name="a" if rank in a else "b")] for rank in range(8)]
    system = SystemConfig(splits=1).with_algorithm(AlgorithmName.RING, 1)
    result = run(write(tmp_path, *ranks), network(8, latency=0), system, {"a": a, "b": b})
    alone = 2 * 3 * size // 4  # ns, at a byte a ns
    assert result.ns(result.latest.finish) == stride * alone


def test_a_message_takes_the_links_that_it_crosses(tmp_path):
    """0 -> 2 passes 1, which sends to 2 itself; 4 -> 5 is nobody's business."""
    size = 10_000
    ranks = [
        [send(0, 2, size, tag=1)],
        [send(0, 2, size, tag=2)],
        [receive(0, 0, size, tag=1), receive(1, 1, size, tag=2)],
        [compute(0, 0)],
        [send(0, 5, size)],
        [receive(0, 4, size)],
        [compute(0, 0)],
        [compute(0, 0)],
    ]
    result = run(write(tmp_path, *ranks), network(8, latency=0), SystemConfig())
    finish = {rank.rank: result.ns(rank.finish) for rank in result.ranks}
    assert finish[2] == 2 * size
    assert {finish[0], finish[1]} == {size, 2 * size}
    assert finish[5] == size


@pytest.mark.parametrize("semantics", [Semantics.ANTIPHON, Semantics.ASTRA_SIM])
def test_every_instant_is_counted_once(tmp_path, semantics):
    """Against a count of all instants between two events: compute, else communication that has
    begun, else the host, else a bubble; and each exposed instant to the layer of the communication
    that has been under way longest."""
    topology = network(4, 2, latency=3 * 10**5)
    seen = dict.fromkeys(("compute", "exposed", "host", "bubble"), 0)
    for seed in range(8):
        ranks = random_traces(seed, in_line=True)
        for nodes in ranks:  # some of it on the CPU
            for made in nodes[::7]:
                if made.type == NodeKind.COMP:
                    made.attr.add(name="is_cpu_op").bool_val = True
        folder = tmp_path / str(seed)
        folder.mkdir()
        workload = load_workload(write(folder, *ranks), topology, GROUPS)
        result = replay_trace(workload, SystemConfig(splits=2), semantics=semantics)
        for rank, log in zip(result.ranks, result.logs, strict=True):
            edges = {0, rank.finish}
            edges |= {edge for _, *span in log.compute + log.host for edge in span}
            edges |= {edge for _, _, *span in log.communication for edge in span}
            counted = dict.fromkeys(seen, 0)
            by_layer: dict[str, int] = {}
            points = sorted(edges)
            for start, end in pairwise(points):
                moving = [e for e in log.communication if e[2] <= start and end <= e[3]]
                if any(a <= start and end <= b for _, a, b in log.compute):
                    what = "compute"
                elif moving:
                    what = "exposed"
                    longest = min(moving, key=lambda e: (e[2], e[3]))[0]
                    name = workload.node(rank.rank, longest).name
                    by_layer[name] = by_layer.get(name, 0) + end - start
                elif any(a <= start and end <= b for _, a, b in log.host):
                    what = "host"
                else:
                    what = "bubble"
                counted[what] += end - start
            assert counted == {what: getattr(rank, what) for what in counted}
            if rank.rank == result.latest.rank:
                exposed = {node.name: node.exposed for node in result.nodes if node.exposed}
                assert sum(exposed.values()) == counted["exposed"]
                if len({e[2] for e in log.communication}) == len(log.communication):
                    assert exposed == by_layer
            for what, time in counted.items():
                seen[what] += time
    assert all(seen.values())

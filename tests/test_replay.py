"""Replays: the peer's whole traces, both semantics, folding, the watchdog, where time goes."""

from __future__ import annotations

import csv
from dataclasses import replace
from fractions import Fraction

import pytest

from sw_model.astra.groups import read_groups
from sw_model.astra.system import AlgorithmName, CollectivePolicy, SystemConfig, read_system
from sw_model.chakra.messages import NodeKind
from sw_model.chakra.workload import load_workload
from sw_model.collective.cost import algorithms_of
from sw_model.collective.plan import Collective, Operation
from sw_model.errors import DeadlockError, InputError
from sw_model.network import read_network
from sw_model.replay.run import Semantics, TraceResult, replay_trace, schedule_of
from sw_model.schedule.outcome import evaluate
from sw_model.schedule.single import Instance
from sw_model.topology import Dim, DimKind, Topology
from tests.chakra_traces import (
    REFERENCE,
    TRACES,
    all_reduce,
    compute,
    needs_shared,
    node,
    receive,
    send,
    write,
)

OWN = TRACES / "own"
EXAMPLE = TRACES / "08_chakra_et_all_reduce_8npus_1MB"
BOTH = (Semantics.ANTIPHON, Semantics.ASTRA_SIM)


def network(*sizes: int, kind: DimKind = DimKind.RING) -> Topology:
    """Rings of 1 GB/s in either direction of travel and 1 us a hop."""
    return Topology(tuple(Dim(kind, size, Fraction(10**9), 10**6) for size in sizes))


def run(prefix, topology, system=None, *, groups=None, fold_ranks=True, **more) -> TraceResult:
    workload = load_workload(prefix, topology, groups)
    result = replay_trace(
        workload,
        system or SystemConfig(),
        schedule=schedule_of(system),
        fold_ranks=fold_ranks,
        **more,
    )
    for rank in result.ranks:
        assert rank.finish == rank.compute + rank.exposed + rank.host + rank.bubble
    assert sum(node.exposed for node in result.nodes) == result.latest.exposed
    return result


def own(name: str, topology, system, **more) -> TraceResult:
    groups = OWN / name / "comm_group.json"
    found = read_groups(groups, topology.npus) if groups.exists() else None
    return run(OWN / name / "w", topology, system, groups=found, **more)


def total(result: TraceResult) -> float:
    return result.ns(result.latest.finish)


def workload_rows() -> list[dict[str, str]]:
    if not REFERENCE.is_dir():
        return []
    with (REFERENCE / "astra_sim_workloads.csv").open() as file:
        return list(csv.DictReader(file))


def of_row(row: dict[str, str]) -> tuple[Topology, SystemConfig]:
    system = SystemConfig(
        policy=CollectivePolicy(row["policy"]),
        endpoint_delay=int(row["endpoint_delay_ns"]),
        splits=int(row["splits"]),
        local_memory_bandwidth=Fraction(row["local_mem_bw_gbps"]),
    )
    topology = read_network(REFERENCE / f"networks/{row['network']}.yml")
    return topology, system.with_algorithm(AlgorithmName(row["impl"]), 1)


@needs_shared
def test_whole_traces_of_the_peer_to_the_nanosecond():
    for row in workload_rows():
        result = own(row["workload"], *of_row(row), semantics=Semantics.ASTRA_SIM)
        assert total(result) == int(row["time_ns"]), row
        if "gpipe" not in row["workload"]:  # there bubbles count as exposed too
            assert result.ns(result.latest.exposed) == int(row["exposed_comm_ns"]), row
        assert result.ns(result.latest.exposed + result.latest.bubble) == int(
            row["exposed_comm_ns"]
        )


@needs_shared
@pytest.mark.parametrize("semantics", BOTH)
def test_folding_changes_nothing(semantics):
    seen = set()
    for row in workload_rows():
        if (row["workload"], row["network"]) in seen:
            continue
        seen.add((row["workload"], row["network"]))
        topology, system = of_row(row)
        folded = own(row["workload"], topology, system, semantics=semantics)
        every = own(row["workload"], topology, system, semantics=semantics, fold_ranks=False)
        assert len(every.ranks) == topology.npus
        assert len(folded.ranks) == (4 if "gpipe" in row["workload"] else 1)
        assert total(folded) == total(every)
        assert folded.dims == every.dims


@needs_shared
@pytest.mark.parametrize("semantics", BOTH)
@pytest.mark.parametrize("active", [1, 2, 4])
def test_the_straggler_finishes(semantics, active):
    folder = OWN / "straggler_2x2x2"
    topology = read_network(folder / "network.yml")
    for splits in range(1, 9):
        system = replace(read_system(folder / "system.json"), active_chunks=active, splits=splits)
        result = own("straggler_2x2x2", topology, system, semantics=semantics)
        assert len(result.ranks) == 2
        late, early = result.ranks
        alone = late.finish - late.compute
        assert result.ns(late.compute) == 2000
        # The delay and an all-reduce; the others wait for the late rank for 1 us.
        assert early.finish == late.finish
        assert result.ns(early.bubble) == 1000
        assert early.exposed == alone == late.exposed


@needs_shared
@pytest.mark.parametrize("semantics", BOTH)
def test_nested_groups(semantics):
    folder = OWN / "nested_groups"
    topology, system = read_network(folder / "network.yml"), read_system(folder / "system.json")
    outer, inner = own("nested_groups", topology, system, semantics=semantics).ranks
    assert (outer.rank, inner.rank) == (0, 4)
    assert outer.finish == inner.finish
    assert outer.bubble == inner.exposed - outer.exposed > 0


@needs_shared
@pytest.mark.parametrize("semantics", BOTH)
def test_one_byte(semantics):
    topology = read_network(EXAMPLE / "Ring_8npus.yml")
    result = own("all_reduce_1_byte", topology, SystemConfig(splits=4), semantics=semantics)
    assert 7000 < result.ns(result.latest.exposed) < 7200  # 14 hops
    assert result.ns(result.latest.compute) == 10_000


@pytest.mark.parametrize("semantics", BOTH)
def test_an_empty_collective(tmp_path, semantics):
    prefix = write(tmp_path, *[[all_reduce(0, 0), compute(1, 3, data=[0])]] * 4)
    result = run(prefix, network(4), SystemConfig(endpoint_delay=0), semantics=semantics)
    # Nothing to send takes no time; the peer sends one byte.
    assert total(result) == (3000 if semantics is Semantics.ANTIPHON else 9006)


@needs_shared
@pytest.mark.parametrize("semantics", [Semantics.ASTRA_SIM, Semantics.ASTRA_SIM_AWARE])
def test_a_custom_algorithm(semantics):
    folder = TRACES / "09_collective_algo_custom_ring_allreduce_8npus"
    topology = read_network(EXAMPLE / "Ring_8npus.yml")
    by_operation = SystemConfig(
        local_memory_bandwidth=Fraction(50),
        custom={Operation.ALL_REDUCE: folder / "custom_allreduce"},
    )
    by_node = replace(by_operation, custom={}, custom_of_node=dict.fromkeys(
        range(8), folder / "custom_allreduce"
    ))  # fmt: skip
    for system in (by_operation, by_node):
        result = run(EXAMPLE / "all_reduce", topology, system, semantics=semantics)
        assert total(result) == 90_174


def test_a_custom_algorithm_is_found_beside_the_system_file(tmp_path):
    write(tmp_path, [send(0, 1, 1000)], [receive(0, 0, 1000)], name="algorithm")
    (tmp_path / "s.json").write_text('{"all-reduce-implementation-custom": ["algorithm"]}')
    prefix = write(tmp_path, *[[all_reduce(0, 64)]] * 2)
    system = read_system(tmp_path / "s.json")
    for semantics in BOTH:
        assert total(run(prefix, network(2), system, semantics=semantics)) == 2000
    write(tmp_path, *[[all_reduce(0, 64)]] * 2, name="algorithm")
    with pytest.raises(InputError, match="must be made of messages, not of collectives"):
        run(prefix, network(2), system)


@needs_shared
def test_the_aware_figure_of_the_h100():
    topology = read_network(EXAMPLE / "HGX-H100-validated.yml")
    system = read_system(EXAMPLE / "HGX-H100-validated.json")
    for semantics, time in ((Semantics.ASTRA_SIM, 55_222), (Semantics.ASTRA_SIM_AWARE, 57_426)):
        assert total(run(EXAMPLE / "all_reduce", topology, system, semantics=semantics)) == time


@pytest.mark.parametrize("operation", ["all-reduce", "reduce-scatter", "all-gather", "all-to-all"])
@pytest.mark.parametrize("scheduler", ["baseline", "themis"])
def test_one_collective_takes_what_it_takes_alone(tmp_path, operation, scheduler):
    topology = network(4, 2, 2)
    kinds = {"all-reduce": 0, "all-gather": 2, "all-to-all": 6, "reduce-scatter": 7}
    made = node(0, NodeKind.COMM_COLL, comm_type=kinds[operation], comm_size=1 << 20)
    workload = load_workload(write(tmp_path, *[[made]] * 16), topology)
    schedule = schedule_of(None, scheduler=scheduler, intra="scf", chunks=16)
    result = replay_trace(workload, SystemConfig(), schedule=schedule)
    asked = Collective(Operation(operation), 1 << 19, dims=(0, 1, 2))
    alone = evaluate(
        Instance(asked, topology, algorithms_of(topology.dims, asked.operation, None)),
        scheduler=scheduler,
        intra="scf",
        chunks=16,
    )
    assert Fraction(result.latest.finish, result.ticks_per_ns * 10**9) == alone.time
    assert [dim.bytes_per_npu for dim in result.dims] == [t.sent for t in alone.traffic]
    assert len(result.ranks) == 1


def test_a_message_alone(tmp_path):
    prefix = write(tmp_path, [compute(0, 2), send(1, 2, 5000, data=[0])], [compute(0, 1)],
                   [receive(0, 0, 5000)], [compute(0, 1)])  # fmt: skip
    result = run(prefix, network(4))
    sender, _, receiver = result.ranks[:3]
    assert result.ns(sender.finish) == 2000 + 5000  # its bytes have left
    assert result.ns(receiver.finish) == 2000 + 5000 + 2000  # two hops later
    assert (result.ns(receiver.bubble), result.ns(receiver.exposed)) == (2000, 7000)
    assert result.dims[0].bytes_per_npu == 5000


def test_messages_share_lanes(tmp_path):
    ranks = [
        [send(0, 2, 1000, 0)],
        [send(0, 2, 1000, 1)],
        [receive(0, 0, 1000, 0), receive(1, 1, 1000, 1)],
    ]
    result = run(write(tmp_path, *ranks), network(3, kind=DimKind.SWITCH))
    assert total(result) == 3000  # one after the other into rank 2


def test_collectives_under_way_together(tmp_path):
    """The second begins while the first pays its latency, and the policy says which goes first."""
    nodes = [all_reduce(0, 8000), all_reduce(1, 8000, name="second")]
    prefix = write(tmp_path, *[nodes] * 4)
    one = SystemConfig(splits=1)
    ends = {}
    for policy in (CollectivePolicy.FIFO, CollectivePolicy.LIFO):
        result = run(prefix, network(4), replace(one, policy=policy))
        assert total(result) == 2 * (6_000 + 6_000) + 3_000  # the last latency alone is waited for
        ends[policy] = {n.name: result.ns(n.communication) for n in result.nodes}
    assert ends[CollectivePolicy.FIFO] == {"n0": 21_000, "second": 27_000}
    assert ends[CollectivePolicy.LIFO] == {"n0": 27_000, "second": 21_000}


def test_priorities(tmp_path):
    nodes = [all_reduce(0, 8000), all_reduce(1, 8000, comm_priority=5)]
    prefix = write(tmp_path, *[nodes] * 4)
    system = SystemConfig(splits=1, policy=CollectivePolicy.EXPLICIT)
    result = run(prefix, network(4), system)
    assert {n.name: result.ns(n.communication) for n in result.nodes} == {
        "n0": 27_000,
        "n1": 21_000,
    }


def test_one_compute_node_at_a_time(tmp_path):
    nodes = [compute(0, 3), compute(1, 4), compute(2, 5, is_cpu_op=True)]
    assert total(run(write(tmp_path, nodes), network(1))) == 7000


def test_the_roofline(tmp_path):
    nodes = [
        compute(0, 9, num_ops=10**9, tensor_size=8),
        compute(1, 9, num_ops=8, tensor_size=10**6),
        compute(2, 1),
    ]
    prefix = write(tmp_path, nodes)
    system = SystemConfig(
        roofline=True, peak_performance=Fraction(100), local_memory_bandwidth=Fraction(500)
    )
    assert total(run(prefix, network(1), system)) == 10_000 + 2_000 + 1_000
    assert total(run(prefix, network(1), replace(system, replay_only=True))) == 19_000


def test_memory_nodes(tmp_path):
    nodes = [node(0, NodeKind.MEM_LOAD, tensor_size=5000), node(1, NodeKind.MEM_STORE, micros=2)]
    system = SystemConfig(local_memory_bandwidth=Fraction(5))
    prefix = write(tmp_path, nodes)
    assert total(run(prefix, network(1), system)) == 3000
    assert total(run(prefix, network(1))) == 2000


def test_replay_only_takes_durations_of_communication(tmp_path):
    nodes = [all_reduce(0, 1 << 30, micros=7)]
    prefix = write(tmp_path, *[nodes] * 2)
    assert total(run(prefix, network(2), SystemConfig(replay_only=True))) == 7000


def test_metadata_nodes_take_no_time(tmp_path):
    nodes = [node(0, NodeKind.METADATA), node(1, 0, data=[0]), compute(2, 1, data=[1])]
    assert total(run(write(tmp_path, nodes), network(1))) == 1000


def stuck(prefix, topology, **more) -> str:
    with pytest.raises(DeadlockError) as error:
        run(prefix, topology, **more)
    return str(error.value)


@pytest.mark.parametrize("semantics", BOTH)
def test_the_watchdog_names_a_receive_without_a_send(tmp_path, semantics):
    prefix = write(tmp_path, [compute(0, 1)], [receive(3, 0, 64, 9, name="r")])
    assert stuck(prefix, network(2), semantics=semantics) == (
        "nothing can happen any more:\n"
        "rank 1, node 3 'r': waits for 64 bytes with tag 9 from rank 0, which never sends them"
    )


def test_the_watchdog_names_both_ends(tmp_path):
    prefix = write(
        tmp_path,
        [receive(0, 1, 8), send(1, 1, 8, data=[0])],
        [receive(0, 0, 8), send(1, 0, 8, data=[0])],
    )
    assert stuck(prefix, network(2)) == (
        "nothing can happen any more:\n"
        "rank 0 (likewise rank 1), node 0 'n0': waits for 8 bytes with tag 0 from rank 1, which "
        "has not begun to (node 1 'n1')"
    )


def test_the_watchdog_names_missing_members(tmp_path):
    prefix = write(tmp_path, [all_reduce(0, 8)], [compute(0, 1)], [all_reduce(0, 8)])
    assert stuck(prefix, network(3)) == (
        "nothing can happen any more:\n"
        "rank 0 (likewise rank 2), node 0 'n0': waits for the all-reduce of 8 bytes over all "
        "ranks, which these ranks have not entered: 1"
    )


@pytest.mark.parametrize(
    ("npus", "waiting", "missing"),
    [
        (6, "rank 0 (likewise ranks 2 and 4)", "1, 3 and 5"),
        (33, f"rank 0 (likewise ranks {', '.join(str(r) for r in range(2, 31, 2))} and 32)",
         f"{', '.join(str(r) for r in range(1, 30, 2))} and 31"),
        (38, f"rank 0 (likewise ranks {', '.join(str(r) for r in range(2, 33, 2))} and 2 more)",
         f"{', '.join(str(r) for r in range(1, 32, 2))} and 3 more"),
    ],
)  # fmt: skip
def test_the_watchdog_names_the_ranks_that_are_alike(tmp_path, npus, waiting, missing):
    """All of up to 16; of more the first 16, and how many more there are."""
    ranks = [[compute(0, 1)] if rank % 2 else [all_reduce(0, 8)] for rank in range(npus)]
    assert stuck(write(tmp_path, *ranks), network(npus)) == (
        "nothing can happen any more:\n"
        f"{waiting}, node 0 'n0': waits for the all-reduce of 8 bytes over all ranks, which these "
        f"ranks have not entered: {missing}"
    )


def test_the_watchdog_where_one_is_under_way_at_a_time(tmp_path):
    """Two groups entered in different orders: a deadlock of the trace under the peer's rule, none
    under ours."""
    groups = {"a": (0, 1), "b": (0, 1, 2)}
    ab = [all_reduce(0, 8, pg_name="a"), all_reduce(1, 8, pg_name="b")]
    ba = [all_reduce(0, 8, pg_name="b"), all_reduce(1, 8, pg_name="a")]
    prefix = write(tmp_path, ab, ba, [all_reduce(0, 8, pg_name="b")])
    assert total(run(prefix, network(3), groups=groups)) > 0
    message = stuck(prefix, network(3), groups=groups, semantics=Semantics.ASTRA_SIM)
    assert (
        "rank 0, node 0 'n0': waits for the all-reduce of 8 bytes over group 'a', which these "
        "ranks have not entered: 1" in message
    )
    assert (
        "rank 0, node 1 'n1': waits for the rank's communication under way, one at a time in "
        "this semantics" in message
    )


def test_members_must_enter_the_same_collective(tmp_path):
    prefix = write(tmp_path, [all_reduce(0, 8)], [all_reduce(0, 16)])
    with pytest.raises(InputError) as error:
        run(prefix, network(2))
    assert str(error.value) == (
        f"{prefix}.1.et: node 0 'n0': rank 1 must enter the all-reduce of 8 bytes that rank 0 "
        "enters (node 0 'n0'), not the all-reduce of 16"
    )


def test_groups_that_are_no_grid(tmp_path):
    nodes = [all_reduce(0, 900, pg_name="odd")]
    prefix = write(tmp_path, nodes, nodes, nodes, [compute(0, 1)])
    topology = network(2, 2)
    for semantics in BOTH:
        result = run(prefix, topology, groups={"odd": (0, 1, 2)}, semantics=semantics)
        assert total(result) > 4000


def test_cost_follows_the_different_ranks(tmp_path):
    """1,024 ranks of tensor and data parallelism, one late: few are simulated."""

    def step(micros: int, rank: int) -> list:
        return [
            compute(0, micros),
            all_reduce(1, 4096, data=[0], involved_dim=[True, False]),
            all_reduce(2, 4096, data=[1], involved_dim=[False, True]),
        ]

    ranks = [step(5 if rank == 77 else 1, rank) for rank in range(1024)]
    prefix = write(tmp_path, *ranks)
    result = run(prefix, network(32, 32))
    # The late rank, its row, its column, all others.
    assert sorted(result.sizes) == [1, 31, 31, 961]


def test_system_and_network_must_fit(tmp_path):
    prefix = write(tmp_path, *[[all_reduce(0, 8)]] * 4)
    system = SystemConfig().with_algorithm(AlgorithmName.RING, 1)
    for semantics in BOTH:
        with pytest.raises(InputError, match="must have 2 entries, one for each dim"):
            run(prefix, network(2, 2), system, semantics=semantics)


def test_another_algorithm_and_it_says_so(tmp_path):
    prefix = write(tmp_path, *[[all_reduce(0, 600)]] * 6)
    system = SystemConfig().with_algorithm(AlgorithmName.HALVING_DOUBLING, 1)
    peer = run(prefix, network(6, kind=DimKind.SWITCH), system, semantics=Semantics.ASTRA_SIM)
    assert peer.notes == (
        "halvingDoubling cannot do all-reduce over 6 NPUs on dim 1: ring is used instead",
    )
    ours = run(prefix, network(6, kind=DimKind.SWITCH), system)
    assert ours.notes == (
        "dim 1: halving-doubling must have a power of two of NPUs, not 6 on a Switch dim; direct "
        "is used instead",
    )


def test_serial_latency(tmp_path):
    prefix = write(tmp_path, *[[all_reduce(0, 8000)]] * 4)
    workload = load_workload(prefix, network(4))
    times = []
    for serial in (False, True):
        schedule = schedule_of(None, chunks=2, serial_latency=serial)
        times.append(total(replay_trace(workload, SystemConfig(), schedule=schedule)))
    assert times == [12_000 + 3_000, 12_000 + 4 * 3_000]


@pytest.mark.parametrize("semantics", BOTH)
def test_rings_of_different_latencies_with_fewer_active_chunks_than_splits(tmp_path, semantics):
    prefix = write(tmp_path, *[[all_reduce(0, 1 << 16), all_reduce(1, 1 << 14)]] * 12)
    dims = tuple(
        Dim(DimKind.RING, size, Fraction(10**9), latency)
        for size, latency in ((3, 10**6), (2, 10**4), (2, 7 * 10**6))
    )
    times = []
    for active in (1, 2, 4):
        system = SystemConfig(splits=8, active_chunks=active, endpoint_delay=10)
        times.append(total(run(prefix, Topology(dims), system, semantics=semantics)))
    assert times == sorted(times, reverse=True)
    assert times[-1] > 0


def test_a_large_all_to_all(tmp_path):
    made = node(0, NodeKind.COMM_COLL, comm_type=6, comm_size=1 << 26)
    prefix = write(tmp_path, *[[made]] * 512)
    for semantics in BOTH:
        result = run(prefix, network(512, kind=DimKind.SWITCH), semantics=semantics)
        assert len(result.ranks) == 1


def test_a_long_all_to_all_tells_how_far_it_is(tmp_path):
    """One node, tens of thousands of messages: the share that is done rises all the while."""
    made = node(0, NodeKind.COMM_COLL, comm_type=6, comm_size=1 << 20)
    prefix = write(tmp_path, *[[made]] * 48)
    shares: list[float] = []
    run(
        prefix,
        network(48),
        SystemConfig(splits=8).with_algorithm(AlgorithmName.DIRECT, 1),
        semantics=Semantics.ASTRA_SIM_AWARE,
        progress=shares.append,
    )
    messages = 48 * 47 * 8
    assert len([share for share in shares if 0 < share < 1]) >= messages // 4096
    assert shares == sorted(shares)


def test_a_message_over_several_dims_waits_its_turn(tmp_path):
    """It takes lanes of both dims at once, and later messages on one of them do not pass it."""
    ranks = [
        [send(0, 1, 4000, 0), send(1, 3, 1000, 1), send(2, 2, 9000, 2)],
        [receive(0, 0, 4000, 0)],
        [receive(0, 0, 9000, 2)],
        [receive(0, 0, 1000, 1)],
    ]
    result = run(write(tmp_path, *ranks), network(2, 2))
    ends = [result.ns(rank.finish) for rank in result.ranks]
    # 4 us on dim 1, then 1 us on both dims with the latency of both, then 9 us on dim 2.
    assert ends[1] == 4000 + 1000
    assert ends[3] == 4000 + 1000 + 2000
    assert ends[2] == 4000 + 1000 + 9000 + 1000


def test_aware_links_carry_collectives_and_messages_in_turn(tmp_path):
    """On a ring of 8 the message 7 -> 1 crosses 0 and the link 0 -> 1 that the all-reduce of
    {0, 1} uses in both of its steps. The message has come to 0 before the second step begins, and
    keeps the link until it is across; the step waits for it."""
    latency, small, large = 500, 1 << 20, 1 << 20
    bandwidth = 50 * 2**30 / 1e9  # bytes per ns

    def there(size):
        return int(latency + size / bandwidth)

    half = small // 2
    to_zero = there(large)  # store and forward
    assert int(half / bandwidth) < to_zero
    second_step = there(half)
    assert to_zero > second_step  # so the message waits for the second step instead
    link_free = second_step + int(half / bandwidth)
    arrives = max(to_zero, link_free) + there(large)
    groups = {"1": (0, 1)}
    nothing = [[] for _ in range(5)]
    ranks = [
        [all_reduce(0, small, pg_name="1")],
        [all_reduce(0, small, pg_name="1"), receive(1, 7, large)],
        *nothing,
        [send(0, 1, large)],
    ]
    ranks = [nodes or [compute(0, 0)] for nodes in ranks]
    network = Topology((Dim(DimKind.RING, 8, Fraction(50 * 2**30), latency * 1000),))
    system = SystemConfig(splits=1, endpoint_delay=0).with_algorithm(AlgorithmName.RING, 1)
    result = replay_trace(
        load_workload(write(tmp_path, *ranks), network, groups),
        system,
        semantics=Semantics.ASTRA_SIM_AWARE,
    )
    finish = {rank.rank: rank.finish for rank in result.ranks}
    assert finish[0] == 2 * second_step
    assert finish[7] == finish[1] == arrives

"""ASTRA-sim's numbers, to the nanosecond."""

from __future__ import annotations

import csv
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sw_model.astra.collective import cut, run_collective
from sw_model.astra.cost import Wire, phase_ns, suitable
from sw_model.astra.links import Aware
from sw_model.astra.rounds import congested_ns, rounds_of
from sw_model.astra.system import AlgorithmName, AllReduceShape, SystemConfig, read_system
from sw_model.collective.plan import SYMMETRIC, Operation
from sw_model.engine import EventKernel
from sw_model.errors import InputError
from sw_model.network import read_network
from sw_model.topology import Dim, DimKind, Topology
from tests.chakra_traces import REFERENCE, TRACES, needs_shared

OPERATIONS = {operation.value.replace("-", "_"): operation for operation in SYMMETRIC}
PLAIN = (AlgorithmName.RING, AlgorithmName.DIRECT, AlgorithmName.HALVING_DOUBLING)
EXAMPLE = TRACES / "08_chakra_et_all_reduce_8npus_1MB"


def line(kind: DimKind = DimKind.RING, size: int = 8, gib_per_s: int = 50, ps: int = 500_000):
    links = size - 1 if kind is DimKind.FULLY_CONNECTED else 1
    return Topology((Dim(kind, size, Fraction(gib_per_s * 2**30 * links), ps),))


def rows(name: str) -> list[dict[str, str]]:
    with (REFERENCE / name).open() as file:
        return list(csv.DictReader(file))


@needs_shared
@pytest.mark.parametrize(
    ("name", "count"), [("astra_sim_collectives.csv", 144), ("astra_sim_speed.csv", 30)]
)
def test_every_row_of_the_reference(name, count):
    networks: dict[str, Topology] = {}
    wrong = []
    table = rows(name)
    for row in table:
        if row["network"] not in networks:
            networks[row["network"]] = read_network(REFERENCE / f"networks/{row['network']}.yml")
        operation = OPERATIONS[row["collective"]]
        names = row["impl"]
        if operation is Operation.ALL_TO_ALL:
            names = row.get("a2a_impl", names)
        system = SystemConfig(
            endpoint_delay=int(row.get("endpoint_delay_ns", 10)),
            splits=int(row["splits"]),
            local_memory_bandwidth=Fraction(row.get("local_mem_bw_gbps", "1600")),
            algorithms={operation: tuple(AlgorithmName(n) for n in names.split("/"))},
        )
        result = run_collective(operation, int(row["size_bytes"]), networks[row["network"]], system)
        if result.time_ns != int(row["time_ns"]):
            wrong.append((row, result.time_ns))
    assert not wrong
    assert len(table) == count


def both(topology: Topology, system: SystemConfig, operation: Operation, size: int):
    """Congestion-unaware and -aware times."""
    unaware = run_collective(operation, size, topology, system)
    chunk, chunks = cut(operation, size, system.splits, topology.npus)
    algorithm = suitable(system.algorithms[operation][0], operation, topology.npus)
    aware = congested_ns(
        operation, algorithm, chunk, chunks, range(topology.npus), topology, system
    )
    return unaware.time_ns, aware


@needs_shared
def test_golden_all_reduce():
    topology = read_network(EXAMPLE / "rt_template_network_cfg.yml")
    system = read_system(EXAMPLE / "rt_template_system_cfg.json")
    assert both(topology, system, Operation.ALL_REDUCE, 2**20) == (117_780, 117_780)
    assert 4 * (10 + 14 * (1110 + 10) + 7 * 3 * 655) == 117_780


@needs_shared
def test_golden_h100():
    topology = read_network(EXAMPLE / "HGX-H100-validated.yml")
    system = read_system(EXAMPLE / "HGX-H100-validated.json")
    assert both(topology, system, Operation.ALL_REDUCE, 2**20) == (55_222, 57_426)


@pytest.mark.parametrize(
    ("operation", "npus", "golden"),
    [(Operation.ALL_GATHER, 16, 323_560), (Operation.REDUCE_SCATTER, 4, 22_240)],
)
def test_golden_rings(operation, npus, golden):
    system = SystemConfig(splits=4, local_memory_bandwidth=Fraction(1600))
    system = system.with_algorithm(AlgorithmName.RING, 1)
    assert both(line(size=npus), system, operation, 2**20) == (golden, golden)


@pytest.mark.parametrize("operation", list(SYMMETRIC))
@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        (DimKind.RING, AlgorithmName.RING),
        *((DimKind.FULLY_CONNECTED, algorithm) for algorithm in PLAIN),
    ],
)
def test_message_by_message_is_the_closed_form_where_nothing_meets(kind, algorithm, operation):
    system = SystemConfig(splits=3, local_memory_bandwidth=Fraction(100))
    unaware, aware = both(line(kind), system.with_algorithm(algorithm, 1), operation, 1_000_003)
    assert unaware == aware


def test_links_carry_one_message_at_a_time():
    kernel = EventKernel()
    aware = Aware(line(DimKind.SWITCH, 4), kernel)
    seen = []
    for destination in (1, 2):
        aware.send(0, destination, 53687, lambda who: seen.append((who, kernel.now)), destination)
    kernel.run()
    # 1000 ns on the way up, one after the other, and 1000 ns down, each with 500 ns of latency.
    assert seen == [(1, 2 * (500 + 999)), (2, 999 + 2 * (500 + 999))]


def test_a_ring_takes_the_shorter_way():
    aware = Aware(line(size=6), EventKernel())
    assert aware.route(0, 2) == [1, 2]
    assert aware.route(0, 4) == [5, 4]
    assert aware.route(0, 3) == [1, 2, 3]


def test_aware_is_for_one_dim():
    with pytest.raises(InputError, match="must have a network of one dim, as in that program, not"):
        Aware(Topology((*line().dims, *line().dims)), EventKernel())


def test_rounds_know_their_algorithms():
    with pytest.raises(ValueError, match="must be ring, direct or halvingDoubling, not double"):
        rounds_of(Operation.ALL_REDUCE, AlgorithmName.DOUBLE_BINARY_TREE, 4, 64, 0)


@pytest.mark.parametrize(
    ("asked", "operation", "npus", "used"),
    [
        ("halvingDoubling", Operation.ALL_REDUCE, 8, "halvingDoubling"),
        ("halvingDoubling", Operation.ALL_REDUCE, 6, "ring"),
        ("halvingDoubling", Operation.ALL_TO_ALL, 8, "direct"),
        ("doubleBinaryTree", Operation.ALL_REDUCE, 6, "doubleBinaryTree"),
        ("doubleBinaryTree", Operation.ALL_GATHER, 8, "ring"),
        ("doubleBinaryTree", Operation.ALL_TO_ALL, 8, "direct"),
    ],
)
def test_another_algorithm_where_it_must_be_and_it_says_so(asked, operation, npus, used):
    system = SystemConfig().with_algorithm(AlgorithmName(asked), 1)
    other = SystemConfig().with_algorithm(AlgorithmName(used), 1)
    result = run_collective(operation, 2**20, line(size=npus), system)
    if asked == used:
        assert result.notes == ()
    else:
        assert result.notes == (
            f"{asked} cannot do {operation.value} over {npus} NPUs on dim 1: {used} is used "
            "instead",
        )
    assert result.time_ns > 0
    if used != "direct" or asked == "direct":
        assert result.time_ns == run_collective(operation, 2**20, line(size=npus), other).time_ns


def test_one_ring_is_a_ring():
    for one, plain in (("oneRing", "ring"), ("oneDirect", "direct")):
        times = {
            run_collective(
                Operation.ALL_REDUCE,
                2**20,
                line(),
                SystemConfig().with_algorithm(AlgorithmName(name), 1),
            ).time_ns
            for name in (one, plain)
        }
        assert len(times) == 1


@pytest.mark.parametrize("operation", list(SYMMETRIC))
@pytest.mark.parametrize("size", [0, 1])
def test_empty_and_one_byte_collectives_cost_the_latency_of_one_byte(operation, size):
    system = SystemConfig(splits=4, endpoint_delay=0).with_algorithm(AlgorithmName.RING, 1)
    result = run_collective(operation, size, line(), system)
    steps = {Operation.ALL_REDUCE: 14, Operation.ALL_TO_ALL: 28}.get(operation, 7)
    chunks = 4 if operation is Operation.ALL_GATHER else 1
    assert result.time_ns == chunks * steps * 500
    assert result.chunks == chunks


def test_without_a_local_memory_reductions_are_free():
    free = run_collective(Operation.ALL_REDUCE, 2**20, line(), SystemConfig())
    slow = SystemConfig(local_memory_bandwidth=Fraction(1))
    costs = run_collective(Operation.ALL_REDUCE, 2**20, line(), slow)
    assert costs.time_ns - free.time_ns == 7 * 3 * 2**17


def test_a_full_all_reduce_on_every_dim():
    topology = Topology((*line(size=4).dims, *line(size=2).dims))
    system = SystemConfig(shape=AllReduceShape.FULL_PER_DIM, endpoint_delay=0)
    result = run_collective(Operation.ALL_REDUCE, 2**20, topology, system)
    assert [(p.operation, p.dim, p.size) for p in result.phases] == [
        (Operation.ALL_REDUCE, 0, 2**20),
        (Operation.ALL_REDUCE, 1, 2**20),
    ]
    scattered = run_collective(Operation.ALL_REDUCE, 2**20, topology, SystemConfig())
    assert [(p.operation, p.dim, p.size) for p in scattered.phases] == [
        (Operation.REDUCE_SCATTER, 0, 2**20),
        (Operation.ALL_REDUCE, 1, 2**18),
        (Operation.ALL_GATHER, 0, 2**18),
    ]
    assert scattered.dims[0].bytes_per_npu == 2 * 3 * 2**18
    assert scattered.dims[1].bytes_per_npu == 2**18


def test_one_npu_has_nothing_to_do():
    assert run_collective(Operation.ALL_REDUCE, 9, line(size=1), SystemConfig()).time_ns == 0


@given(
    size=st.integers(0, 1 << 24),
    splits=st.integers(1, 9),
    active=st.integers(1, 4),
    operation=st.sampled_from(list(SYMMETRIC)),
)
def test_busy_dims_fit_into_the_time(size, splits, active, operation):
    topology = Topology(
        (*line(size=4).dims, *line(DimKind.FULLY_CONNECTED, 3).dims, *line(DimKind.SWITCH, 2).dims)
    )
    system = SystemConfig(splits=splits, active_chunks=active)
    result = run_collective(operation, size, topology, system)
    longest = sum(phase.duration for phase in result.phases)
    assert longest <= result.time_ns <= result.chunks * longest
    assert all(use.busy_ns <= result.time_ns for use in result.dims)


def test_wrong_sizes():
    with pytest.raises(ValueError, match="size_bytes must be at least 0, not -1"):
        run_collective(Operation.ALL_REDUCE, -1, line(), SystemConfig())
    with pytest.raises(ValueError, match="must be able to do all-to-all, not halvingDoubling"):
        phase_ns(
            Operation.ALL_TO_ALL,
            AlgorithmName.HALVING_DOUBLING,
            4,
            8,
            Wire(1.0, 1.0, 1),
            SystemConfig(),
        )

"""The platform at message level: closed forms, counters, bounds, stragglers, deadlock."""

import asyncio
import re
from fractions import Fraction
from math import ceil

import pytest

from sw_model.collective.plan import Collective, Operation
from sw_model.endpoint.link import LINK_TIMING
from sw_model.endpoint.timing import ACE_TIMING
from sw_model.errors import DeadlockError
from sw_model.fabric.backend import TlmBackend
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.simulate import run_collective
from sw_model.fred.timing import FRED_TIMING
from sw_model.platform import LinkParameters, MemoryParameters, Platform
from sw_model.schedule.options import PlanBook, ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology

AR, RS, AG = Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER
FLIT_ELEMENTS = 8  # of FP16
BASELINE = ScheduleOptions(scheduler="baseline")


def platform(*dims: tuple[DimKind, int], rate=Fraction(1), latency=20, read_latency=64) -> Platform:
    """A platform whose links all have the same rate and latency."""
    return Platform(
        topology=Topology(
            tuple(Dim(kind, size, rate * 20 * 10**9, latency * 800) for kind, size in dims)
        ),
        links=(LinkParameters(rate=rate, latency=latency),) * len(dims),
        memory=MemoryParameters(read_latency=read_latency),
    )


def ring(size: int, **changes) -> Platform:
    return platform((DimKind.RING, size), **changes)


def fred(size: int, **changes) -> Platform:
    return platform((DimKind.FRED, size), **changes)


def whole(operation: Operation, flits: int, ranks: int) -> Collective:
    """A collective with ``flits`` flits resident on every rank where it is largest."""
    elements = flits * FLIT_ELEMENTS // (ranks if operation is AG else 1)
    return Collective(operation, elements, dims=(0,))


def op_start(where: Platform, flits: int, programs: int) -> int:
    """Start of the only op of a descriptor LOAD, PROGRAM × programs, OP, STORE, END.

    Up to 112 flits are requested before the second part of the descriptor, and come before it.
    """
    assert flits <= 112
    host, ace = FabricConstants(), ACE_TIMING
    first_beat = host.doorbell + ace.doorbell + where.memory.read_latency
    load_queued = first_beat + 1 + ace.record_arrival
    loaded = load_queued + ace.queue + where.memory.read_latency + flits - 1 + ace.load_fill
    op_queued = first_beat + 2 * (programs + 1) + 1 + ace.record_arrival
    return max(loaded, op_queued + ace.queue)


def stored(where: Platform, written: int, flits: int) -> int:
    """Completion at the host when the only op's last flit was written and ``flits`` are stored."""
    ace = ACE_TIMING
    last_read = written + ace.received_end + flits - 1
    acknowledged = last_read + ace.store_read + where.memory.write_latency
    return acknowledged + ace.completion + FabricConstants().completion


def ring_written(where: Platform, start: int, hops: int, shard: int) -> int:
    """Last flit of the last of ``hops`` messages written, links at one flit per cycle."""
    ace, latency = ACE_TIMING, where.links[0].latency
    chosen = start + max(ace.first_step, LINK_TIMING.grant(latency) + ace.granted)
    flight = LINK_TIMING.flit(latency) + ace.receive
    hop = max(ace.payload + flight + ace.chase, shard + 1)  # latency, or the port
    return chosen + (hops - 1) * hop + ace.payload + flight + shard - 1


@pytest.mark.parametrize("latency", [1, 20, 150])
@pytest.mark.parametrize("shard", [1, 5, 28])
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("operation", [RS, AG, AR])
def test_one_chunk_on_a_ring_takes_exactly_its_closed_form(operation, size, shard, latency):
    where = ring(size, latency=latency)
    hops = (size - 1) * (2 if operation is AR else 1)
    loaded = shard if operation is AG else size * shard
    result = shard if operation is RS else size * shard
    start = op_start(where, loaded, 2 * hops)
    expected = stored(where, ring_written(where, start, hops, shard), result)
    run = run_collective(where, whole(operation, size * shard, size), schedule=single())
    assert set(run.ended.values()) == {expected}
    assert run.intervals[0].start == start


def single() -> ScheduleOptions:
    return ScheduleOptions(scheduler="baseline", chunks=1)


@pytest.mark.parametrize("latency", [1, 30])
@pytest.mark.parametrize("flits", [4, 64, 112])
@pytest.mark.parametrize("size", [2, 4, 5])
def test_one_chunk_in_a_fred_switch_takes_exactly_its_closed_form(size, flits, latency):
    where = fred(size, latency=latency)
    start = op_start(where, flits, 2)
    header = start + ACE_TIMING.first_step + ACE_TIMING.transmit
    out = header + LINK_TIMING.transmit + latency + FRED_TIMING.latency(size)
    written = out + latency + LINK_TIMING.receive + ACE_TIMING.receive + flits
    run = run_collective(where, whole(AR, flits, size), schedule=single())
    assert set(run.ended.values()) == {stored(where, written, flits)}


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(3, 4), Fraction(5, 13)])
@pytest.mark.parametrize(("kind", "size"), [(DimKind.RING, 4), (DimKind.FRED, 4)])
def test_a_long_all_reduce_keeps_the_link_busy(kind, size, rate):
    where = platform((kind, size), rate=rate)
    run = run_collective(where, whole(AR, 16384, size), schedule=BASELINE)
    flits = run.counters[0].dims[0].flits_sent
    assert run.cycles >= ceil((flits - 1) / rate)
    # At one flit per cycle, memory gives a load and its descriptor records, no less than that.
    assert run.cycles <= 1.07 * flits / rate
    assert run.dims[0].throughput == pytest.approx(float(flits / rate / run.cycles))
    assert run.dims[0].goodput < run.dims[0].throughput


def floor_shards(n: int, size: int) -> list[int]:
    return [(i + 1) * n // size - i * n // size for i in range(size)]


@pytest.mark.parametrize("flits", [1, 3, 16, 100, 255, 1030])
@pytest.mark.parametrize("packet_bytes", [64, 4096])
def test_counters_of_a_ring_all_reduce(flits, packet_bytes):
    size, rank = 4, 2
    where = ring(size)
    engine = type(where.engine)(packet_bytes=packet_bytes)
    where = Platform(where.topology, where.links, engine=engine, memory=where.memory)
    run = run_collective(where, whole(AR, flits, size), schedule=BASELINE)
    sent = headers = reductions = received = 0
    for chunk in run.plan.chunks:
        shards = floor_shards(chunk.quanta, size)
        for step in range(size - 1):
            for shard in ((rank - 1 - step) % size, (rank - step) % size):  # RS, then AG
                packets = ceil(shards[shard] * 16 / packet_bytes)
                sent, headers = sent + shards[shard] + packets, headers + packets
            for shard in ((rank - 2 - step) % size, (rank - 1 - step) % size):
                received += shards[shard] + ceil(shards[shard] * 16 / packet_bytes)
            reductions += shards[(rank - 2 - step) % size]
    count = run.counters[rank]
    assert count.dims[0].flits_sent == sent
    assert count.dims[0].headers_sent == headers
    assert count.dims[0].flits_received == received
    assert count.dims[0].reductions == reductions
    assert count.memory_read_bytes == count.memory_written_bytes == flits * 16


def test_counters_of_a_payload_that_ends_within_a_flit():
    run = run_collective(ring(4), Collective(AR, 1001, dims=(0,)), schedule=BASELINE)
    assert run.counters[1].memory_read_bytes == 2002
    assert run.counters[1].memory_written_bytes == 2002


@pytest.mark.parametrize("size", [2, 4])
def test_counters_of_in_network_collectives(size):
    flits = 64 * size
    for operation, sent, received in (
        (AR, flits + 1, flits + 1),
        (RS, flits + size, flits // size + 1),
        (AG, flits // size + 1, flits + size),
    ):
        run = run_collective(fred(size), whole(operation, flits, size), schedule=single())
        for count in run.counters:
            assert count.dims[0].flits_sent == sent
            assert count.dims[0].flits_received == received
            assert count.dims[0].reductions == 0  # the switch reduces
        assert run.plan.chunks[0].quanta == (flits // size if operation is AG else flits)


@pytest.mark.parametrize("elements", [1, 7, 9, 100, 1001, 12345])
@pytest.mark.parametrize("scheduler", ["baseline", "themis"])
def test_odd_sizes_end_on_all_ranks(elements, scheduler):
    where = platform((DimKind.RING, 3), (DimKind.FRED, 4))
    collective = Collective(AR, elements, dims=(0, 1))
    run = run_collective(where, collective, schedule=ScheduleOptions(scheduler=scheduler))
    assert set(run.ended) == set(range(12))
    assert {count.memory_read_bytes for count in run.counters} == {2 * elements}
    assert {count.memory_written_bytes for count in run.counters} == {2 * elements}


def test_an_empty_collective_ends_at_once():
    run = run_collective(ring(4), Collective(AR, 0, dims=(0,)), schedule=BASELINE)
    assert set(run.ended.values()) == {0}
    assert run.cycles == 0


def test_two_runs_are_alike():
    where = platform((DimKind.RING, 4), (DimKind.FRED, 4), rate=Fraction(3, 4))
    collective = Collective(AR, 40000, dims=(0, 1))
    first, second = (run_collective(where, collective) for _ in range(2))
    assert first.intervals == second.intervals
    assert first.ended == second.ended


def test_ops_of_a_dim_start_in_plan_order_on_every_rank():
    where = platform((DimKind.RING, 4), (DimKind.FRED, 4))
    run = run_collective(where, Collective(AR, 40000, dims=(0, 1)))
    for rank in range(16):
        for dim in range(2):
            mine = sorted(
                (i.start, i.chunk, i.phase) for i in run.intervals if (i.rank, i.dim) == (rank, dim)
            )
            assert [(chunk, phase) for _, chunk, phase in mine] == [
                (op.chunk, op.phase) for op in run.plan.ops[dim]
            ]


def test_a_straggler_delays_all_and_is_not_slower_itself():
    where = platform((DimKind.RING, 4), (DimKind.FRED, 4))
    collective = Collective(AR, 8192, dims=(0, 1))
    together = run_collective(where, collective)
    late = run_collective(where, collective, entry={5: 3000})
    assert min(late.ended.values()) > 3000
    # The others have done ahead what they can, so 5 may only gain by being late.
    assert late.cycles <= together.cycles
    assert late.counters == together.counters


def test_entry_is_checked():
    collective = Collective(AR, 64, dims=(0,))
    with pytest.raises(ValueError, match=r"^entry must name simulated ranks, not 7$"):
        run_collective(ring(4), collective, entry={7: 1})
    with pytest.raises(ValueError, match=r"^the entry of rank 1 must be at least 0, not -1$"):
        run_collective(ring(4), collective, entry={1: -1})


def test_a_deadlock_names_ranks_ops_and_what_they_wait_for():
    where = platform((DimKind.RING, 2), (DimKind.FRED, 2))
    backend = TlmBackend(PlanBook(where, single()))
    backend.issue(Collective(AR, 64, dims=(0, 1), name="conv1"), [0, 1, 2])
    with pytest.raises(DeadlockError) as error:
        asyncio.run(backend.wait(None))
    text = str(error.value)
    assert "nothing can happen any more after cycle" in text
    assert "collective 0 'conv1' has not been entered by ranks [3]" in text
    op = "op 0 (reduce-scatter, phase 1 of chunk 0 of collective 0 'conv1')"
    assert f"rank 2, dim 1: {op} waits for the receiver's grant of message 1 of 1" in text
    merged = "op 0 (all-reduce, phase 2 of chunk 0 of collective 0 'conv1')"
    assert f"rank 0, dim 2: {merged} waits for messages [1] of 1 to arrive" in text
    assert "rank 0: the store of chunk 0 waits for fill 1 of buffer 24" in text


def test_waiting_for_a_cycle_is_no_deadlock():
    backend = TlmBackend(PlanBook(ring(2), single()))
    collective = Collective(AR, 64, dims=(0,))
    assert backend.issue(collective, [0]) == 0
    assert asyncio.run(backend.wait(5000)) == []
    assert backend.now == 5000
    assert backend.issue(collective, [1]) == 0
    assert asyncio.run(backend.wait(None))


def test_collectives_follow_each_other_through_the_same_buffers():
    where = platform((DimKind.RING, 4), (DimKind.FRED, 4))
    backend = TlmBackend(PlanBook(where, ScheduleOptions()))
    collective = Collective(AR, 4096, dims=(0, 1))
    numbers = [backend.issue(collective, backend.representatives) for _ in range(5)]
    assert numbers == [0, 1, 2, 3, 4]
    ended: list[int] = []
    while len(ended) < 5 * 16:
        ended += [c.collective for c in asyncio.run(backend.wait(None))]
    assert ended == sorted(ended)  # in program order
    one = run_collective(where, collective).counters[3]
    five = backend.counters()[3]
    assert five.memory_read_bytes == 5 * one.memory_read_bytes
    assert [d.flits_sent for d in five.dims] == [5 * d.flits_sent for d in one.dims]
    # Step programs stay in the engine, so only the first descriptor brings them.
    assert five.descriptor_bytes < 5 * one.descriptor_bytes


def test_issue_is_checked():
    backend = TlmBackend(PlanBook(ring(4), single()))
    collective = Collective(AR, 64, dims=(0,))
    text = "ranks must be among the simulated ranks [0, 1, 2, 3], not [9]"
    with pytest.raises(ValueError, match=re.escape(text)):
        backend.issue(collective, [9])
    backend.issue(collective, [0])
    with pytest.raises(ValueError, match=re.escape("must enter the same collective, not [0, 1]")):
        backend.issue(collective, [0, 1])
    with pytest.raises(ValueError, match=r"^collective 0 must be Collective"):
        backend.issue(Collective(AR, 128, dims=(0,)), [1])

"""Records: plans encoded for the engines."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from rtl.ace.layouts import (
    MAX_PORTS,
    Begin,
    CollectiveKind,
    Load,
    Op,
    Program,
    RecordKind,
    RxStep,
    Store,
    TxStep,
)
from sim_top.configurations import FlowTable
from sim_top.records import BufferMap, RecordCompiler, descriptor_bytes, pack
from sw_model.collective.plan import (
    Algorithm,
    BufferUse,
    Collective,
    CollectivePlan,
    Operation,
)
from sw_model.errors import InputError
from sw_model.platform import MOST_LINKS, EngineParameters, Partition, Platform
from sw_model.schedule.baseline import Baseline
from sw_model.schedule.planner import plan_collective
from sw_model.topology import Dim, DimKind, Topology

RING = Dim(DimKind.RING, 4, Fraction(20 * 10**9), 16_000)
FRED = Dim(DimKind.FRED, 4, Fraction(15 * 10**9), 24_000)
FULL = Dim(DimKind.FULLY_CONNECTED, 4, Fraction(60 * 10**9), 16_000)


def platform(*dims: Dim, **engine: object) -> Platform:
    return Platform.from_topology(Topology(dims), engine=EngineParameters(**engine))


def compiler(where: Platform, rank: int = 0) -> RecordCompiler:
    flows = {
        number: FlowTable(dim.size, dim.middle_copies, kinds=[("fp16", "sum")])
        for number, dim in enumerate(where.topology.dims)
        if dim.kind is DimKind.FRED
    }
    return RecordCompiler(where, rank, flows)


def kinds(records: list[int]) -> list[RecordKind]:
    return [RecordKind(record & 0xF) for record in records]


def fields(layout: type, record: int) -> dict[str, int]:
    return {name: record >> f.offset & (1 << f.width) - 1 for name, f in layout.as_shape()}


def test_pack_puts_fields_where_the_layout_says() -> None:
    word = pack(TxStep, {"offset": 5, "length": 3, "chase": 1})
    assert fields(TxStep, word) == {
        "from_destination": 0, "offset": 5, "length": 3, "last_bytes": 0, "chase": 1, "whole": 0,
        "copied": 0, "after": 0, "after_port": 0, "copy": 0, "copy_offset": 0, "local": 0,
        "step": 0, "configuration": 0,
    }  # fmt: skip


@pytest.mark.parametrize("value", [-1, 1 << 16])
def test_pack_refuses_what_a_field_would_cut(value: int) -> None:
    with pytest.raises(ValueError, match=rf"^TxStep.offset must be in 0..65535, not {value}$"):
        pack(TxStep, {"offset": value})


def test_buffers_lie_one_behind_the_other() -> None:
    engine = EngineParameters(partitions=(Partition(2, 100), Partition(3, 10), Partition(1, 50)))
    buffers = BufferMap(engine)
    uses = [BufferUse(0, 1, 7), BufferUse(1, 0, 0), BufferUse(1, 2, 0), BufferUse(2, 0, 0)]
    assert [buffers.number(use) for use in uses] == [1, 2, 4, 5]
    assert [buffers.address(use) for use in uses] == [100, 200, 220, 230]


@pytest.mark.parametrize(
    ("operation", "rank", "read", "written"),
    [
        (Operation.ALL_REDUCE, 0, 200, 200),
        (Operation.REDUCE_SCATTER, 3, 256, 64),
        (Operation.ALL_GATHER, 1, 64, 256),
    ],
)
def test_a_begin_says_what_the_collective_is(operation, rank, read, written) -> None:
    where = platform(RING)
    elements = {Operation.ALL_REDUCE: 100, Operation.REDUCE_SCATTER: 128}.get(operation, 32)
    plan = plan_collective(Collective(operation, elements, dims=(0,)), where, chunks=1)
    parts = {"collective": 9, "source": 1000, "result": 2000}
    without = compiler(where, rank).compile(plan, **parts)
    first, *rest = compiler(where, rank).compile(plan, **parts, begin=True)
    assert rest == without
    assert fields(Begin, first) == {
        "kind": RecordKind.BEGIN, "operation": CollectiveKind[operation.name], "traffic_class": 2,
        "data_type": 0, "operator": 0, "reserved": 0, "collective": 9, "source": 1000,
        "source_bytes": read, "result": 2000, "result_bytes": written,
        "program_steps": 6 if operation is Operation.ALL_REDUCE else 3,
    }  # fmt: skip


def test_every_operation_has_a_code() -> None:
    assert {kind.name for kind in CollectiveKind} == {operation.name for operation in Operation}


def test_one_chunk_on_a_ring_is_programs_load_op_store() -> None:
    where = platform(RING)
    plan = plan_collective(Collective(Operation.ALL_REDUCE, 100, dims=(0,)), where, chunks=1)
    records = compiler(where).compile(plan, collective=9, source=1000, result=2000)
    # 6 sends and 6 receives on a ring of 4.
    assert kinds(records) == [
        RecordKind.LOAD, *[RecordKind.PROGRAM] * 12, RecordKind.OP, RecordKind.STORE,
    ]  # fmt: skip
    load, store = fields(Load, records[0]), fields(Store, records[-1])
    # 200 bytes: 12 whole flits and one of 8 bytes.
    assert (load["memory_address"], load["length"], load["last_bytes"]) == (1000, 13, 8)
    assert (store["memory_address"], store["length"], store["last_bytes"]) == (2000, 13, 8)
    assert (load["first"], load["final"], store["first"], store["final"]) == (1, 1, 1, 1)
    assert (store["complete"], store["collective"]) == (1, 9)
    op = fields(Op, records[-2])
    assert (op["tx_count"], op["rx_count"], op["collective"]) == (6, 6, 9)
    assert op["source"] == load["buffer"]
    assert op["destination"] == store["buffer"]


def test_like_chunks_share_their_programs() -> None:
    where = platform(RING)
    request = Collective(Operation.ALL_REDUCE, 4096, dims=(0,))
    plan = plan_collective(request, where, chunks=4)
    mine = compiler(where)
    first = mine.compile(plan, collective=0, source=0, result=0)
    assert kinds(first).count(RecordKind.PROGRAM) == 12
    assert kinds(first).count(RecordKind.OP) == 4
    again = mine.compile(plan, collective=1, source=0, result=0)
    assert RecordKind.PROGRAM not in kinds(again)


def test_only_the_last_store_completes() -> None:
    where = platform(RING)
    plan = plan_collective(Collective(Operation.ALL_REDUCE, 4096, dims=(0,)), where, chunks=4)
    records = compiler(where).compile(plan, collective=0, source=0, result=0)
    stores = [fields(Store, r)["complete"] for r in records if r & 0xF == RecordKind.STORE]
    assert stores == [0, 0, 0, 1]


def test_reduce_scatter_gathers_its_blocks_and_reserves_once() -> None:
    where = platform(RING, FRED)
    request = Collective(Operation.REDUCE_SCATTER, 16 * 64, dims=(0, 1))
    plan = plan_collective(request, where, chunks=1)
    records = compiler(where).compile(plan, collective=0, source=0, result=500)
    loads = [fields(Load, r) for r in records if r & 0xF == RecordKind.LOAD]
    assert sum(load["length"] for load in loads) == 16 * 64 * 2 // 16
    assert [load["first"] for load in loads] == [1] + [0] * (len(loads) - 1)
    assert [load["final"] for load in loads] == [0] * (len(loads) - 1) + [1]


def test_a_full_program_memory_is_fenced_and_filled_afresh() -> None:
    where = platform(RING, program_steps=6)
    mine = compiler(where)
    for number, elements in enumerate((96, 64)):
        request = Collective(Operation.ALL_REDUCE, elements, dims=(0,))
        plan = plan_collective(request, where, chunks=1)
        records = mine.compile(plan, collective=number, source=0, result=0)
        assert kinds(records).count(RecordKind.FENCE) == number
    programs = [fields(Program, r) for r in records if r & 0xF == RecordKind.PROGRAM]
    assert max(program["index"] for program in programs) == 5


def custom(dim: Dim, algorithm: Algorithm, operation: Operation) -> CollectivePlan:
    request = Collective(operation, 512, dims=(0,))
    scheduler = Baseline(algorithms=(algorithm,))
    return plan_collective(request, platform(dim), scheduler=scheduler, chunks=1)


def test_a_message_off_the_ring_is_refused() -> None:
    """A ring's port leads to the next coordinate."""
    plan = custom(RING, Algorithm.BIDIRECTIONAL_RING, Operation.ALL_TO_ALL)
    with pytest.raises(
        InputError,
        match=r"^the port of dim 1, a Ring, must send from coordinate 2 to 3, not to 1: an engine "
        r"has programs of the ring alone there$",
    ):
        compiler(platform(RING), 2).compile(plan, collective=0, source=0, result=64)


def test_a_message_without_a_flow_is_refused() -> None:
    plan = custom(FRED, Algorithm.DIRECT, Operation.ALL_GATHER)
    with pytest.raises(
        InputError,
        match=r"^the port of dim 1, a Fred, must send what its switch reduces or multicasts, not "
        r"messages to coordinate 1: an engine there runs in-network programs only$",
    ):
        compiler(platform(FRED)).compile(plan, collective=0, source=0, result=64)


def test_a_flow_without_a_switch_is_refused() -> None:
    plan = custom(FULL, Algorithm.IN_NETWORK, Operation.ALL_REDUCE)
    with pytest.raises(
        InputError,
        match=r"^dim 1, a FullyConnected, must run messages from NPU to NPU: no switch there "
        r"reduces or multicasts$",
    ):
        compiler(platform(FULL)).compile(plan, collective=0, source=0, result=64)


def steps_of(records: list[int], layout: type) -> dict[int, list[dict[str, int]]]:
    """By port, the steps that a descriptor writes into the send or receive program memories."""
    out: dict[int, list[dict[str, int]]] = {}
    for record in records:
        if record & 0xF == RecordKind.PROGRAM:
            program = fields(Program, record)
            if program["receive"] == (layout is RxStep):
                out.setdefault(program["port"], []).append(fields(layout, program["step"]))
    return out


def test_what_a_rank_has_for_itself_is_moved_within_its_sram() -> None:
    """An all-to-all of 4 on a ring: 3 + 2 + 1 messages, and a block of its own."""
    where = platform(RING)
    plan = plan_collective(Collective(Operation.ALL_TO_ALL, 128, dims=(0,)), where, chunks=1)
    records = compiler(where, 2).compile(plan, collective=0, source=0, result=64)
    (sends,) = steps_of(records, TxStep).values()
    (receives,) = steps_of(records, RxStep).values()
    assert [step["local"] for step in sends] == [0] * 6 + [1]
    # Block 2 of 4 flits each, from the source to the destination.
    kept = sends[-1]
    assert (kept["offset"], kept["length"], kept["copy"], kept["copy_offset"]) == (8, 4, 1, 8)
    assert len(receives) == 6
    assert sorted(step["step"] for step in sends[:-1]) == list(range(6))


def test_sums_of_several_ports_follow_one_another() -> None:
    """Direct reduce-scatter of 4: each port brings one message; the first adds to what is there,
    the others to what the one before has written, flit by flit."""
    plan = custom(FULL, Algorithm.DIRECT, Operation.REDUCE_SCATTER)
    records = compiler(platform(FULL)).compile(plan, collective=0, source=0, result=64)
    receives = steps_of(records, RxStep)
    waits = {
        port: (step["chase"], step["whole"], step["after"], step["after_port"])
        for port, (step,) in receives.items()
    }
    order = [port for port in receives if not waits[port][0]]
    while len(order) < 3:
        (following,) = [p for p in waits if waits[p][0] and waits[p][3] == order[-1]]
        order.append(following)
    assert sorted(order) == [0, 1, 2]
    assert all(waits[port][:3] == (1, 0, 0) for port in order[1:])
    ends = [receives[port][0]["into_destination"] for port in order]
    assert ends == [0, 0, 1]
    (op,) = [fields(Op, r) for r in records if r & 0xF == RecordKind.OP]
    assert (op["tx_count"], op["rx_count"]) == (3, 3)
    assert op["port_counts"] == 0x010101


def test_doubling_waits_for_every_message_and_copy_that_it_sends() -> None:
    """All-gather of 4 by doubling: the second message needs the first one's copy, and what came in
    at another port, in full."""
    plan = custom(FULL, Algorithm.HALVING_DOUBLING, Operation.ALL_GATHER)
    records = compiler(platform(FULL)).compile(plan, collective=0, source=0, result=64)
    sends = steps_of(records, TxStep)
    # Coordinate 0: to 1 at port 0, then to 2 at port 1; it hears 1 at port 2.
    (first,) = sends[0]
    assert (first["chase"], first["copy"], first["local"]) == (0, 1, 0)
    waits = [(s["chase"], s["whole"], s["copied"], s["after_port"], s["after"]) for s in sends[1]]
    assert waits == [(1, 1, 0, 2, 0), (1, 1, 1, 0, 0)]
    assert [step["local"] for step in sends[1]] == [1, 0]
    assert 2 not in sends


def test_the_rtl_and_the_model_agree_on_the_ports_of_a_dim() -> None:
    assert MAX_PORTS == MOST_LINKS


def test_a_program_longer_than_its_memory_is_refused() -> None:
    where = platform(RING, program_steps=5)
    plan = plan_collective(Collective(Operation.ALL_REDUCE, 96, dims=(0,)), where, chunks=1)
    with pytest.raises(
        InputError,
        match=r"^an op on dim 1 has 6 steps, and the program memory 5: raise engine.program_steps$",
    ):
        compiler(where).compile(plan, collective=0, source=0, result=0)


def test_descriptor_ends_with_end_and_is_whole_records() -> None:
    block = descriptor_bytes([pack(Program, {"kind": RecordKind.FENCE})])
    assert len(block) == 64
    assert block[0] == RecordKind.FENCE
    assert block[32:] == bytes(32)


def test_an_unknown_flow_names_itself() -> None:
    table = FlowTable(4, 3, kinds=[("fp16", "sum")])
    assert len(table.entries) == 1 + 4 + 4 + 3  # all-reduce, reduces, multicasts, rotations
    with pytest.raises(
        ValueError,
        match=r"^flow \(0, 1\) > \(0, 1\) of fp16 sum must be in the configuration memory, "
        r"which holds 12 entries$",
    ):
        table.index(((0, 1), (0, 1)), "fp16", "sum")


def test_platform_refuses_what_has_no_rtl() -> None:
    with pytest.raises(ValueError, match=r"^the bandwidth of dim 2 must be at most one flit per "):
        Platform.from_topology(Topology((RING, replace(FRED, bandwidth=Fraction(21 * 10**9)))))
    with pytest.raises(
        ValueError,
        match=r"^dim 1 must be a Ring, a FullyConnected or a Fred dim on this platform, "
        r"not 'Switch'$",
    ):
        Platform.from_topology(Topology((replace(RING, kind=DimKind.SWITCH),)))
    with pytest.raises(
        ValueError,
        match=r"^dim 2, a FullyConnected dim, must have at most 8 NPUs on this platform, whose "
        r"engines have 7 ports on a dim, not 9$",
    ):
        Platform.from_topology(Topology((RING, replace(FULL, size=9))))
    with pytest.raises(
        ValueError,
        match=r"^the bandwidth of dim 1 must be at most one flit per cycle over each of its 3 "
        r"links \(60 GB/s\), not 61 GB/s$",
    ):
        Platform.from_topology(Topology((replace(FULL, bandwidth=Fraction(61 * 10**9)),)))


def test_the_links_of_a_dim_share_its_bandwidth() -> None:
    where = platform(replace(FULL, bandwidth=Fraction(45 * 10**9)), RING)
    assert [link.rate for link in where.links] == [Fraction(3, 4), Fraction(1)]


def test_link_rates_and_latencies_follow_from_the_description() -> None:
    where = platform(RING, FRED)
    assert [link.rate for link in where.links] == [Fraction(1), Fraction(3, 4)]
    assert [link.latency for link in where.links] == [20, 30]  # cycles of 0.8 ns


@pytest.mark.parametrize("bandwidth", [Fraction(10**6), Fraction(15 * 10**6)])
def test_a_bandwidth_without_a_rate_is_refused(bandwidth: Fraction) -> None:
    """Below a flit in 1024 cycles nothing comes near."""
    slow = replace(RING, bandwidth=bandwidth)
    with pytest.raises(ValueError, match=r"^the bandwidth of dim 1 must be within 1 % of a "):
        Platform.from_topology(Topology((slow,)))


def test_slow_links_have_exact_rates() -> None:
    slow = replace(RING, bandwidth=Fraction(100 * 10**6))
    (link,) = Platform.from_topology(Topology((slow,))).links
    assert link.rate == Fraction(1, 200)

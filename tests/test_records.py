"""Records: plans encoded for the engines."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from rtl.ace.layouts import Begin, CollectiveKind, Load, Op, Program, RecordKind, Store, TxStep
from sim_top.configurations import FlowTable
from sim_top.records import BufferMap, RecordCompiler, descriptor_bytes, pack
from sw_model.collective.plan import BufferUse, Collective, Operation
from sw_model.errors import InputError
from sw_model.platform import EngineParameters, Partition, Platform
from sw_model.schedule.planner import plan_collective
from sw_model.topology import Dim, DimKind, Topology

RING = Dim(DimKind.RING, 4, Fraction(20 * 10**9), 16_000)
FRED = Dim(DimKind.FRED, 4, Fraction(15 * 10**9), 24_000)


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
        "from_destination": 0, "offset": 5, "length": 3, "last_bytes": 0, "chase": 1, "after": 0,
        "copy": 0, "copy_offset": 0, "step": 0, "configuration": 0,
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


def test_a_message_off_the_ring_is_refused() -> None:
    """A ring's port leads to the next coordinate; an all-to-all also keeps a block at home."""
    where = platform(RING)
    plan = plan_collective(Collective(Operation.ALL_TO_ALL, 128, dims=(0,)), where, chunks=1)
    with pytest.raises(
        InputError,
        match=r"^the port of dim 1, a Ring, must send from coordinate 2 to 3, not to 2: "
        r"the engine has no all-to-all of this algorithm$",
    ):
        compiler(where, 2).compile(plan, collective=0, source=0, result=64)


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
    assert len(table.entries) == 9
    with pytest.raises(
        ValueError,
        match=r"^flow \(0, 1\) > \(0, 1\) of fp16 sum must be in the configuration memory, "
        r"which holds 9 entries$",
    ):
        table.index(((0, 1), (0, 1)), "fp16", "sum")


def test_platform_refuses_what_has_no_rtl() -> None:
    with pytest.raises(ValueError, match=r"^the bandwidth of dim 2 must be at most one flit per "):
        Platform.from_topology(Topology((RING, replace(FRED, bandwidth=Fraction(21 * 10**9)))))
    with pytest.raises(
        ValueError, match=r"^dim 1 must be a Ring or a Fred dim on this platform, not 'Switch'$"
    ):
        Platform.from_topology(Topology((replace(RING, kind=DimKind.SWITCH),)))


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

"""The record stream of the endpoint model is that of the record compiler."""

from fractions import Fraction

import pytest

from rtl.ace.layouts import RECORD_BYTES, RecordKind
from rtl.ace.parameters import AceParameters, DimParameters
from sim_top.platform.build import flow_tables
from sim_top.records import RecordCompiler
from sw_model.collective.plan import Collective, Operation
from sw_model.endpoint import programs
from sw_model.endpoint.fetch import FETCH
from sw_model.endpoint.programs import ProgramCompiler, Unit
from sw_model.platform import EngineParameters, Platform
from sw_model.schedule.options import PlanBook, ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology

UNITS = {
    RecordKind.PROGRAM: Unit.NONE,
    RecordKind.FENCE: Unit.FENCE,
    RecordKind.LOAD: Unit.LOAD,
    RecordKind.STORE: Unit.STORE,
}


def unit(record: int) -> int:
    kind = RecordKind(record & 15)
    return Unit.DIM + (record >> 4 & 15) if kind is RecordKind.OP else UNITS[kind]


@pytest.mark.parametrize("program_steps", [8, 256])
@pytest.mark.parametrize("scheduler", ["baseline", "themis"])
def test_the_same_records_in_the_same_order(scheduler, program_steps):
    topology = Topology(
        (
            Dim(DimKind.RING, 4, Fraction(20 * 10**9), 16000),
            Dim(DimKind.FRED, 4, Fraction(15 * 10**9), 24000),
        )
    )
    platform = Platform.from_topology(
        topology, engine=EngineParameters(program_steps=program_steps)
    )
    book = PlanBook(platform, ScheduleOptions(scheduler=scheduler, chunks=8))
    sequence = [
        Collective(Operation.ALL_REDUCE, 9408, dims=(0, 1)),
        Collective(Operation.REDUCE_SCATTER, 4096, dims=(0, 1)),
        Collective(Operation.ALL_GATHER, 512, dims=(1,)),
        Collective(Operation.ALL_REDUCE, 9408, data_type="int32", dims=(0, 1)),
        Collective(Operation.ALL_REDUCE, 9408, dims=(0, 1)),
    ]
    plans = [book.plan(number, collective) for number, collective in enumerate(sequence)]
    for rank in (0, 7, 15):
        reference = RecordCompiler(platform, rank, flow_tables(platform))
        model = ProgramCompiler(platform.engine, 2, rank)
        fences = 0
        for number, plan in enumerate(plans):
            expected = reference.compile(plan, collective=number, source=0, result=0)
            records, counters = model.compile(plan)
            assert [record.unit for record in records] == [unit(record) for record in expected]
            assert counters.descriptor_bytes == (len(expected) + 1) * RECORD_BYTES
            fences += sum(record.unit == Unit.FENCE for record in records)
        assert bool(fences) == (program_steps == 8)


def test_capacities_that_the_model_assumes_are_the_defaults_of_the_rtl():
    rtl = AceParameters(flit_bytes=16, dims=(DimParameters(grants=True),), sram_flits=64, buffers=2)
    assert programs.RECORD_BYTES == RECORD_BYTES
    for name in (
        "descriptor_burst",
        "descriptor_window",
        "burst_beats",
        "read_beats",
        "write_beats",
    ):
        assert getattr(FETCH, name) == getattr(rtl, name)

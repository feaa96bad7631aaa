"""Faults in blocks that others are made of, which their own benches must notice."""

import pytest

from sim_top.simulator import simulate
from sim_top.simulator.run import SimulationError
from testbenches.register_table import TABLE
from tests.mutants import mutant

pytestmark = pytest.mark.full

PORT = {"users": 3, "address_bits": 7, "flit_bytes": 2}
WRITES = {"users": 3, "writes": 8, "run": 4}
_LITE = {"address_bits": 12}
_TURNS = {"askers": 3, "bound": 3}

#: Module, component, its bench, the component's parameters, what the bench is told, and faults.
BLOCKS = [
    ("rtl.common.turns", "Turns", "tb_turns", _TURNS, _TURNS, [
        # an offer that is displaced; one more passes; those that are due not in turn; a count that
        # stays
        ("Mux(self.offered & ~self.taken, self.turn, 0)", "0"),
        ("urgent[number].eq(passed == self.bound)", "urgent[number].eq(passed + 1 == self.bound)"),
        ("Mux((due & behind).any(), due & behind, due)", "due"),
        ("m.d.sync += passed.eq(0)", "pass"),
        ("Mux(self.offered & ~self.taken, self.turn, 0)", "Mux(~self.taken, self.turn, 0)"),
    ]),
    ("rtl.ace.sram_share", "SramReadShare", "tb_ace_sram_share", PORT, PORT | {"kind": "read"}, [
        # answers to all, a cycle early; an offer that may be displaced
        ("user.valid.eq(self.port.valid & whose[number])", "user.valid.eq(self.port.valid)"),
        ("range(SRAM_READ_LATENCY)", "range(SRAM_READ_LATENCY - 1)"),
        ("turns.offered.eq(port.request.valid)", "turns.offered.eq(0)"),
    ]),
    ("rtl.ace.sram_share", "SramWriteShare", "tb_ace_sram_share", PORT, PORT | {"kind": "write"}, [
        # taken where the port does not take; turns that are not counted
        ("user.request.ready.eq(port.request.ready)", "user.request.ready.eq(1)"),
        ("turns.taken.eq(port.request.valid & port.request.ready)", "turns.taken.eq(0)"),
    ]),
    ("rtl.ace.memory_write", "MemoryWriteArbiter", "tb_ace_memory_write",
     WRITES | {"flit_bytes": 2}, WRITES, [
        # no runs; runs without end, or one flit longer; a gap that ends none; a flit more than may
        # be outstanding; acknowledgements to all
        ("stays.eq(turns.asks & last)", "stays.eq(0)"),
        ("(length == self.run - 1)", "0"),
        ("Mux(stays.any(), length + 1, 1)", "Mux(stays.any(), length + 1, 0)"),
        ("m.d.sync += last.eq(0)", "pass"),
        ("depth=self.writes)", "depth=self.writes + 1)"),
        ("self.memory.acknowledged & (owners.o.payload == number)", "self.memory.acknowledged"),
    ]),
    ("rtl.axi.lite_port", "AxiLitePort", "tb_axi_lite_port", _LITE, {}, [
        # the address before its data; a partial write that is done; a refusal that is not said;
        # bytes of an address; a response that is withdrawn; an access while one is under way
        ("bus.awready.eq(write)", "bus.awready.eq(~writing)"),
        ("access.write.eq(write & bus.wstrb.all())", "access.write.eq(write)"),
        ("Mux(access.read_refused, Response.SLVERR, Response.OKAY)", "Response.OKAY"),
        ("access.read_address.eq(bus.araddr & ~3)", "access.read_address.eq(bus.araddr)"),
        ("bus.rvalid & bus.rready", "bus.rvalid"),
        ("bus.awvalid & bus.wvalid & ~writing", "bus.awvalid & bus.wvalid"),
    ]),
    ("rtl.axi.register_file", "RegisterFile", "tb_register_file", {"table": TABLE}, {}, [
        # a refusal that counts for nothing; bits that are not there; a high half of now; reads of
        # everything; a queue that is not popped; a write that is over too soon
        ("self.written[register.name][number].eq(hit & ~refuse)",
         "self.written[register.name][number].eq(hit)"),
        ("access.write_data & _mask(register)", "access.write_data"),
        ("rows.append((hit, high, None))", "rows.append((hit, value[32:], None))"),
        ("access.read_refused.eq(~Cat(known).any())", "access.read_refused.eq(0)"),
        ("self.taken[register.name].eq(hit)", "self.taken[register.name].eq(0)"),
        ("access.write_done.eq(begun)", "access.write_done.eq(access.write)"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "component", "bench", "shape", "told", "old", "new"),
    [(*block, *fault) for *block, faults in BLOCKS for fault in faults],
)
def test_a_fault_is_noticed(module, component, bench, shape, told, old, new):
    broken = getattr(mutant(module, old, new), component)(**shape)
    with pytest.raises(SimulationError):
        simulate(
            broken,
            testbench=f"testbenches.{bench}",
            simulator="icarus",
            parameters=told,
        )

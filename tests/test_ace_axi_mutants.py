"""Faults in the protection of the engine, and on its AXI ports, that the benches must notice."""

import importlib

import pytest

from sim_top.simulator import run_cocotb
from sim_top.simulator.run import SimulationError
from tests.ace_axi_models import ENGINE, EXPECTED, model
from tests.mutants import mutant

pytestmark = pytest.mark.full

FAULTS = [
    # given up, and not said; still read; still written; the last mark counts; what comes is kept
    ("ace.dim_engine", "TxUnit", "ace.tx_unit", "header.poisoned.eq(self.query.void)",
     "header.poisoned.eq(0)", "refusals"),
    ("ace.lane", "TxDma", "ace.tx_dma", "(self.query.void & ~begun & ~offered) | ", "",
     "refusals"),
    ("ace.lane", "RxDma", "ace.rx_dma", "self.query.void & (index == 0) & ~offered", "0",
     "refusals"),
    ("ace.lane", "CollectiveTable", "ace.collective_table", " & ~void[entry]", "", "refusals"),
    # a region that ends a flit later; a beat, a response, a descriptor with an error
    ("ace.record_guard", "behind_limits", "ace.regions", "region.limit + 1", "region.limit + 2",
     "refusals"),
    ("ace.lane", "TxDma", "ace.tx_dma", "beat & self.failed", "0", "memory_errors"),
    ("axi.endpoint", "AxiWriteMaster", "axi.write_master", "self.failed.eq(bus.bresp[1])",
     "self.failed.eq(0)", "memory_errors"),
    ("ace.lane", "DescriptorFetch", "ace.descriptor_fetch", "first_bad | beats.payload.bad",
     "0", "memory_errors"),
    # bursts: across 4 KiB, one too many; a reset that does not wait; what is from before it
    ("axi.endpoint", "AxiReadMaster", "axi.read_master", "Mux(left < most, left, most)", "most",
     "collective"),
    ("axi.endpoint", "AxiReadMaster", "axi.read_master", "(outstanding != p.reads)", "1",
     "collective"),
    ("axi.endpoint", "AxiReadMaster", "axi.read_master", "(outstanding == 0) & ~bus.arvalid", "1",
     "resets"),
    ("axi.endpoint", "AxiLinkPort", "axi.link_port", "| is_sync | ~receive_sync.up",
     "| is_sync", "resets"),
]  # fmt: skip


@pytest.mark.parametrize(("parent", "name", "module", "old", "new", "testcase"), FAULTS)
def test_a_fault_is_noticed(monkeypatch, parent, name, module, old, new, testcase):
    changed = mutant(f"rtl.{module}", old, new)
    parent_module = importlib.import_module(f"rtl.{parent}")
    monkeypatch.setattr(parent_module, name, getattr(changed, name))
    bench = "tb_ace_axi" if testcase == "collective" else "tb_ace_protection"
    work = {"operation": "ar", "chunk_flits": 12, "chunks": 6, "turns": 6}
    if testcase == "resets":  # what is under way when one comes stays so for a while
        work["stall"] = 30
    with pytest.raises(SimulationError):
        run_cocotb(
            model.__wrapped__(2, "icarus"),
            module=f"testbenches.{bench}",
            testcase=testcase,
            parameters={
                "ranks": 2,
                "expected": EXPECTED,
                "packet_flits": ENGINE.packet_flits,
                "data_type": "INT32",
                "shift": 230,
            }
            | work,
        )

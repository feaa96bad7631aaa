"""The AXI4 masters (see the bench)."""

import pytest

from rtl.axi.parameters import AxiParameters
from rtl.axi.read_master import AxiReadMaster
from rtl.axi.write_master import AxiWriteMaster
from sim_top.simulator import simulate

AXI = AxiParameters(burst_beats=8)


def run(component, testcase):
    simulate(
        component,
        testbench="testbenches.tb_axi_masters",
        testcase=testcase,
        simulator="icarus",
    )


def test_reads():
    run(AxiReadMaster(flit_bytes=16, axi=AXI), "reads_are_cut_and_flow")


@pytest.mark.parametrize("testcase", ["writes_are_gathered_and_flow", "bursts_end_where_they_must"])
def test_writes(testcase):
    run(AxiWriteMaster(flit_bytes=16, axi=AXI), testcase)

"""Faults in rtl.fred that the benches must notice."""

import pytest

import rtl.fred.interconnect
import rtl.fred.switch
from rtl.common.packet import DataType, Operator
from rtl.fred.switch import FredSwitch
from sim_top.simulator import simulate
from sim_top.simulator.run import SimulationError
from tests.mutants import mutant

pytestmark = pytest.mark.full

RANDOM = "random_traffic_under_stalls_on_both_sides"
LINE_RATE = "every_port_moves_a_flit_in_every_cycle"
FAULTS = [
    # a swapped way, a broadcast that reaches one side, a header that is summed
    ("interconnect", "ReduceSwitch", "micro_switch", "side == way + 1", "side == way", RANDOM),
    ("interconnect", "DistributeSwitch", "micro_switch", "_hear(m, self.i, self.mode[side],",
     "_hear(m, self.i, self.mode[0],", RANDOM),
    ("interconnect", "ReduceDistributeSwitch", "micro_switch",
     "CentreMode.ADD_BOTH: (both, both)", "CentreMode.ADD_BOTH: (both, first)", LINE_RATE),
    ("interconnect", "ReduceSwitch", "micro_switch",
     "with m.If(~around[0].flit.head):", "with m.If(1):", LINE_RATE),
    # credits: a packet takes one too few, one comes back twice
    ("switch", "OutputAccount", "output_account", "+ self.credit - self.reserve",
     "+ self.credit - self.reserve + 1",
     "a_packet_needs_credit_for_all_its_flits_at_every_output"),
    # the scheduler: a bubble, headers that are not compared, the later op first, no drain
    ("switch", "FlowScheduler", "scheduler", "throwing[p]) | (go[p] & last))", "throwing[p]))",
     LINE_RATE),
    ("switch", "FlowScheduler", "scheduler", 'if name != "replay"', 'if name == "op"',
     "headers_that_differ_elsewhere_are_all_thrown_away"),
    ("switch", "FlowScheduler", "scheduler", "higher | (equal & earlier[p][q])",
     "higher | (equal & earlier[q][p])", "the_earlier_op_goes_first"),
    ("switch", "FlowScheduler", "scheduler", "proceed.eq(stay | ~busy)", "proceed.eq(1)", RANDOM),
    # a lost last, a packet longer than its header says
    ("switch", "InputChannel", "input_channel", "flits.i.payload.last.eq(left == 1)",
     "flits.i.payload.last.eq(0)", LINE_RATE),
    ("switch", "InputChannel", "input_channel", "filling.eq(flit.last)", "filling.eq(0)",
     "a_packet_of_the_wrong_number_of_flits_keeps_its_promise"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("user", "name", "module", "old", "new", "testcase"),
    FAULTS,
    ids=[f"{name}-{number}" for number, (_, name, *_) in enumerate(FAULTS)],
)
def test_faults_of_the_switch_are_caught(monkeypatch, user, name, module, old, new, testcase):
    faulty = getattr(mutant(f"rtl.fred.{module}", old, new), name)
    monkeypatch.setattr(getattr(rtl.fred, user), name, faulty)
    options = {
        "ports": 4,
        "middle_copies": 3,
        "flit_bytes": 16,
        "packet_bytes": 64,
        "adder_depth": 2,
        "configurations": 5,
        "input_depth": 24,
        "output_credits": 40,
    }
    switch = FredSwitch(
        data_types=frozenset({DataType.FP16, DataType.INT32}),
        operators=frozenset({Operator.SUM}),
        **options,
    )
    with pytest.raises(SimulationError):
        simulate(
            switch,
            testbench="testbenches.tb_fred_switch",
            testcase=testcase,
            parameters={**options, "data_types": ["fp16", "int32"], "ops": 60, "rate": [1, 1]},
        )

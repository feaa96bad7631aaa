"""Faults in rtl.fred that the benches must notice."""

import pytest

import rtl.fred.interconnect
import rtl.fred.scheduler
import rtl.fred.switch
from rtl.common.packet import DataType, Operator
from rtl.fred.switch import FredSwitch
from sim_top.simulator import simulate
from sim_top.simulator.run import SimulationError
from tests.mutants import mutant
from tests.test_fred_classes import CONTROL_OPTIONS
from tests.test_fred_classes import run as run_classes

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
     "with m.If(around[0].flit.head):", "with m.If(0):", LINE_RATE),
    # credits: a packet takes one too few, one comes back twice
    ("switch", "OutputAccount", "output_account", "+ credit - taken", "+ credit - taken + 1",
     "a_packet_needs_credit_for_all_its_flits_at_every_output"),
    # the scheduler: a bubble, headers that are not compared, the later op first, no drain
    ("switch", "FlowScheduler", "scheduler", "keeps_on[k].eq(moving[k] & ~(go[k] & last))",
     "keeps_on[k].eq(moving[k])", LINE_RATE),
    ("scheduler", "FlowMatcher", "matcher", "if name not in free", 'if name == "op"',
     "headers_that_differ_elsewhere_are_all_thrown_away"),
    ("scheduler", "FlowMatcher", "matcher", "higher | (equal & earlier[p][q])",
     "higher | (equal & earlier[q][p])", "the_earlier_op_goes_first"),
    ("switch", "FlowScheduler", "scheduler", "(~busy & (chosen", "((chosen", RANDOM),
    # a lost last, a packet longer than its header says
    ("switch", "InputChannel", "input_channel", "flits.i.payload.last.eq(left == 1)",
     "flits.i.payload.last.eq(0)", LINE_RATE),
    ("switch", "InputChannel", "input_channel", "filling.eq(flit.last)", "filling.eq(0)",
     "a_packet_of_the_wrong_number_of_flits_keeps_its_promise"),
]  # fmt: skip


CLASS_FAULTS = [
    # priority and bound: another channel first, one packet too many, a bound that is forgotten
    ("switch", "FlowScheduler", "scheduler", "chosen.eq(candidates & -candidates)",
     "chosen.eq(Mux(candidates[-1], 1 << self.channels - 1, candidates & -candidates))",
     "the_higher_class_goes_first_without_a_gap"),
    ("switch", "FlowScheduler", "scheduler", "left.eq(self.starvation_bound), fresh.eq(0)",
     "left.eq(self.starvation_bound - 1), fresh.eq(0)", "a_lower_class_passes_once_in_n_packets"),
    ("switch", "FlowScheduler", "scheduler",
     "Mux(due.any(), Mux((due & behind).any(), due & behind, due), waits)", "waits",
     "a_lower_class_passes_once_in_n_packets"),
    # classes that hold each other: one way for all, credits in one pot, what lies behind a fault
    ("switch", "FlowScheduler", "scheduler", "& ~self._of(hidden, c)", "",
     "what_lies_behind_a_faulty_packet_starts_after_its_end"),
    ("switch", "OutputAccount", "output_account", "self._count(m, self.credit[c],",
     "self._count(m, self.credit[0],", "a_class_without_credit_holds_no_other"),
    ("switch", "ConfigurationMemory", "configuration", "& ~self.idle[channel])",
     "& ~self.idle.all())", "an_entry_is_replaced_while_its_classes_are_idle"),
    ("switch", "InputChannel", "input_channel", "~own", "0",
     "errors_name_class_and_port_and_only_that_class_is_touched"),
]  # fmt: skip
ERROR_CASES = {
    "what_lies_behind_a_faulty_packet_starts_after_its_end",
    "an_entry_is_replaced_while_its_classes_are_idle",
    "errors_name_class_and_port_and_only_that_class_is_touched",
}
CONTROL_FAULTS = [
    ("credits - 1, credits + 1", "credits - 1, credits + 2",
     "random_control_and_data_under_stalls"),
    ("able & (passed == self.starvation_bound)", "0 & able",
     "data_at_full_load_lets_control_through_within_the_bound"),
    ("(self.claim[o] | ~self.data[o])", "1", "random_control_and_data_under_stalls"),
    ("Mux((asks & after).any(), asks & after, asks)", "asks",
     "inputs_of_one_output_take_turns"),
    ("depth=self.delay + 1", "depth=self.delay", "every_input_reaches_every_output_in_time"),
    ("with m.If(go & flit.last):", "with m.If(go):", "every_input_reaches_every_output_in_time"),
    ("serving[p].eq(1), throwing[p].eq(discard)", "serving[p].eq(1), throwing[p].eq(0)",
     "faulty_control_packets_are_reported_and_thrown_away"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("user", "name", "module", "old", "new", "testcase"),
    CLASS_FAULTS,
    ids=[f"{name}-{number}" for number, (_, name, *_) in enumerate(CLASS_FAULTS)],
)
def test_faults_of_the_classes_are_caught(monkeypatch, user, name, module, old, new, testcase):
    faulty = getattr(mutant(f"rtl.fred.{module}", old, new), name)
    monkeypatch.setattr(getattr(rtl.fred, user), name, faulty)
    with pytest.raises(SimulationError):
        run_classes(
            "fred_class_errors" if testcase in ERROR_CASES else "fred_classes", testcase=testcase
        )


@pytest.mark.parametrize(("old", "new", "testcase"), CONTROL_FAULTS)
def test_faults_of_the_control_path_are_caught(monkeypatch, old, new, testcase):
    faulty = mutant("rtl.fred.control_path", old, new)
    monkeypatch.setattr(rtl.fred.switch, "ControlCrossbar", faulty.ControlCrossbar)
    with pytest.raises(SimulationError):
        run_classes("fred_control", testcase=testcase, **CONTROL_OPTIONS)


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

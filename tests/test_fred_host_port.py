"""rtl.fred.host_port: entries by words of 32 bits."""

import re

import pytest
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.fred.configuration import Refusal, request_layout
from rtl.fred.host_port import ConfigurationWriter, word_layout
from sim_top.simulator import simulate
from sim_top.simulator.run import SimulationError
from sw_model.fred.table import HOST_WORD_BITS, entry_bits
from testbenches.fred_hosted import HostedMemory
from tests.mutants import mutant


def run(ports=4, middle_copies=3, simulator="icarus", make=ConfigurationWriter):
    simulate(
        make(ports=ports, middle_copies=middle_copies),
        testbench="testbenches.tb_fred_host_port",
        simulator=simulator,
        parameters={"ports": ports, "middle_copies": middle_copies},
    )


def test_signature():
    writer = ConfigurationWriter(ports=5, middle_copies=2)
    assert writer.words == -(-entry_bits(5, 2) // HOST_WORD_BITS)
    assert writer.signature == wiring.Signature(
        {
            "write": In(stream.Signature(word_layout(writer.words))),
            "configure": Out(stream.Signature(request_layout(5, 2))),
            "configured": In(1),
            "refusal": In(Refusal),
            "busy": Out(1),
            "result": Out(Refusal),
            "committed": Out(16),
        }
    )
    assert (writer.ports, writer.middle_copies) == (5, 2)


@pytest.mark.parametrize(
    ("ports", "copies", "message"),
    [
        (1, 2, "ports must be an integer in 2..64, not 1"),
        (65, 2, "ports must be an integer in 2..64, not 65"),
        (4, 1, "middle_copies must be an integer of at least 2, not 1"),
    ],
)
def test_wrong_parameters(ports, copies, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ConfigurationWriter(ports=ports, middle_copies=copies)


def test_writing():
    run()


@pytest.mark.parametrize(
    ("ports", "copies"),
    [
        (5, 2),
        (4, 3),  # every code of an edge switch is a mode
        pytest.param(2, 2, marks=pytest.mark.full),
        pytest.param(7, 4, marks=pytest.mark.full),
        pytest.param(3, 7, marks=pytest.mark.full),
    ],
)
def test_in_front_of_a_memory(ports, copies):
    given = {"ports": ports, "middle_copies": copies, "entries": 6}
    simulate(HostedMemory(**given), testbench="testbenches.tb_fred_hosted", parameters=given)


@pytest.mark.full
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize(("ports", "copies"), [(2, 2), (3, 2), (12, 3), (64, 3)])
def test_other_sizes(ports, copies, simulator):
    run(ports, copies, simulator)


@pytest.mark.full
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("offered.eq(~given.word[INDEX_BITS:].any())", "offered.eq(1)"),
        ("self.write.ready.eq(~self.busy)", "self.write.ready.eq(1)"),
        ("with m.If(~given.commit & (given.number == number)):",
         "with m.If(given.number == number):"),
        ("self.result.eq(self.refusal)", "self.result.eq(Refusal.NONE)"),
        ("Cat(words)[: len(entry)]", "Cat(words[::-1])[: len(entry)]"),
    ],
)  # fmt: skip
def test_faults_are_caught(old, new):
    faulty = mutant("rtl.fred.host_port", old, new)
    with pytest.raises(SimulationError):
        run(make=faulty.ConfigurationWriter)

"""Faults in the engine's core that the benches must notice."""

import pytest

from sim_top.simulator import simulate
from sim_top.simulator.run import SimulationError
from tests import test_ace_dim_engine
from tests.mutants import mutant
from tests.test_ace_dma import ACE_TIMING, RX, TX

pytestmark = pytest.mark.full

SRAM = {"flit_bytes": 16, "depth": 64, "banks": 4, "readers": 2, "writers": 2}
BOARD = {"buffers": 6, "writers": 3, "readers": 2}
FORWARD = {"depth": 16, "contexts": 2, "address_bits": 14, "flit_bytes": 16}

#: Component, its module, its parameters, what more its bench needs, and faults of it.
PARTS = {
    "sram": ("Sram", SRAM, {"depth": 64, "banks": 4}, [
        # a quick stream follows a slow one; who won wins again; a refusal that is not counted
        ("(theirs | ~mine if other < number else theirs & ~mine)",
         "(~mine | mine if other < number else mine & 0)"),
        ("m.d.sync += lost[number].eq(~port.ready)", "m.d.sync += lost[number].eq(port.ready)"),
        ("self.collisions.eq(sum(refused))", "self.collisions.eq(refused[0])"),
    ]),
    "scoreboard": ("Scoreboard", BOARD, BOARD, [
        # seven bits of a count; an event lost where two meet; a use too soon
        ("unsigned(EPOCH_BITS), self.buffers)", "unsigned(EPOCH_BITS - 1), self.buffers)"),
        ("for event in events)", "for event in list(events)[:1])"),
        ('("fills", self.fill, self.filled, 1)', '("fills", self.fill, self.filled, 0)'),
    ]),
    "forward_buffer": ("ForwardBuffer", FORWARD, FORWARD, [
        # what is no forward; another flit; one that has just come; one behind another; the flit
        # before; an answer too soon
        ("                    reading.chase\n                    & whole",
         "                    whole"),
        ("Mux(wanted[0], *row) == address,", "1,"),
        ("with m.If(begins):", "with m.If(0):"),
        ("& Mux(taken, kept[1], kept[0])", "& kept[0]"),
        ("begin[received.context][step].eq(first_place)",
         "begin[received.context][step].eq(first_place - 1)"),
        ("answered.eq(found)]", "answered.eq(request.valid & here)]"),
    ]),
    "tx_dma": ("TxDma", TX, TX, [
        # the padding of a last flit; one flit too few
        ("number < current.last_bytes", "number <= current.last_bytes"),
        ("last.eq(following == current.length)", "last.eq(following + 1 == current.length)"),
    ]),
    "rx_dma": ("RxDma", RX, RX | {
        "store_read": ACE_TIMING.store_read, "completion": ACE_TIMING.completion}, [
        # completion without acknowledgement; a byte too many
        ("waiting.i.payload.issued.eq(issued + read)", "waiting.i.payload.issued.eq(issued)"),
        ("(result.tag.end > number)", "(result.tag.end >= number)"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [(module, *fault) for module, (*_, faults) in PARTS.items() for fault in faults],
)
def test_a_fault_of_a_part_is_noticed(module, old, new):
    name, built, told, _ = PARTS[module]
    faulty = getattr(mutant(f"rtl.ace.{module}", old, new), name)
    with pytest.raises(SimulationError):
        simulate(faulty(**built), testbench=f"testbenches.tb_ace_{module}", parameters=told)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # where a message is read, and where its copy goes
        ("Mux(fetched.from_destination, from_destination, from_source)", "from_source"),
        ("buffers.destination_address + fetched.copy_offset", "buffers.destination_address"),
    ],
)
def test_a_wrong_address_of_a_message_is_noticed(monkeypatch, old, new):
    changed = mutant("rtl.ace.send_steps", old, new)
    monkeypatch.setattr("rtl.ace.tx_unit.SendSteps", changed.SendSteps)
    with pytest.raises(SimulationError):
        test_ace_dim_engine.test_dim_engine(4, True)

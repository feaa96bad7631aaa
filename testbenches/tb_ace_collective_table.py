"""The table of collectives against a dictionary."""

import cocotb

from testbenches import parameters, random_generator
from testbenches.bench import Bench


def _idle(dut, queries, marks):
    dut.begin__valid.value = 0
    dut.begin__payload.value = 0
    dut.ended.value = 0
    dut.ending.value = 0
    for number in range(queries):
        getattr(dut, f"query__{number}__collective").value = 0
    for number in range(marks):
        for name in ("valid", "collective", "status"):
            getattr(dut, f"mark__{number}__{name}").value = 0


@cocotb.test()
async def random_life(dut):
    """Begins, marks, queries and ends of few ids at random, several in one cycle."""
    p = parameters()
    entries, queries, marks = p["entries"], p["queries"], p["marks"]
    generator = random_generator("collective table")
    bench = Bench(dut)
    _idle(dut, queries, marks)
    await bench.reset()
    at_work: dict[int, int] = {}
    refused = {"full": 0, "twice": 0}
    ids = [0, 1, 2, 3, 0x1234, 0xFFFF]
    for _ in range(2000):
        begin = (generator.choice(ids), generator.choice((0, 0, 3)))
        beginning = generator.random() < 0.4
        dut.begin__valid.value = int(beginning)
        dut.begin__payload.value = begin[0] | begin[1] << 16
        asked = [generator.choice(ids) for _ in range(queries)]
        for number, collective in enumerate(asked):
            getattr(dut, f"query__{number}__collective").value = collective
        marking = []
        for number in range(marks):
            mark = (generator.random() < 0.15, generator.choice(ids), generator.randrange(1, 10))
            for name, value in zip(("valid", "collective", "status"), mark, strict=True):
                getattr(dut, f"mark__{number}__{name}").value = int(value)
            marking.append(mark)
        ending, ended = generator.choice(ids), generator.random() < 0.25
        dut.ending.value = ending
        dut.ended.value = int(ended)
        await cocotb.triggers.FallingEdge(dut.clk)

        takes = len(at_work) < entries and begin[0] not in at_work
        assert int(dut.begin__ready.value) == takes
        for number, collective in enumerate(asked):
            void = getattr(dut, f"query__{number}__void")
            assert int(void.value) == (at_work.get(collective, 0) != 0)
        assert int(dut.status.value) == at_work.get(ending, 0)

        refused["full"] += len(at_work) == entries
        refused["twice"] += beginning and begin[0] in at_work
        for valid, collective, status in marking:
            if valid and at_work.get(collective) == 0:
                at_work[collective] = status
        if ended:
            at_work.pop(ending, None)
        if beginning and takes:
            at_work[begin[0]] = begin[1]
        await cocotb.triggers.RisingEdge(dut.clk)
        await cocotb.triggers.Timer(1, "step")
    assert min(refused.values()) > 20, refused

"""The bare interconnect against the reduction trees of the model, cycle by cycle.

Parameters: ``ports``, ``middle_copies``, ``flit_bytes``, ``latency``, ``data_types``, and
``flows``: "all" for every flow set of that many ports, or how many random ones.
"""

from collections.abc import Iterator

import cocotb

from sw_model.fred.configuration import Configuration
from sw_model.fred.reduction import evaluate
from sw_model.fred.routing import route
from sw_model.fred.table import OPERATOR_CODES, TYPE_CODES
from testbenches import parameters, random_generator
from testbenches.bench import Bench
from testbenches.fred_flows import all_flow_sets, routed
from testbenches.fred_lanes import Lane, LaneChecker, LaneDriver, combine, random_data

BEATS = 2
"""Cycles for which a configuration holds, at most."""


@cocotb.test()
async def every_flow_at_one_flit_a_cycle_with_modes_changing_at_any_time(dut):
    given = parameters()
    ports, copies, flit_bytes = given["ports"], given["middle_copies"], given["flit_bytes"]
    generator = random_generator("lanes")
    types = tuple(given["data_types"])
    if given["flows"] == "all":
        outcomes = [route(ports, copies, flows) for flows in all_flow_sets(ports)]
        configurations = [c for c in outcomes if isinstance(c, Configuration)]
    else:
        configurations = routed(generator, ports, copies, given["flows"], data_types=types)
    generator.shuffle(configurations)
    by_word = {c.modes_word(): c for c in configurations}

    def beats_each() -> int:
        return 1 if given["flows"] == "all" else generator.randint(1, BEATS)

    def beats() -> Iterator[tuple[int, dict[int, Lane]]]:
        for configuration in configurations:
            word = configuration.modes_word()
            for _ in range(beats_each()):
                lanes = {}
                for flow in configuration.flows:
                    if generator.random() < 0.1:
                        continue  # this flow pauses, the others go on
                    head, last = generator.random() < 0.15, generator.random() < 0.15
                    data_type = flow.data_type if len(types) == 1 else generator.choice(types)
                    for port in flow.inputs:
                        lanes[port] = Lane(
                            random_data(generator, flit_bytes, data_type),
                            head,
                            last,
                            TYPE_CODES[data_type],
                            OPERATOR_CODES["sum"],
                        )
                yield word, lanes
        while True:
            yield 0, {}

    inputs = [getattr(dut, f"i__{port}") for port in range(ports)]
    outputs = [getattr(dut, f"o__{port}") for port in range(ports)]
    add = combine(flit_bytes)

    def model(word: int, lanes: dict[int, Lane]) -> dict[int, Lane]:
        return evaluate(by_word[word], lanes, add) if lanes else {}

    source = beats()
    bench = Bench(dut)
    bench.add(LaneDriver(inputs, dut.modes, lambda: next(source), flit_bytes))
    checker = bench.add(
        LaneChecker(inputs, dut.modes, outputs, given["latency"], model, flit_bytes)
    )
    await bench.reset()
    await bench.step(BEATS * len(configurations) + given["latency"] + 2)
    assert checker.checked >= len(configurations)

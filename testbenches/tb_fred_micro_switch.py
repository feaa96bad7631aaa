"""One micro-switch in every mode, cycle by cycle.

Parameters: ``kind`` (R, D, RD, demux, mux), ``middle_copies``, ``flit_bytes``, ``latency``,
``data_types``, ``operators``, ``cycles``.
"""

import cocotb

from sw_model.fred.modes import CentreMode, Kind, mode_bits, mode_from_code
from sw_model.fred.table import OPERATOR_CODES, TYPE_CODES
from testbenches import parameters, random_generator
from testbenches.bench import Bench
from testbenches.fred_lanes import Lane, LaneChecker, LaneDriver, combine, random_data


def sources_of(kind, copies, code):
    """For every output the inputs that the mode combines into it."""
    mode = mode_from_code(kind, copies, code)
    if isinstance(mode, CentreMode):
        return mode.sources
    if kind in (Kind.REDUCE, Kind.DEMULTIPLEX):
        return [tuple(s for s, way in enumerate(mode) if way == copy) for copy in range(copies)]
    return [() if way is None else (way,) for way in mode]


@cocotb.test()
async def every_mode_in_every_order(dut):
    given = parameters()
    kind, copies, flit_bytes = Kind(given["kind"]), given["middle_copies"], given["flit_bytes"]
    generator = random_generator("lanes")
    codes = []
    for code in range(1 << mode_bits(kind, copies)):
        try:
            mode_from_code(kind, copies, code)
        except ValueError:
            continue
        codes.append(code)
    sides = {Kind.DISTRIBUTE: copies, Kind.MULTIPLEX: copies, Kind.DEMULTIPLEX: 1}.get(kind, 2)
    seen = set()

    def plan():
        code = generator.choice(codes)
        seen.add(code)
        head, last = generator.random() < 0.1, generator.random() < 0.1
        data_type = generator.choice(given["data_types"])
        operator = generator.choice(given["operators"])
        lanes = {}
        # Idle inputs, and inputs that the mode does not let through, must leave no trace; a
        # reduction whose operands do not come together must give nothing.
        for side in range(sides):
            if generator.random() < 0.8:
                lanes[side] = Lane(
                    random_data(generator, flit_bytes, data_type),
                    head,
                    last,
                    TYPE_CODES[data_type],
                    OPERATOR_CODES[operator],
                )
        return code, lanes

    add = combine(flit_bytes)

    def model(code, lanes):
        outputs = {}
        for output, wanted in enumerate(sources_of(kind, copies, code)):
            if wanted and all(side in lanes for side in wanted):
                operands = [lanes[side] for side in wanted]
                outputs[output] = operands[0] if len(operands) == 1 else add(*operands)
        return outputs

    def ports(name, several):
        if hasattr(dut, name):
            return [getattr(dut, name)]
        return [getattr(dut, f"{name}__{k}") for k in range(several)]

    inputs = ports("i", sides)
    outputs = ports("o", copies if kind in (Kind.REDUCE, Kind.DEMULTIPLEX) else 2)
    bench = Bench(dut)
    bench.add(LaneDriver(inputs, dut.mode, plan, flit_bytes))
    checker = bench.add(LaneChecker(inputs, dut.mode, outputs, given["latency"], model, flit_bytes))
    await bench.reset()
    await bench.step(given["cycles"])
    assert seen == set(codes)
    assert checker.checked > given["cycles"] // 4

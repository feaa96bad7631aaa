"""ReduceFlit: exact latency, hold, validity and reset, with every type and operator mixed.

Values are tested by the million in ``tests/test_arith_values.py``; this bench tests the pipeline.
Parameters: ``flit_bytes``, ``depth``, ``data_types``, ``operators`` (codes).
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import cocotb
import numpy as np

from rtl.common.packet import DataType, Operator
from sw_model.collective.numerics import element_type, reduce
from testbenches import parameters, random_generator
from testbenches.bench import Bench, Part

_PARAMETERS = parameters()
FLIT_BYTES = _PARAMETERS.get("flit_bytes", 16)
DEPTH = _PARAMETERS.get("depth", 1)
DATA_TYPES = [DataType(code) for code in _PARAMETERS.get("data_types", [0])]
OPERATORS = [Operator(code) for code in _PARAMETERS.get("operators", [0])]


def expected(a: int, b: int, data_type: DataType, operator: Operator) -> int:
    """The result flit by the reference."""
    kind = element_type(data_type.name.lower())
    x, y = (np.frombuffer(v.to_bytes(FLIT_BYTES, "little"), kind.storage) for v in (a, b))
    return int.from_bytes(reduce(x, y, kind.name, operator.name.lower()).tobytes(), "little")


class Driver(Part):
    """Random operands; valid and enable by chance. Left alone otherwise."""

    def __init__(self, dut: Any, generator: random.Random, *, valid: float, enable: float):
        self.dut, self.generator = dut, generator
        self.valid, self.enable = valid, enable

    def drive(self, cycle: int) -> None:
        """New inputs in every cycle, also where they do not count."""
        dut, generator = self.dut, self.generator
        dut.a.value = generator.getrandbits(8 * FLIT_BYTES)
        dut.b.value = generator.getrandbits(8 * FLIT_BYTES)
        dut.data_type.value = int(generator.choice(DATA_TYPES))
        dut.operator.value = int(generator.choice(OPERATORS))
        dut.valid.value = int(generator.random() < self.valid)
        dut.enable.value = int(generator.random() < self.enable)


class Checker(Part):
    """A shift register of expected results, moved by what the wires show."""

    def __init__(self, dut: Any):
        self.dut = dut
        self.clear()

    def clear(self) -> None:
        """As after a reset."""
        self.stages: deque[int | None] = deque([None] * DEPTH, maxlen=DEPTH)
        self.results = 0

    def sample(self, cycle: int) -> None:
        """The output is that of the operands ``DEPTH`` enabled cycles ago, and holds else."""
        dut = self.dut
        due = self.stages[-1]
        assert int(dut.o_valid.value) == (due is not None), f"o_valid in cycle {cycle}"
        if due is not None:
            assert int(dut.o.value) == due, f"{int(dut.o.value):x}, not {due:x}, in cycle {cycle}"
            self.results += 1
        if int(dut.enable.value):
            result = None
            if int(dut.valid.value):
                result = expected(
                    int(dut.a.value),
                    int(dut.b.value),
                    DataType(int(dut.data_type.value)),
                    Operator(int(dut.operator.value)),
                )
            self.stages.appendleft(result)


@cocotb.test()
async def latency_is_depth_and_throughput_is_one(dut: Any) -> None:
    """A single flit, then flits in every cycle."""
    bench = Bench(dut)
    driver = bench.add(Driver(dut, random_generator("single"), valid=0, enable=1))
    checker = bench.add(Checker(dut))
    await bench.reset()
    driver.valid = 1
    await bench.step()
    driver.valid = 0
    await bench.step(DEPTH)
    assert checker.results == 1
    await bench.step(DEPTH + 2)
    assert checker.results == 1
    driver.valid = 1
    await bench.step(100)
    assert checker.results == 1 + 100 - DEPTH


@cocotb.test()
async def holds_while_not_enabled(dut: Any) -> None:
    """Full of flits, everything stays for as long as ``enable`` is low."""
    bench = Bench(dut)
    driver = bench.add(Driver(dut, random_generator("hold"), valid=1, enable=1))
    checker = bench.add(Checker(dut))
    await bench.reset()
    await bench.step(DEPTH)
    driver.enable = 0
    await bench.step(20)
    assert checker.results == 20
    driver.enable = 1
    driver.valid = 0
    await bench.step(DEPTH + 1)
    assert checker.results == 20 + DEPTH


@cocotb.test()
async def random_valid_and_enable(dut: Any) -> None:
    """All mixed; a reset empties the pipeline."""
    generator = random_generator("random")
    bench = Bench(dut)
    driver = bench.add(Driver(dut, generator, valid=0.5, enable=0.5))
    checker = bench.add(Checker(dut))
    for _ in range(5):
        driver.valid, driver.enable = generator.random(), generator.random()
        await bench.reset(cycles=1)
        checker.clear()
        await bench.step(100)

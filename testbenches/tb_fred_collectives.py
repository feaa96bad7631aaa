"""Compound collectives as configurations in series, against NumPy.

INT32 sums are exact in any order, so NumPy needs to know nothing of the switch. Parameters: those
of :class:`testbenches.fred_bench.SwitchBench`.
"""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from numpy.typing import NDArray

from sw_model.fred import patterns
from sw_model.fred.configuration import Flow
from sw_model.fred.table import ConfigurationTable
from sw_model.workload.parallel import Axis, Parallelism
from testbenches import parameters, random_generator
from testbenches.fred_bench import SwitchBench
from testbenches.fred_packets import Header, Packet

_GIVEN = parameters()
PORTS = _GIVEN.get("ports", 2)
FLIT_BYTES = _GIVEN.get("flit_bytes", 16)
SHARD = 6 * FLIT_BYTES // 4  # elements, more than one packet
Words = NDArray[np.uint32]


class CollectiveBench(SwitchBench):
    """Sends arrays as messages and puts what comes out together again."""

    def __init__(self, dut: Any):
        super().__init__(dut, _GIVEN, random_generator("data"))
        self.table = ConfigurationTable(PORTS, _GIVEN["middle_copies"], _GIVEN["configurations"])
        self.op = 0

    async def run(self, steps: patterns.Steps, data: list[dict[Flow, dict[int, Words]]]) -> None:
        """Load the steps' configurations and queue every step's messages at once.

        ``data`` : for every step and flow the array that each input sends
        """
        indices = [self.table.add(step) for step in steps]
        known = len(self.configurations)
        await self.load(dict(list(enumerate(self.table.entries))[known:]))
        for step, index in zip(data, indices, strict=True):
            for flow, arrays in step.items():
                self._message(index[flow], flow, arrays)
            self.op += 1
        await self.bench.until(
            lambda: all(
                not queue for sender in self.senders for queue in sender.queues
            ) and bool(int(self.dut.idle.value)),
            limit=20_000,
            stuck="the collective to end",
        )  # fmt: skip
        await self.bench.step(self.latency + 5)
        assert not self.errors()

    def _message(self, index: int, flow: Flow, arrays: dict[int, Words]) -> None:
        most = _GIVEN["packet_bytes"] // 4
        for first in range(0, SHARD, most):
            count = min(most, SHARD - first)
            for port, array in arrays.items():
                piece = array[first : first + count].tobytes()
                payload = tuple(
                    int.from_bytes(piece[k : k + FLIT_BYTES], "little")
                    for k in range(0, len(piece), FLIT_BYTES)
                )
                header = Header(
                    configuration=index,
                    length=4 * count,
                    op=self.op,
                    sequence=first * 4 // FLIT_BYTES,
                    last=int(first + count == SHARD),
                    data_type=3,
                )
                packet = Packet(header, payload)
                self.senders[port].send(packet.flits(FLIT_BYTES))

    def heard(self, port: int) -> list[Words]:
        """The messages that came out of a port, in order."""
        width = 8 * FLIT_BYTES
        found: list[bytes] = []
        for flit in self.receivers[port].flits:
            if not flit >> width & 1:
                found.append((flit & ((1 << width) - 1)).to_bytes(FLIT_BYTES, "little"))
        words = np.frombuffer(b"".join(found), np.uint32)
        return list(words.reshape(-1, SHARD))


def arrays(purpose: str) -> Words:
    """For every port as many shards as there are ports."""
    generator = np.random.default_rng(random_generator(purpose).getrandbits(32))
    return generator.integers(0, 1 << 32, (PORTS, PORTS, SHARD), dtype=np.uint32)


def int32(steps: patterns.Steps) -> patterns.Steps:
    """The same steps on INT32."""
    return tuple(
        tuple(Flow(f.inputs, f.outputs, f.traffic_class, "int32") for f in step) for step in steps
    )


@cocotb.test()
async def reduce_scatter_then_all_gather_is_an_all_reduce(dut: Any) -> None:
    """Step j of the first sums shard j for port j, step j of the second spreads it."""
    bench = CollectiveBench(dut)
    await bench.bench.reset()
    given = arrays("reduce")
    total = given.sum(axis=0, dtype=np.uint32)
    steps = int32(patterns.reduce_scatter(range(PORTS)))
    await bench.run(
        steps, [{step[0]: {p: given[p][j] for p in range(PORTS)}} for j, step in enumerate(steps)]
    )
    for port in range(PORTS):
        (shard,) = bench.heard(port)
        assert (shard == total[port]).all()
    bench.forget()
    steps = int32(patterns.all_gather(range(PORTS)))
    await bench.run(steps, [{step[0]: {j: total[j]}} for j, step in enumerate(steps)])
    for port in range(PORTS):
        assert (np.array(bench.heard(port)) == total).all()
    bench.forget()
    (step,) = int32(patterns.all_reduce(range(PORTS)))
    await bench.run((step,) * PORTS, [
        {step[0]: {p: given[p][j] for p in range(PORTS)}} for j in range(PORTS)
    ])  # fmt: skip
    for port in range(PORTS):
        assert (np.array(bench.heard(port)) == total).all()


@cocotb.test()
async def all_to_all_turns(dut: Any) -> None:
    """In rotation k every port sends to the k-th behind it, all at the same time."""
    bench = CollectiveBench(dut)
    await bench.bench.reset()
    given = arrays("turn")
    steps = int32(patterns.all_to_all(range(PORTS)))
    assert len(steps) == PORTS - 1
    assert all(len(bench.table.add(step)) == PORTS for step in steps)
    assert len(bench.table.entries) == PORTS - 1  # every rotation routes in one configuration
    await bench.run(
        steps,
        [
            {flow: {flow.inputs[0]: given[flow.inputs[0]][flow.outputs[0]]} for flow in step}
            for step in steps
        ],
    )
    for port in range(PORTS):
        expected = [given[(port - k) % PORTS][port] for k in range(1, PORTS)]
        assert (np.array(bench.heard(port)) == np.array(expected)).all()
    # One packet each way in every turn: the ports are busy all the time.
    cycles = bench.receivers[0].cycles
    assert cycles[-1] - cycles[0] == len(cycles) - 1


@cocotb.test()
async def scatter_and_gather(dut: Any) -> None:
    """Unicasts in series, from a root and to it."""
    bench = CollectiveBench(dut)
    await bench.bench.reset()
    given = arrays("scatter")
    root = PORTS - 1
    others = [p for p in range(PORTS) if p != root]
    steps = int32(patterns.scatter(root, range(PORTS)))
    await bench.run(steps, [{step[0]: {root: given[root][step[0].outputs[0]]}} for step in steps])
    for port in others:
        assert (np.array(bench.heard(port)) == given[root][port]).all()
    assert not bench.heard(root)
    bench.forget()
    steps = int32(patterns.gather(root, range(PORTS)))
    await bench.run(
        steps, [{step[0]: {step[0].inputs[0]: given[step[0].inputs[0]][root]}} for step in steps]
    )
    assert (np.array(bench.heard(root)) == given[others, root]).all()


@cocotb.test()
async def groups_side_by_side(dut: Any) -> None:
    """Reduce-scatters of two groups of unequal size, step by step at the same time."""
    bench = CollectiveBench(dut)
    await bench.bench.reset()
    given = arrays("groups")
    half = PORTS // 2
    groups = [list(range(half)), list(range(half, PORTS))]
    steps = int32(patterns.side_by_side([patterns.reduce_scatter(group) for group in groups]))
    assert len(steps) == PORTS - half
    data = [
        {flow: {p: given[p][flow.outputs[0]] for p in flow.inputs} for flow in step}
        for step in steps
    ]
    await bench.run(steps, data)
    for group in groups:
        total = given[group].sum(axis=0, dtype=np.uint32)
        for port in group:
            assert (np.array(bench.heard(port)) == total[port]).all()


@cocotb.test()
async def the_phases_of_3d_parallelism(dut: Any) -> None:
    """Placed tensor first, then pipeline, then data: the groups of every phase run together."""
    bench = CollectiveBench(dut)
    await bench.bench.reset()
    given = arrays("phases")
    placed = Parallelism(tensor=2, pipeline=2, data=PORTS // 4)
    assert placed.members(Axis.TENSOR, 0) == (0, 1)
    ranks = range(placed.ranks)
    phases = [
        {Flow.all_reduce(placed.members(axis, rank), data_type="int32") for rank in ranks}
        for axis in (Axis.TENSOR, Axis.DATA)
    ]
    stages = (rank for rank in ranks if placed.place(rank)[1] == 0)
    phases.append({Flow((r,), (r + placed.tensor,), data_type="int32") for r in stages})
    for phase in phases:
        step = tuple(sorted(phase, key=lambda flow: flow.inputs))
        bench.forget()
        known = len(bench.table.entries)
        bench.table.add(step)
        assert len(bench.table.entries) == known + 1  # in one configuration
        await bench.run((step,), [{flow: {p: given[p][0] for p in flow.inputs} for flow in step}])
        for flow in step:
            total = given[list(flow.inputs), 0].sum(axis=0, dtype=np.uint32)
            for port in flow.outputs:
                assert (bench.heard(port)[0] == total).all()
        firsts = {bench.receivers[p].cycles[0] for flow in step for p in flow.outputs}
        assert len(firsts) == 1

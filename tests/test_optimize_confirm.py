"""Predicted beside simulated iteration times, and models divided over a network."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import pytest

from sim_top.reproduce import libra
from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.optimize.confirm import confirm, divided_topology
from sw_model.optimize.constraint import parse_constraint
from sw_model.optimize.demand import Communicator, Demand, split_groups
from sw_model.optimize.iteration import (
    BackwardPass,
    Iteration,
    Overlap,
    Path,
    Step,
    TrainingTask,
    backward_steps,
    merged,
)
from sw_model.optimize.network import OpenDim, OpenNetwork
from sw_model.optimize.problem import Problem, optimise
from sw_model.optimize.scheduling import Scheduling
from sw_model.optimize.splits import DividedModel, divisions, fixed_division
from sw_model.topology import DimKind
from sw_model.workload.machine import Machine
from sw_model.workload.model import Block, Model

RING, FULL, SWITCH, FRED = (
    DimKind.RING,
    DimKind.FULLY_CONNECTED,
    DimKind.SWITCH,
    DimKind.FRED,
)


def network(*dims, latency_ps=0):
    return OpenNetwork(dims=tuple(OpenDim(kind=k, size=n, latency_ps=latency_ps) for k, n in dims))


def optimum_of(dims, iteration, **more):
    return optimise(
        Problem(
            network=dims,
            tasks=(TrainingTask(name="w", iteration=iteration),),
            constraints=(parse_constraint("total = 60", len(dims.dims)),),
            **more,
        )
    )


def all_reduce(size, *sizes):
    return Demand(Operation.ALL_REDUCE, size, Communicator(sizes))


def test_one_chunk_by_hand():
    """A chunk that is alone goes through its phases one after another: the sum over the dims, where
    the prediction is the largest; with 64 chunks all but the ends overlap."""
    dims = network((RING, 4), (SWITCH, 8))
    size = 32 * 10**6
    optimum = optimum_of(
        dims, Iteration((Step((Path(Fraction(100), ((all_reduce(size, 4, 8), 3),)),)),))
    )
    loads = (2 * size * Fraction(3, 4), 2 * size * Fraction(7, 32))
    times = [load / b for load, b in zip(loads, optimum.bandwidths, strict=True)]
    (alone,) = confirm(optimum, chunks=1)
    assert alone.predicted == 100 + 3 * max(times)
    assert alone.simulated == 100 + 3 * sum(times)
    assert alone.unexplained == 0
    (many,) = confirm(optimum, chunks=64)
    assert many.unexplained == 0
    assert 0 < many.simulated - many.predicted < (alone.simulated - alone.predicted) / 32


def test_latency_is_explained():
    dims = network((RING, 4), latency_ps=500_000)
    optimum = optimum_of(dims, Iteration((Step((Path(Fraction(0), ((all_reduce(64, 4), 1),)),)),)))
    (found,) = confirm(optimum, chunks=1)
    assert found.predicted == Fraction(96, 60)
    assert found.simulated == Fraction(96, 60) + 6 * 500
    assert found.explained == 3000


def test_a_message_goes_to_the_next_stage():
    dims = network((SWITCH, 4), (RING, 2))
    demand = Demand(None, 6000, Communicator((4, 1)))
    optimum = optimum_of(dims, Iteration((Step((Path(Fraction(7), ((demand, 2),)),)),)))
    (found,) = confirm(optimum)
    assert found.predicted == found.simulated == 7 + 2 * 6000 / optimum.bandwidths[0]


@pytest.mark.parametrize("scheduling", list(Scheduling))
@pytest.mark.parametrize("network_name", ["2D", "3D", "4D"])
def test_published_workloads_on_the_model(network_name, scheduling):
    """1024 NPUs: what differs from the prediction is chunks that fill, less than half a per cent,
    and nothing else."""
    problem = libra.problem(network_name, "175B")
    problem = Problem(
        network=problem.network,
        tasks=problem.tasks,
        constraints=problem.constraints,
        scheduling=scheduling,
    )
    (found,) = confirm(optimise(problem), chunks=64 if scheduling is Scheduling.BASELINE else 16)
    assert found.unexplained == 0
    assert (
        1
        <= found.simulated / found.predicted
        < Fraction(1005, 1000) + (0 if scheduling is Scheduling.BASELINE else Fraction(1, 100))
    )


def backward(dims, overlap, *passes):
    inner, outer = split_groups(dims, (4, 8), ("tensor", "data"))
    return merged(
        backward_steps(
            [
                BackwardPass(
                    Fraction(ig),
                    Demand(Operation.ALL_REDUCE, ig_bytes, inner),
                    Fraction(wg),
                    Demand(Operation.ALL_REDUCE, wg_bytes, outer),
                )
                for ig, ig_bytes, wg, wg_bytes in passes
            ],
            overlap,
        )
    )


PASSES = ((900, 0, 1000, 64000), (700, 32000, 800, 0), (500, 64000, 900, 320000), (10, 0, 20, 640))


@pytest.mark.parametrize("overlap", list(Overlap))
def test_overlap_on_the_model(overlap):
    """One chunk on dims of their own: no filling, and so predicted and simulated are the same."""
    dims = network((RING, 4), (SWITCH, 8))
    optimum = optimum_of(dims, backward(dims, overlap, *PASSES))
    (found,) = confirm(optimum, chunks=1)
    assert found.simulated == found.predicted
    assert found.explained == 0


def test_a_divided_dim_is_two():
    dims = network((RING, 4), (SWITCH, 12), (FULL, 1))
    inner, outer = split_groups(dims, (8, 6), ("tensor", "data"))
    topology, spans = divided_topology(dims, [Fraction(1)] * 3, (inner, outer))
    assert [dim.size for dim in topology.dims] == [4, 2, 6, 1]
    assert spans[inner] == (True, True, False, False)
    assert spans[outer] == (False, False, True, False)
    other = Communicator((1, 4, 1))
    message = (
        r"^groups of different workloads divide dim 2 of 12 NPUs at 4 and at 6, which cannot be "
        r"simulated$"
    )
    with pytest.raises(InputError, match=message):
        divided_topology(dims, [Fraction(1)] * 3, (other, Communicator((1, 6, 1))))


MODEL = Model(
    title="four layers",
    blocks=tuple(
        Block(
            name=f"layer{n}",
            parameters=8000 * (n + 1),
            replicated=0,
            multiply_adds=10**6 * (n + 1),
            forward_reduced=500,
            input_reduced=500,
            layer=n,
        )
        for n in range(4)
    ),
    published=80_000,
    tolerance=0.0,
    source="made up",
    sample="sample",
    batch=8,
    update_bytes=20,
    boundary=100,
    heads=4,
)
MACHINE = Machine(peak_tflops=Fraction(1), efficiency=Fraction(1), roofline=False)


def test_a_pipeline_by_hand():
    """TP 2, PP 2, DP 4 and 4 microbatches of one sample, on a ring of 2, a switch of 2 and one of
    4. A pass of layer n takes (n + 1) us with TP 2, and is done three times a microbatch."""
    dims = network((RING, 2), (SWITCH, 2), (SWITCH, 4))
    divided = DividedModel(model=MODEL, machine=MACHINE, batch=16)
    division = fixed_division(divided, dims, 2, 2, 4)
    assert division.name == "TP 2, PP 2, DP 4, 4 microbatches"
    optimum = optimum_of(dims, division.iteration())
    b1, b2, b3 = optimum.bandwidths
    tensor = 2 * 500 * 2 * Fraction(1, 2) / b1  # an all-reduce of 500 elements of 2 bytes
    message = 100 * 2 / b2
    stages = [3 * layers * 1000 + 4 * tensor + message for layers in (1 + 2, 3 + 4)]
    gradients = 2 * (2 * 8000 * (3 + 4) // 2) * Fraction(3, 4) / b3
    expected = sum(stages) + 3 * max(stages) + gradients
    assert optimum.time_ns == expected
    (found,) = confirm(optimum, chunks=1)
    assert found.simulated == expected


def test_a_tensor_parallel_model_reduces_beside_its_backward_pass():
    dims = network((RING, 2), (SWITCH, 4))
    plain = DividedModel(model=MODEL, machine=MACHINE, batch=16)
    times = {}
    for overlap in Overlap:
        divided = DividedModel(model=MODEL, machine=MACHINE, batch=16, overlap=overlap)
        iteration = fixed_division(divided, dims, 2, 1, 1).iteration()
        times[overlap] = iteration.time_ns(lambda demand: Fraction(demand.bytes))
    # By hand, all times in ns: passes of 4 samples, all-reduces as long as their bytes.
    compute = [4000 * (n + 1) for n in range(4)]
    tensor, gradients = 4000, [8000 * (n + 1) for n in range(4)]
    forward = sum(compute) + 4 * tensor
    assert times[Overlap.NONE] == forward + 2 * sum(compute) + 4 * tensor + sum(gradients)
    layers = sum(max(c + tensor, c + c + g) for c, g in zip(compute, gradients, strict=True))
    assert times[Overlap.LAYER] == forward + layers
    clock = server = 0
    for c, g in zip(reversed(compute), reversed(gradients), strict=True):
        clock += c + max(c, tensor)
        server = max(server, clock) + g
    assert times[Overlap.BACKWARD] == forward + max(clock, server)
    assert plain.overlap is Overlap.NONE


def test_all_divisions():
    dims = network((RING, 2), (SWITCH, 4), (SWITCH, 2))
    divided = DividedModel(model=MODEL, machine=MACHINE, batch=16)
    found = {d.name for d in divisions(divided, dims)}
    expected = set()
    for tensor in (1, 2, 4):
        for pipeline in (1, 2, 4):
            data = 16 // (tensor * pipeline)
            for microbatches in (1, 2, 4, 8, 16):
                if (16 // data) % microbatches == 0 and (pipeline > 1 or microbatches == 1):
                    name = f"TP {tensor}, PP {pipeline}, DP {data}"
                    expected.add(
                        name + (f", {microbatches} microbatches" if microbatches > 1 else "")
                    )
    assert found == expected
    # 80,000 parameters of 16 bytes: a quarter of the last layer's 32,000 fits where TP x PP is 16.
    small = DividedModel(model=MODEL, machine=MACHINE, batch=16, memory=32_000 * 16 // 4)
    fits = [d.parallelism for d in divisions(small, dims)]
    assert {(p.tensor, p.pipeline) for p in fits} == {(4, 4)}


def test_divisions_that_cannot_be():
    dims = network((RING, 2), (SWITCH, 8))
    divided = DividedModel(model=MODEL, machine=MACHINE, batch=16)
    for wanted, message in (
        ((3, 1, 1), "tensor x pipeline must divide the 16 NPUs of the network, not 3 x 1"),
        ((1, 1, 2), "microbatches must divide what each of 16 replicas has of the batch, 1, not 2"),
        ((8, 1, 1), "tensor must be at most the 4 attention heads of four layers, not 8"),
    ):
        with pytest.raises(InputError) as caught:
            fixed_division(divided, dims, *wanted)
        assert str(caught.value) == message
    assert prod(dim.size for dim in dims.dims) == 16


def test_embedding_tables_are_exchanged():
    """Tables have an all-to-all of the looked-up rows each way, over all replicas, and nothing to
    reduce; they are spread in memory too."""
    tables = Block(name="tables", parameters=10**9, exchanged=300, first=True)
    dense = Block(name="dense", parameters=8000, multiply_adds=10**6, joins=True)
    model = Model(
        title="tables", blocks=(tables, dense), published=10**9, tolerance=1.0, source="made up",
        sample="sample", batch=8, update_bytes=20,
    )  # fmt: skip
    dims = network((RING, 4), (SWITCH, 8))
    divided = DividedModel(model=model, machine=MACHINE, batch=320, memory=10**9)
    found = list(divisions(divided, dims))
    assert [d.name for d in found] == ["TP 1, PP 1, DP 32"]
    asked = found[0].iteration().demands()
    everyone = (4, 8)
    assert {(d.operation, d.bytes, d.communicator.sizes) for d in asked} == {
        (Operation.ALL_TO_ALL, 2 * 10 * 300, everyone),
        (Operation.ALL_REDUCE, 2 * 8000, everyone),
    }
    assert not list(
        divisions(DividedModel(model=model, machine=MACHINE, batch=320, memory=10**8), dims)
    )

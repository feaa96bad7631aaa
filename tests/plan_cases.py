"""Random topologies, collectives and schedules for the tests of plans."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from hypothesis import strategies as st

from sw_model.collective.plan import Collective, Operation
from sw_model.schedule.baseline import active_dims
from sw_model.schedule.phases import Turn, build_phases
from sw_model.topology import Dim, DimKind, Topology

OPERATIONS = (Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER)
GB = 10**9


def dim(kind: DimKind, size: int, bandwidth: int = GB, latency_ps: int = 0) -> Dim:
    return Dim(kind, size, Fraction(bandwidth), latency_ps)


def ring_by_fred() -> Topology:
    """The first platform: Ring 4 at 20 GB/s, FRED_3(4) at 10 GB/s."""
    return Topology(
        (
            dim(DimKind.RING, 4, 20 * GB, 100_000),
            dim(DimKind.FRED, 4, 10 * GB, 100_000),
        )
    )


@dataclass(frozen=True)
class AnyOrder:
    """Scheduler: a random order of each chunk's reduce-scatter, another of its all-gather."""

    seed: int
    turn: Turn = Turn.MERGED

    def schedule(self, operation, topology, dims, sizes):
        rng = random.Random(self.seed)
        active = active_dims(topology, dims)

        def order(wanted: bool) -> list[int]:
            return rng.sample(active, len(active)) if wanted else []

        return [
            build_phases(
                operation,
                topology,
                scatter=order(operation is not Operation.ALL_GATHER),
                gather=order(operation is not Operation.REDUCE_SCATTER),
                turn=self.turn,
            )
            for _ in sizes
        ]


@st.composite
def topologies(draw, most: int = 24, dims: int = 4) -> Topology:
    """Ring and Fred dims, up to ``most`` NPUs."""
    sizes: list[int] = []
    for _ in range(draw(st.integers(1, dims))):
        room = most // prod(sizes)
        sizes.append(draw(st.integers(1, max(1, min(6, room)))))
    kinds = [
        DimKind.RING if size == 1 else draw(st.sampled_from((DimKind.RING, DimKind.FRED)))
        for size in sizes
    ]
    bandwidths = [draw(st.sampled_from((1, 2, 5))) * GB for _ in sizes]
    return Topology(tuple(dim(k, s, b) for k, s, b in zip(kinds, sizes, bandwidths, strict=True)))


@st.composite
def requests(draw, topology: Topology, quantum: int = 1, **attributes) -> Collective:
    """A collective over some of the dims; sizes around the number of ranks, and none at all."""
    dims = tuple(d for d in range(len(topology.dims)) if draw(st.booleans()))
    group = prod(topology.dims[d].size for d in dims)
    operation = draw(st.sampled_from(OPERATIONS))
    elements = draw(st.one_of(st.integers(0, 3), st.integers(0, 3 * group + 7)))
    if quantum > 1 and operation is not Operation.ALL_REDUCE:
        unit = quantum if operation is Operation.ALL_GATHER else quantum * group
        elements = draw(st.integers(0, 4)) * unit
    return Collective(operation, elements, dims=dims, **attributes)

"""The data that the RTL left in memory, against the plan's replay in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim_top.cosim.memory_map import payload
from sim_top.cosim.outcome import Issued
from sw_model.collective.plan import CollectivePlan
from sw_model.collective.replay import replay

__all__ = ["expected_results", "first_difference"]


def expected_results(
    plan: CollectivePlan, *, seed: int, number: int
) -> list[NDArray[np.generic]]:
    """What must stand in the result region of every rank."""
    ranks = range(plan.topology.npus)
    sources = [payload(plan.collective, seed=seed, number=number, rank=r) for r in ranks]
    return replay(plan, sources)


def first_difference(
    issued: Issued, results: Sequence[NDArray[np.uint8]], *, seed: int, number: int
) -> str | None:
    """Where the memory of a rank first differs from what it must hold; None if nowhere.

    Bits are compared, not values, up to the end of the payload: what lies behind it in the last
    flit of the region must not have been written, and is zero.
    """
    expected = expected_results(issued.plan, seed=seed, number=number)
    for rank, (right, bits) in enumerate(zip(expected, results, strict=True)):
        wanted = np.zeros(bits.size, dtype=np.uint8)
        wanted[: right.nbytes] = right.view(np.uint8)
        if np.array_equal(wanted, bits):
            continue
        byte = int(np.flatnonzero(wanted != bits)[0])
        size = right.itemsize
        element = byte // size
        got = bits[element * size : (element + 1) * size].tobytes()[::-1].hex()
        want = wanted[element * size : (element + 1) * size].tobytes()[::-1].hex()
        return (
            f"rank {rank}, element {element} of {right.size}: 0x{got} in memory, "
            f"0x{want} by the plan"
        )
    return None

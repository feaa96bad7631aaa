"""How an engine's state machines are divided among the dims (decided here).

ACE's state machines are programmed, each with the algorithm of one phase (ISCA 2021; recalled); how
many for each is open in the sources. A phase keeps one while its chunk is on the links and until
its last step has arrived, so a dim with many steps of long latency needs more of them than others.
By Little's law a dim needs, where the network sets the pace of an all-reduce,

    (payload rate / chunk) x (seconds on its links + steps x latency).

The machines go to the dims in these proportions: one to each, and every further one to the dim that
has least of what it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sw_model.collective.cost import PhaseCost, algorithm_of, phase_cost
from sw_model.collective.plan import Operation
from sw_model.topology import Dim

__all__ = ["divide_machines", "machines_by_dim"]

_PICOSECONDS = 10**12


def machines_by_dim(dims: Sequence[Dim], chunk_bytes: int) -> tuple[Fraction, ...]:
    """State machines that an all-reduce of chunks of ``chunk_bytes`` over all ``dims``, innermost
    first, keeps busy on each of them on average; 0 on a dim of one NPU."""
    held, links = [], []
    left = Fraction(chunk_bytes)
    for dim in dims:
        if dim.size == 1:
            held.append(Fraction(0))
            continue
        scatter = _phase(dim, Operation.REDUCE_SCATTER, left)
        gather = _phase(dim, Operation.ALL_GATHER, left)  # counted by what it ends with
        left /= dim.size
        links.append((scatter.port + gather.port) / dim.bandwidth)
        steps = scatter.steps + gather.steps
        held.append(links[-1] + steps * Fraction(dim.latency_ps, _PICOSECONDS))
    # The busiest dim lets a chunk through in its own time on the links.
    return tuple(seconds / max(links) for seconds in held) if links else tuple(held)


def _phase(dim: Dim, operation: Operation, size: Fraction) -> PhaseCost:
    return phase_cost(dim, operation, algorithm_of(dim, operation), size)


def divide_machines(dims: Sequence[Dim], machines: int, chunk_bytes: int) -> tuple[int, ...]:
    """By dim, how many of ``machines`` it has: at least one, none where it has one NPU."""
    needs = machines_by_dim(dims, chunk_bytes)
    out = [int(need > 0) for need in needs]
    for _ in range(machines - sum(out)):
        if not any(out):
            break
        short = max((d for d, n in enumerate(out) if n), key=lambda d: (needs[d] / out[d], -d))
        out[short] += 1
    return tuple(out)

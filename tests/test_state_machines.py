"""How the state machines of an engine are divided among the dims."""

from fractions import Fraction

import pytest

from sw_model.endpoint.state_machines import divide_machines, machines_by_dim
from sw_model.topology import Dim, DimKind

GB = 10**9


def ring(size, rate, latency_ps):
    return Dim(DimKind.RING, size, Fraction(rate), latency_ps)


def test_needs_by_hand():
    """A ring of 8 behind one of 4, chunks of 64 KiB at 400 and 50 GB/s, 100 and 400 ns a step."""
    dims = (ring(4, 400 * GB, 100_000), ring(8, 50 * GB, 400_000))
    inner = 2 * Fraction(3, 4) * 65536 / (400 * GB)
    outer = 2 * Fraction(7, 8) * 16384 / (50 * GB)
    assert outer > inner  # so it sets the pace
    inner_held = inner + 6 * Fraction(100, GB)
    outer_held = outer + 14 * Fraction(400, GB)
    assert machines_by_dim(dims, 65536) == (inner_held / outer, outer_held / outer)
    # 1.476 and 10.766: by turns to the one that has least of what it needs.
    assert divide_machines(dims, 3, 65536) == (1, 2)
    assert divide_machines(dims, 16, 65536) == (2, 14)


@pytest.mark.parametrize(
    ("kind", "steps"),
    [(DimKind.RING, 14), (DimKind.FULLY_CONNECTED, 2), (DimKind.SWITCH, 6)],
)
def test_steps_of_every_kind(kind, steps):
    """One dim: links of b seconds, and a latency for each step of both halves."""
    (need,) = machines_by_dim((Dim(kind, 8, Fraction(100 * GB), 10**6),), 80_000)
    links = 2 * Fraction(7, 8) * 80_000 / (100 * GB)
    assert need == 1 + steps * Fraction(1, 10**6) / links


def test_idle_dims_have_none_and_the_others_at_least_one():
    dims = (ring(1, GB, 0), ring(4, GB, 0), ring(2, 1000 * GB, 0), ring(1, GB, 5))
    assert machines_by_dim(dims, 4096)[0] == 0
    assert divide_machines(dims, 16, 4096) == (0, 15, 1, 0)
    assert divide_machines(dims, 1, 4096) == (0, 1, 1, 0)
    assert divide_machines((ring(1, GB, 0),), 16, 4096) == (0,)

"""Who is joined to whom on a platform."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest

from sim_top.platform.links import joints
from sw_model.topology import Dim, DimKind, Topology


def topology(*dims: tuple[DimKind, int]) -> Topology:
    return Topology(tuple(Dim(kind, size, Fraction(10**9), 0) for kind, size in dims))


def test_everybody_has_a_link_to_everybody_else_of_a_group() -> None:
    """4 x 3: ranks r and s share dim 1 where r // 4 = s // 4; port p leads p + 1 places on."""
    found = list(joints(topology((DimKind.FULLY_CONNECTED, 4), (DimKind.RING, 3)), 0))
    pairs = [(one.sender, one.receiver) for one in found]
    expected = [(a, b) for a, b in permutations(range(12), 2) if a // 4 == b // 4]
    assert sorted(pairs) == expected
    assert all((one.receiver - one.sender - 1) % 4 == one.port for one in found)
    assert len({one.name(0) for one in found}) == len(found)


def test_a_ring_has_one_link_for_each_rank() -> None:
    found = list(joints(topology((DimKind.FULLY_CONNECTED, 4), (DimKind.RING, 3)), 1))
    assert {(one.sender, one.receiver, one.port) for one in found} == {
        (rank, (rank + 4) % 12, 0) for rank in range(12)
    }


def test_a_switch_has_no_such_links() -> None:
    with pytest.raises(ValueError, match=r"^dim 1 must be without switches, not Fred$"):
        list(joints(topology((DimKind.FRED, 4)), 0))

"""The forwarding buffer (see the bench)."""

import pytest

from rtl.ace.forward_buffer import ForwardBuffer
from sim_top.simulator import simulate


@pytest.mark.parametrize("depth", [4, 16])
def test_forward_buffer(depth):
    simulate(
        ForwardBuffer(depth=depth, contexts=2, address_bits=14, flit_bytes=16),
        testbench="testbenches.tb_ace_forward_buffer",
        parameters={"depth": depth, "contexts": 2},
    )


@pytest.mark.parametrize("depth", [0, 1, 6, "8"])
def test_depth(depth):
    with pytest.raises(
        ValueError, match=f"^depth must be a power of two of at least 2, not {depth!r}$"
    ):
        ForwardBuffer(depth=depth, contexts=2, address_bits=10, flit_bytes=16)

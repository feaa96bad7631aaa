"""The handshake of the two ends of a link after resets (see the bench)."""

import pytest

from sim_top.simulator import simulate
from testbenches.link_sync_pair import LinkSyncPair


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_restarts(seed):
    simulate(LinkSyncPair(), testbench="testbenches.tb_link_sync", simulator="icarus", seed=seed)

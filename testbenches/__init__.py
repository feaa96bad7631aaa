"""Test benches under cocotb: one ``tb_<dut>.py`` per design under test, and the parts they share.

:func:`parameters`, :func:`seed` and :func:`random_generator` give a bench, inside the simulation,
what its test passed to ``sim_top.simulator.simulate``.
"""

import json
import os
import random
from typing import Any

__all__ = ["parameters", "random_generator", "seed"]


def parameters() -> dict[str, Any]:
    """The parameters of this simulation (JSON values, empty outside one)."""
    values: dict[str, Any] = json.loads(os.environ.get("ANTIPHON_PARAMETERS", "{}"))
    return values


def seed() -> int:
    """The seed of this simulation."""
    return int(os.environ.get("COCOTB_RANDOM_SEED", "1"))


def random_generator(purpose: str) -> random.Random:
    """A generator of its own for each purpose, so that one draw more here moves nothing there."""
    return random.Random(f"{seed()}/{purpose}")

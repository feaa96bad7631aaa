"""Models of FRED switches that take too long to build as they come."""

from collections.abc import Callable
from dataclasses import replace

from sim_top.simulator import Model

__all__ = ["once_per_kind"]


def once_per_kind(ports: int, simulator: str) -> Callable[[Model], Model] | None:
    """On Verilator, compile an adding micro-switch of a larger switch once, however many there are.

    The model of FRED_3(16) is built in two minutes so, and runs as before. For ``simulate``.
    """
    if simulator != "verilator" or ports <= 4:
        return None
    return lambda model: replace(model, blocks=("reduce_switch", "reduce_distribute_switch"))

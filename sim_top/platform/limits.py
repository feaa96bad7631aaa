"""What the RTL cannot be, found out before anything runs or is built."""

from __future__ import annotations

from sim_top.platform.parameters import engine_parameters
from sim_top.simulator.toolchain import check_compilers, verilator_version
from sw_model.errors import InputError
from sw_model.fred.construction import check_size
from sw_model.fred.dim_flows import dim_flows
from sw_model.platform import Platform
from sw_model.topology import DimKind

__all__ = ["MOST_CONFIGURATIONS", "check_rtl"]

MOST_CONFIGURATIONS = 1 << 12
"""What the index in a packet's header reaches."""
MOST_LATENCY = 1 << 16
"""Cycles that a link may take (decided here): places of the memory in which its flits fly."""


def check_rtl(platform: Platform) -> None:
    """Refuse a platform that the RTL or the simulator cannot be.

    Raises
    ------
    InputError
        where a switch has too many ports, copies or configurations, a link takes too long, the
        engine cannot be built, or the simulator or what it builds with is missing.
    """
    for number, dim in enumerate(platform.topology.dims, start=1):
        cycles = platform.links[number - 1].latency
        if cycles > MOST_LATENCY:
            raise InputError(
                f"the links of dim {number} must take at most {MOST_LATENCY} cycles on the RTL, "
                f"not {cycles}: a lower latency_ns"
            )
        if dim.kind is DimKind.FRED and dim.tree is None:
            try:
                check_size(dim.size, dim.middle_copies)
            except ValueError as error:
                raise InputError(f"the FRED switches of dim {number}: {error}") from None
            entries = len(dim_flows(dim.size)) * platform.engine.flow_kinds
            if entries > MOST_CONFIGURATIONS:
                raise InputError(
                    f"the FRED switches of dim {number} must have at most {MOST_CONFIGURATIONS} "
                    f"configurations, not {entries}: fewer ports, or fewer of engine.classes, "
                    f"engine.data_types and engine.operators"
                )
    try:
        engine_parameters(platform)
    except ValueError as error:
        raise InputError(f"the engines: {error}") from None
    verilator_version()
    check_compilers()

"""How every simulation of this project is built and run.

Test benches of one component call :func:`simulate`; a platform is a :class:`Model` that is built
once by :func:`build` and run by :func:`run_cocotb` or :func:`run_bare`. All builds go through one
cache keyed by content.
"""

from sim_top.simulator.bare import BareRun, run_bare
from sim_top.simulator.model import Model, build
from sim_top.simulator.run import SimulationError, SimulationResult, run_cocotb
from sim_top.simulator.toolchain import BuildError
from sim_top.simulator.unit import simulate

__all__ = [
    "BareRun",
    "BuildError",
    "Model",
    "SimulationError",
    "SimulationResult",
    "build",
    "run_bare",
    "run_cocotb",
    "simulate",
]

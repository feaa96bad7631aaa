"""How every simulation of this project is built and run.

Test benches of one component call :func:`simulate`; a platform is a :class:`Model` that is built
once by :func:`build` and run by :func:`run_cocotb` or :func:`run_bare`. All builds go through one
cache keyed by content.
"""

from sim_top.simulator.model import Model, build
from sim_top.simulator.run import SimulationError, run_cocotb
from sim_top.simulator.toolchain import BuildError
from sim_top.simulator.unit import simulate

__all__ = ["BuildError", "Model", "SimulationError", "build", "run_cocotb", "simulate"]

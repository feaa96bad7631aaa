"""The shell around a platform in simulation: its clock, its memories, and when Python wakes up.

:func:`shell_model` builds the model of a component with its shell; inside the simulation,
:class:`Shell` (in :mod:`sim_top.shell.control`, which needs cocotb) runs it from event to event.
"""

from sim_top.shell.top import MemoryAttachment, ShellPlan, shell_model

__all__ = ["MemoryAttachment", "ShellPlan", "shell_model"]

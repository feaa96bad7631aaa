"""The simulation model of a platform."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sim_top.configurations import FlowTable
from sim_top.platform.component import PlatformComponent
from sim_top.platform.parameters import flow_table
from sim_top.shell import MemoryAttachment, ShellPlan, shell_model
from sim_top.simulator import Model
from sw_model.fabric.channels import check_platform
from sw_model.fred.tree.table import TreeTable
from sw_model.platform import Platform
from sw_model.topology import DimKind

__all__ = ["flow_tables", "platform_model"]

_ONE = Fraction(1)


def flow_tables(
    platform: Platform, tree: TreeTable | None = None
) -> dict[int, FlowTable | TreeTable]:
    """By dim, the configuration memories of its switches (FRED dims only). Those of a tree follow
    from what will run: ``tree`` is that of the :class:`~sw_model.schedule.options.PlanBook`."""
    if tree is not None:
        return {0: tree}
    return {
        number: flow_table(dim, platform.engine)
        for number, dim in enumerate(platform.topology.dims)
        if dim.kind is DimKind.FRED
    }


def platform_model(platform: Platform, *, waves: bool = False, optimise: str = "-O2") -> Model:
    """The Verilator model of a platform in its shell; built by ``sim_top.simulator.build``.

    Raises
    ------
    DeadlockError
        where channels of its network wait for each other in a cycle.
    """
    check_platform(platform.topology)
    component = PlatformComponent(platform)
    memories = tuple(
        MemoryAttachment(read=f"memory_read__{rank}", write=f"memory_write__{rank}")
        for rank in range(platform.topology.npus)
    )
    plan = ShellPlan(
        events=("completion", "fault"),
        activity="activity",
        outstanding="outstanding",
        public=(
            "doorbell_address",
            "doorbell_ranks",
            "doorbell_lane",
            "doorbell_ring",
            "configuration_dim",
            "configuration_index",
            "configuration_switch",
            "configuration_entry",
            "configuration_write",
            "completed",
            "faults",
            "capture",
            "status",
            *(f"counters__{rank}" for rank in range(platform.topology.npus)),
        ),
        memories=memories,
        memory_words=platform.memory.words,
        read_latency=platform.memory.read_latency,
        write_latency=platform.memory.write_latency,
    )
    # The memories are told their rates when a simulation begins: one model serves all of them.
    paced = replace(platform, memory=replace(platform.memory, read_rate=_ONE, write_rate=_ONE))
    blocks = ["ace_endpoint", "fred_switch"]
    tree = platform.tree
    if tree is not None and tree.ports("L1") != tree.ports("L2"):
        blocks.append("fred_switch_2")
    return shell_model(
        component,
        plan,
        emission_key=repr(paced),
        optimise=optimise,
        waves=waves,
        blocks=tuple(blocks),
    )

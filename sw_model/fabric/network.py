"""Endpoints joined by links and FRED switches: the platform that the TLM simulates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sw_model.endpoint.ace import Endpoint
from sw_model.endpoint.dim_engine import DimEngine, Op
from sw_model.endpoint.programs import OpProgram
from sw_model.endpoint.transmitter import Outlet
from sw_model.engine import EventKernel
from sw_model.fabric.channels import check_platform
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.fred_switch import FredSwitch
from sw_model.fabric.fred_tree import TreeFabric
from sw_model.fabric.ring_link import RingLink
from sw_model.fabric.shared_port import SharedPort, SharedRingLink
from sw_model.fabric.shared_switch import SharedSwitch
from sw_model.fred.tree.table import TreeTable
from sw_model.platform import Platform
from sw_model.topology import DimKind

__all__ = ["Network"]


class Network:
    """All represented endpoints of a platform and what joins them.

    Parameters
    ----------
    kernel : event kernel
    platform : what is built
    constants : pipeline constants
    representative : by rank, the rank that is simulated in its place
    complete : called with (rank, collective)
    on_end : called with (engine, op) at the end of every op, or None
    flows : on a tree of FRED switches, what their configuration memories hold
    """

    def __init__(
        self,
        kernel: EventKernel,
        platform: Platform,
        constants: FabricConstants,
        representative: Sequence[int],
        complete: Callable[[int, Any], None],
        on_end: Callable[[DimEngine, Op], None] | None = None,
        flows: TreeTable | None = None,
    ) -> None:
        check_platform(platform.topology)
        self.kernel = kernel
        self.platform = platform
        self.packet_flits = platform.engine.packet_bytes // platform.engine.flit_bytes
        self.representative = representative
        programs: dict[tuple, OpProgram] = {}
        self.endpoints = {
            rank: Endpoint(kernel, platform, rank, constants.ace, programs, complete, on_end, flows)
            for rank in sorted(set(representative))
        }
        self.switches: dict[tuple[int, int], tuple[FredSwitch, ...]] = {}
        self.tree: TreeFabric | None = None
        for dim, description in enumerate(platform.topology.dims):
            if description.size == 1:
                continue
            if flows is not None:
                self.tree = self._join_tree(flows, constants)
            elif description.kind in (DimKind.RING, DimKind.FULLY_CONNECTED):
                self._join_links(dim, constants)
            else:
                self._join_switches(dim, constants)

    def _join_tree(self, flows: TreeTable, constants: FabricConstants) -> TreeFabric:
        return TreeFabric(
            self.kernel,
            flows,
            [[lane.dims[0] for lane in one.lanes] for one in self.endpoints.values()],
            self.platform.links[0],
            self.platform.buffer_flits(0),
            self.platform.engine.packet_bytes // self.platform.engine.flit_bytes,
            constants,
        )

    def _join_links(self, dim: int, constants: FabricConstants) -> None:
        """Port p leads to the coordinate p + 1 on; the classes share it."""
        topology, link = self.platform.topology, self.platform.links[dim]
        grant = constants.link.grant(link.latency) + constants.ace.granted
        for rank, endpoint in self.endpoints.items():
            peers = topology.peers(rank, dim)
            place = peers.index(rank)
            for port in range(topology.dims[dim].links):
                after = self.representative[peers[(place + 1 + port) % len(peers)]]
                shared = None
                if len(endpoint.lanes) > 1:
                    shared = SharedPort(self.kernel, link.rate, constants.ace, self.packet_flits)
                for number, lane in enumerate(endpoint.lanes):
                    sender = lane.dims[dim]
                    receiver = self.endpoints[after].lanes[number].dims[dim]
                    alone = RingLink(sender, receiver, link, constants, port)
                    outlet: Outlet = alone
                    if shared is not None:
                        outlet = SharedRingLink(alone, shared, number, constants.ace.transmit)
                    if not port:
                        sender.await_grants()
                    sender.transmitters[port].outlet = outlet
                    receiver.grant_to.append((sender, port, grant))

    def _join_switches(self, dim: int, constants: FabricConstants) -> None:
        """A switch for each group; each class has its channel through it."""
        topology, link = self.platform.topology, self.platform.links[dim]
        for rank in self.endpoints:
            peers = tuple(self.representative[peer] for peer in topology.peers(rank, dim))
            key = (dim, peers[0])
            if key in self.switches:
                continue
            lanes = range(self.platform.engine.lanes)
            shared = None
            if len(lanes) > 1:
                shared = SharedSwitch(self.kernel, link, constants, self.packet_flits)
            self.switches[key] = tuple(
                FredSwitch(
                    self.kernel,
                    [self.endpoints[peer].lanes[lane].dims[dim] for peer in peers],
                    link,
                    self.platform.buffer_flits(dim),
                    constants,
                    self.packet_flits,
                    shared,
                )
                for lane in lanes
            )

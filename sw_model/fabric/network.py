"""Endpoints joined by links and FRED switches: the platform that the TLM simulates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sw_model.endpoint.ace import Endpoint
from sw_model.endpoint.dim_engine import DimEngine, Op
from sw_model.endpoint.programs import OpProgram
from sw_model.engine import EventKernel
from sw_model.fabric.channels import check_platform
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.fred_switch import FredSwitch
from sw_model.fabric.ring_link import RingLink
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
    """

    def __init__(
        self,
        kernel: EventKernel,
        platform: Platform,
        constants: FabricConstants,
        representative: Sequence[int],
        complete: Callable[[int, Any], None],
        on_end: Callable[[DimEngine, Op], None] | None = None,
    ) -> None:
        check_platform(platform.topology)
        self.platform = platform
        self.representative = representative
        programs: dict[tuple, OpProgram] = {}
        self.endpoints = {
            rank: Endpoint(kernel, platform, rank, constants.ace, programs, complete, on_end)
            for rank in sorted(set(representative))
        }
        self.switches: dict[tuple[int, int], FredSwitch] = {}
        for dim, description in enumerate(platform.topology.dims):
            if description.size == 1:
                continue
            if description.kind in (DimKind.RING, DimKind.FULLY_CONNECTED):
                self._join_links(dim, constants)
            else:
                self._join_switches(kernel, dim, constants)

    def _join_links(self, dim: int, constants: FabricConstants) -> None:
        """Port p leads to the coordinate p + 1 on."""
        topology, link = self.platform.topology, self.platform.links[dim]
        grant = constants.link.grant(link.latency) + constants.ace.granted
        for rank, endpoint in self.endpoints.items():
            peers = topology.peers(rank, dim)
            place = peers.index(rank)
            sender = endpoint.dims[dim]
            sender.await_grants()
            for port, transmitter in enumerate(sender.transmitters):
                after = self.representative[peers[(place + 1 + port) % len(peers)]]
                receiver = self.endpoints[after].dims[dim]
                transmitter.outlet = RingLink(sender, receiver, link, constants, port)
                receiver.grant_to.append((sender, port, grant))

    def _join_switches(self, kernel: EventKernel, dim: int, constants: FabricConstants) -> None:
        topology, link = self.platform.topology, self.platform.links[dim]
        for rank in self.endpoints:
            peers = tuple(self.representative[peer] for peer in topology.peers(rank, dim))
            key = (dim, peers[0])
            if key in self.switches:
                continue
            engines = {peer: self.endpoints[peer].dims[dim] for peer in dict.fromkeys(peers)}
            self.switches[key] = FredSwitch(
                kernel,
                [engines[peer] for peer in peers],
                link,
                self.platform.buffer_flits(dim),
                constants,
            )

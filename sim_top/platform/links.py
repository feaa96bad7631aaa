"""Who is joined to whom on a dim whose links lead from NPU to NPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sw_model.topology import DimKind, Topology

__all__ = ["JOINED", "Joint", "joints"]

#: Kinds of dims without switches.
JOINED = (DimKind.RING, DimKind.FULLY_CONNECTED)


@dataclass(frozen=True)
class Joint:
    """A link: from a rank to a rank, at port ``port`` of the dim at both ends."""

    sender: int
    receiver: int
    port: int

    def name(self, dim: int) -> str:
        """Of its delay line."""
        if self.port:
            return f"link_{dim}_{self.sender}_{self.port}"
        return f"ring_{dim}_{self.sender}"


def joints(topology: Topology, dim: int) -> Iterator[Joint]:
    """The links of a dim: from port p of each rank to the coordinate p + 1 on. A Ring has port 0
    alone, a FullyConnected dim one for every other coordinate."""
    description = topology.dims[dim]
    if description.kind not in JOINED:
        raise ValueError(f"dim {dim + 1} must be without switches, not {description.kind.value}")
    for group in sorted({topology.peers(rank, dim) for rank in range(topology.npus)}):
        for port in range(description.links):
            for place, rank in enumerate(group):
                yield Joint(rank, group[(place + port + 1) % len(group)], port)

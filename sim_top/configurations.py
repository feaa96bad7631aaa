"""The configuration memory of the FRED switches of one dim: which flow has which index.

Every switch of a dim gets the same table when the platform starts: one all-reduce, P reduces (the
steps of a reduce-scatter) and P multicasts (the steps of an all-gather), one flow each, since all
members of a dim's group take part in every op of ours.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Flow", "FlowTable"]

Flow = tuple[tuple[int, ...], tuple[int, ...]]
"""Input coordinates and output coordinates on the dim."""


@dataclass(frozen=True)
class FlowTable:
    """Flows by configuration index.

    Parameters
    ----------
    flows : the flow that configuration 0, 1, ... carries
    """

    flows: tuple[Flow, ...]

    @classmethod
    def for_group(cls, ports: int) -> FlowTable:
        """The flows of in-network AR, RS and AG over ports 0 to ``ports - 1``."""
        everyone = tuple(range(ports))
        reduces = [(everyone, (port,)) for port in everyone]
        multicasts = [((port,), everyone) for port in everyone]
        return cls(flows=((everyone, everyone), *reduces, *multicasts))

    def index(self, flow: Flow) -> int:
        """Configuration index of a flow.

        Raises
        ------
        ValueError
            where no configuration carries it.
        """
        try:
            return self.flows.index(flow)
        except ValueError:
            raise ValueError(
                f"flow {flow[0]} > {flow[1]} must be in the configuration memory, "
                f"which holds {len(self.flows)} flows"
            ) from None

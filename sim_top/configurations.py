"""The configuration memory of the FRED switches of one dim: what runs under which index.

Every switch of a dim gets the same entries when the platform starts: for each class, data type and
operator those of :func:`sw_model.fred.dim_flows.dim_flows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.dim_flows import Ports, dim_flows
from sw_model.fred.routing import route
from sw_model.fred.table import entry_image

__all__ = ["FlowTable"]


class FlowTable:
    """Entries of the configuration memory, and the index of each.

    Parameters
    ----------
    ports, middle_copies : P and m of the switch
    kinds : (data type, operator) of the collectives that will run
    classes : of traffic that have a channel of their own; one alone stands for all
    """

    def __init__(
        self,
        ports: int,
        middle_copies: int,
        *,
        kinds: Iterable[tuple[str, str]],
        classes: Sequence[str] = ("dp",),
    ) -> None:
        shapes = dim_flows(ports)
        self.classes = tuple(classes)
        self.entries: list[Configuration] = []
        self._index: dict[tuple[Ports, str, str, str], int] = {}
        for traffic_class, (data_type, operator) in product(classes, tuple(kinds)):
            for together in shapes:
                flows = [
                    Flow(
                        inputs,
                        outputs,
                        traffic_class=traffic_class,
                        data_type=data_type,
                        operator=operator,
                    )
                    for inputs, outputs in together
                ]
                routed = route(ports, middle_copies, flows)
                assert isinstance(routed, Configuration), "a flow alone and unicasts always route"
                for shape in together:
                    key = (shape, traffic_class, data_type, operator)
                    self._index[key] = len(self.entries)
                self.entries.append(routed)

    def index(
        self, flow: Ports, data_type: str, operator: str, traffic_class: str | None = None
    ) -> int:
        """Configuration index of a flow.

        Raises
        ------
        ValueError
            where no entry carries it.
        """
        if traffic_class is None or len(self.classes) == 1:
            traffic_class = self.classes[0]
        try:
            return self._index[flow, traffic_class, data_type, operator]
        except KeyError:
            raise ValueError(
                f"flow {flow[0]} > {flow[1]} of {data_type} {operator} must be in the "
                f"configuration memory, which holds {len(self.entries)} entries"
            ) from None

    def images(self) -> list[int]:
        """By index, the bits of the entry as the host writes them."""
        return [entry_image(configuration) for configuration in self.entries]

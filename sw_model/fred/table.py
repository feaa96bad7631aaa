"""The configuration memory of a switch: which flows have which index, and what the host loads.

An entry is an integer whose fields stand side by side, the first in the least significant bits:
for every input port a member bit and the number of its flow, the same for every output port, for
every flow its class, data type and operator, and the modes of all micro-switches. The number of
a flow is its lowest input port.
"""

from __future__ import annotations

from collections.abc import Iterable

from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.construction import check_size, construct
from sw_model.fred.routing import split

__all__ = [
    "CLASS_CODES",
    "HOST_WORD_BITS",
    "OPERATOR_CODES",
    "TYPE_CODES",
    "ConfigurationTable",
    "entry_bits",
    "entry_image",
    "entry_words",
]  # fmt: skip

HOST_WORD_BITS = 32
CLASS_CODES = {"mp": 0, "pp": 1, "dp": 2, "control": 3}
TYPE_CODES = {"fp16": 0, "bf16": 1, "fp32": 2, "int32": 3}
OPERATOR_CODES = {"sum": 0, "max": 1, "min": 2}

_CLASS_BITS, _TYPE_BITS, _OPERATOR_BITS = 2, 3, 2


def entry_bits(ports: int, middle_copies: int) -> int:
    """Bits of one entry of the configuration memory."""
    member = 1 + _flow_bits(ports)
    attributes = _CLASS_BITS + _TYPE_BITS + _OPERATOR_BITS
    return ports * (2 * member + attributes) + construct(ports, middle_copies).mode_bits


def _flow_bits(ports: int) -> int:
    return (ports - 1).bit_length()


def entry_image(configuration: Configuration) -> int:
    """The entry of a configuration, as the host port of the switch takes it."""
    ports = configuration.ports
    image = shift = 0

    def field(value: int, bits: int) -> None:
        nonlocal image, shift
        image |= value << shift
        shift += bits

    for side in ("inputs", "outputs"):
        owner = {
            port: flow.inputs[0] for flow in configuration.flows for port in getattr(flow, side)
        }
        for port in range(ports):
            field(port in owner, 1)
            field(owner.get(port, 0), _flow_bits(ports))
    flows = {flow.inputs[0]: flow for flow in configuration.flows}
    for port in range(ports):
        flow = flows.get(port)
        field(CLASS_CODES[flow.traffic_class] if flow else 0, _CLASS_BITS)
        field(TYPE_CODES[flow.data_type] if flow else 0, _TYPE_BITS)
        field(OPERATOR_CODES[flow.operator] if flow else 0, _OPERATOR_BITS)
    field(configuration.modes_word(), configuration.construction.mode_bits)
    return image


def entry_words(configuration: Configuration) -> tuple[int, ...]:
    """The entry in words of 32 bits, least significant first, as the host writes them."""
    image = entry_image(configuration)
    bits = entry_bits(configuration.ports, configuration.middle_copies)
    mask = (1 << HOST_WORD_BITS) - 1
    return tuple(image >> shift & mask for shift in range(0, bits, HOST_WORD_BITS))


class ConfigurationTable:
    """Hands out indices into the configuration memory of one FRED_m(P), in order of request.

    Parameters
    ----------
    ports, middle_copies : P and m
    capacity : entries of the memory, or None for no limit
    """

    def __init__(self, ports: int, middle_copies: int, capacity: int | None = None):
        check_size(ports, middle_copies)
        self.ports = ports
        self.middle_copies = middle_copies
        self.capacity = capacity
        self._entries: list[Configuration] = []
        self._index: dict[frozenset[Flow], dict[Flow, int]] = {}

    @property
    def entries(self) -> tuple[Configuration, ...]:
        """The configurations by index."""
        return tuple(self._entries)

    def add(self, flows: Iterable[Flow]) -> dict[Flow, int]:
        """The index of each of ``flows``, which run at the same time where they can.

        The same set of flows gets the same indices again.

        Raises
        ------
        ValueError
            where a flow does not fit the switch, or the memory is full.
        """
        key = frozenset(flows)
        if key not in self._index:
            ordered = sorted(key, key=lambda flow: (flow.inputs, flow.outputs))
            found = split(self.ports, self.middle_copies, ordered)
            if self.capacity is not None and len(self._entries) + len(found) > self.capacity:
                raise ValueError(
                    f"a configuration memory of {self.capacity} entries must not be given "
                    f"{len(self._entries) + len(found)}"
                )
            base = len(self._entries)
            self._entries.extend(found)
            self._index[key] = {
                flow: base + i for i, configuration in enumerate(found)
                for flow in configuration.flows
            }  # fmt: skip
        return dict(self._index[key])

"""Packets for a FRED switch, and what comes out of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rtl.common.packet import PacketHeader
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.reduction import evaluate
from sw_model.fred.table import CLASS_CODES, OPERATOR_CODES, TYPE_CODES
from testbenches.fred_lanes import Lane, combine, random_data

__all__ = ["Header", "Packet", "control_packet", "flow_packets", "merged"]

_LAYOUT = PacketHeader.as_shape()


@dataclass(frozen=True)
class Header:
    """The fields of a packet header (see :class:`rtl.common.packet.PacketHeader`)."""

    configuration: int
    length: int
    op: int = 0
    step: int = 0
    sequence: int = 0
    traffic_class: int = CLASS_CODES["dp"]
    data_type: int = TYPE_CODES["fp16"]
    operator: int = 0
    collective: int = 0
    last: int = 1
    replay: int = 0
    poisoned: int = 0

    def pack(self) -> int:
        """The header flit's data."""
        return sum(getattr(self, name) << field.offset for name, field in _LAYOUT)


@dataclass(frozen=True)
class Packet:
    """A header and the data of each payload flit."""

    header: Header
    payload: tuple[int, ...]

    def flits(self, flit_bytes: int) -> list[int]:
        """Wire images of its flits, in order."""
        width = 8 * flit_bytes
        data = (self.header.pack(), *self.payload)
        return [
            value | (index == 0) << width | (index == len(data) - 1) << (width + 1)
            for index, value in enumerate(data)
        ]


def flow_packets(
    generator: random.Random, flow: Flow, header: Header, flit_bytes: int
) -> dict[int, Packet]:
    """One packet with random data for every input of ``flow``, their headers equal."""
    header = replace(
        header,
        traffic_class=CLASS_CODES[flow.traffic_class],
        data_type=TYPE_CODES[flow.data_type],
        operator=OPERATOR_CODES[flow.operator],
    )
    count = -(-header.length // flit_bytes)
    return {
        port: Packet(
            header, tuple(random_data(generator, flit_bytes, flow.data_type) for _ in range(count))
        )
        for port in flow.inputs
    }


def control_packet(generator: random.Random, header: Header, flit_bytes: int) -> Packet:
    """A control packet with random data; ``header.configuration`` is the port it goes to."""
    header = replace(header, traffic_class=CLASS_CODES["control"], data_type=0, operator=0)
    count = -(-header.length // flit_bytes)
    return Packet(header, tuple(generator.getrandbits(8 * flit_bytes) for _ in range(count)))


def merged(
    configuration: Configuration, flow: Flow, packets: dict[int, Packet], flit_bytes: int
) -> Packet:
    """The packet that every output of ``flow`` hears, by the model of the interconnect."""
    add = combine(flit_bytes)
    header = packets[flow.inputs[0]].header
    payload = []
    for beat in range(len(packets[flow.inputs[0]].payload)):
        lanes = {
            port: Lane(packet.payload[beat], False, False, header.data_type, header.operator)
            for port, packet in packets.items()
        }
        results = _evaluate_flow(configuration, flow, lanes, add)
        assert len(set(results)) == 1, "all outputs of a flow hear the same"
        payload.append(results[0].data)
    return Packet(header, tuple(payload))


def _evaluate_flow(configuration, flow, lanes, add) -> Sequence[Lane]:
    outputs = evaluate(configuration, lanes, add)
    assert sorted(outputs) == list(flow.outputs)
    return [outputs[port] for port in flow.outputs]

"""The data that the load sends, and what must come out, by the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rtl.common.packet import PacketHeader
from sw_model.collective.numerics import ELEMENT_TYPES, reduce
from sw_model.fred.configuration import Configuration
from sw_model.fred.reduction import evaluate
from sw_model.fred.table import CLASS_CODES, TYPE_CODES

__all__ = ["BEAT_STEP", "LANE_STEP", "PORT_STEP", "expected_digests", "headers"]

BEAT_STEP, PORT_STEP, LANE_STEP = 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35
"""Lane j (32 bits) of payload flit k of port p is k * BEAT + p * PORT + j * LANE, modulo 2**32."""


def expected_digests(
    configurations: Sequence[Configuration],
    *,
    flit_bytes: int,
    packets: int,
    period: int,
    payload_flits: int,
) -> list[int]:
    """For every output, the digest of all flits it hears, headers too.

    A digest starts at 0; each flit rotates it left by one and adds (xor) all its 32-bit lanes.
    Packets go through the configurations in turn, ``period`` at a time.
    """
    ports = configurations[0].ports
    lanes = flit_bytes // 4
    beats = np.arange(packets * payload_flits, dtype=np.uint64)[:, None]
    lane = np.arange(lanes, dtype=np.uint64)[None, :]
    words = [
        (beats * BEAT_STEP + port * PORT_STEP + lane * LANE_STEP).astype(np.uint32)
        for port in range(ports)
    ]
    heard: list[list[NDArray[np.uint32]]] = [[] for _ in range(ports)]
    for packet in range(packets):
        turn, number = divmod(packet, period)
        index = turn % len(configurations)
        chosen = slice(packet * payload_flits, (packet + 1) * payload_flits)
        values = {
            port: words[port][chosen].view(ELEMENT_TYPES["fp16"].storage) for port in range(ports)
        }
        results = evaluate(configurations[index], values, lambda a, b: reduce(a, b, "fp16", "sum"))
        header = _header(
            configuration=index,
            op=turn,
            sequence=number * payload_flits,
            length=payload_flits * flit_bytes,
            last=int(number == period - 1),
        )
        head = np.zeros((1, lanes), np.uint32)
        head[0, :4] = [header >> shift & 0xFFFFFFFF for shift in range(0, 128, 32)]
        for port in range(ports):
            heard[port] += [head, results[port].view(np.uint32)]
    return [_digest(np.concatenate(flits)) for flits in heard]


def headers(packets: int, payload_flits: int, *, flit_bytes: int) -> list[int]:
    """The headers of ``packets`` packets of one op in configuration 0."""
    return [
        _header(
            configuration=0,
            op=0,
            sequence=number * payload_flits,
            length=payload_flits * flit_bytes,
            last=int(number == packets - 1),
        )
        for number in range(packets)
    ]


def _header(**fields: int) -> int:
    fields |= {"traffic_class": CLASS_CODES["dp"], "data_type": TYPE_CODES["fp16"]}
    layout = PacketHeader.as_shape()
    return sum(
        (value & ((1 << layout[name].width) - 1)) << layout[name].offset
        for name, value in fields.items()
    )


def _digest(flits: NDArray[np.uint32]) -> int:
    folded = np.bitwise_xor.reduce(flits, axis=1)
    digest = 0
    for turn in range(32):  # flit k is rotated by (count - 1 - k) places in the end
        part = int(np.bitwise_xor.reduce(folded[::-1][turn::32], initial=np.uint32(0)))
        digest ^= (part << turn | part >> (32 - turn)) & 0xFFFFFFFF
    return digest

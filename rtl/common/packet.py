"""Flits and packet headers: what moves on every link (docs/fred.md and docs/ace.md).

A packet is one header flit followed by its payload flits. A *flit* is the unit of one cycle; its
data is little-endian: element 0 of the payload is in the least significant bits.
"""

import enum

from amaranth.hdl import unsigned
from amaranth.lib import data

__all__ = [
    "POISONED_BIT",
    "DataType",
    "Operator",
    "PacketHeader",
    "TrafficClass",
    "flit_layout",
    "header_flit_bits",
]


class DataType(enum.IntEnum):
    """Element types of a payload; the value is the code in headers and records."""

    FP16 = 0
    BF16 = 1
    FP32 = 2
    INT32 = 3


class Operator(enum.IntEnum):
    """Reduction operators; the value is the code in headers and records."""

    SUM = 0
    MAX = 1
    MIN = 2


class TrafficClass(enum.IntEnum):
    """Virtual channels in falling priority (docs/fred.md)."""

    MP = 0
    PP = 1
    DP = 2
    CONTROL = 3


def flit_layout(flit_bytes: int) -> data.StructLayout:
    """Layout of one flit.

    Members
    -------
    data : 8 * flit_bytes bits
    head : 1 bit, the flit is a packet header
    last : 1 bit, the flit is the last of its packet
    """
    if not isinstance(flit_bytes, int) or flit_bytes < 16 or flit_bytes & (flit_bytes - 1):
        raise ValueError(f"flit_bytes must be a power of two of at least 16, not {flit_bytes!r}")
    return data.StructLayout({"data": unsigned(8 * flit_bytes), "head": 1, "last": 1})


class PacketHeader(data.Struct):
    """The header flit, 128 bits; wider flits carry zeros above it.

    Members
    -------
    traffic_class : code of :class:`TrafficClass`
    data_type : code of :class:`DataType`
    operator : code of :class:`Operator`
    collective : collective id
    op : number of the op on its (class, dim) since reset, modulo 2**16; equal on all members
    step : index of the receive step, in the op's program at the receiver, that takes this message
    sequence : index of the packet's first payload flit within its message
    length : payload bytes of this packet, 1 to 65535; 0 in a void message, which is this header
        alone
    last : this packet is the last of its message
    configuration : index into the configuration memory of the FRED switch it enters
    replay : kept for the link layer's replay protocol, zero
    poisoned : the sender has given this collective up: the payload, if there is any, means nothing
    """

    traffic_class: 2
    data_type: 3
    operator: 2
    collective: 16
    op: 16
    step: 8
    sequence: 16
    length: 16
    last: 1
    configuration: 12
    replay: 16
    poisoned: 1


POISONED_BIT = PacketHeader.as_shape()["poisoned"].offset
"""Where ``poisoned`` stands in a header flit."""


def header_flit_bits() -> int:
    """Bits of a header; fits the narrowest flit of 16 bytes."""
    return PacketHeader.as_shape().size

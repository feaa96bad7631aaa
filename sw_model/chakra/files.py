"""Chakra trace files: a varint length and a message, repeated; first the metadata, then nodes.

Plain or compressed by gzip, told apart by the contents. What is read is kept whole, fields that
are not known here too, so that writing it again loses nothing.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sw_model.chakra.messages import message
from sw_model.errors import InputError

__all__ = ["SCHEMA_VERSION", "Trace", "encode_trace", "parse_trace", "read_bytes", "read_trace"]

SCHEMA_VERSION = "0.0.4"
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Trace:
    """A file's messages.

    Attributes
    ----------
    metadata : a ``GlobalMetadata``
    nodes : ``Node`` messages in the order of the file
    path : where they came from, for messages to people
    """

    metadata: Any
    nodes: list[Any]
    path: str = ""


def read_bytes(path: str | PathLike[str]) -> bytes:
    """The contents of a trace file, uncompressed.

    Raises
    ------
    InputError
        where it cannot be read, or its compression is broken.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None
    if data[:2] == _GZIP:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"must be whole gzip data: {error}", path=path) from None
    return data


def _records(data: bytes, path: str) -> Iterator[bytes]:
    """The records of ``data``."""
    position, number, size = 0, 0, len(data)
    while position < size:
        what = "the metadata" if number == 0 else f"record {number} of the nodes"
        length = shift = 0
        while True:
            if position == size or shift > 63:
                raise InputError(f"ends in the length of {what}: the trace is cut off", path=path)
            byte = data[position]
            position += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if position + length > size:
            raise InputError(
                f"ends inside {what}: {length} bytes are announced, {size - position} are there",
                path=path,
            )
        yield data[position : position + length]
        position += length
        number += 1


def parse_trace(data: bytes, path: str | PathLike[str]) -> Trace:
    """The messages in ``data``.

    Raises
    ------
    InputError
        where they are cut off, are no messages of Chakra's, or there is no node at all.
    """
    from google.protobuf.message import DecodeError

    name = fspath(path)
    if not data:
        raise InputError("must be a Chakra trace, not an empty file", path=path)
    metadata_class, node_class = message("GlobalMetadata"), message("Node")
    metadata: Any = None
    nodes: list[Any] = []
    for number, record in enumerate(_records(data, name)):
        try:
            if metadata is None:
                metadata = metadata_class.FromString(record)
            else:
                nodes.append(node_class.FromString(record))
        except DecodeError:
            what = "the metadata" if number == 0 else f"record {number} of the nodes"
            raise InputError(f"{what} must be a Chakra message in protobuf", path=path) from None
    if metadata.version not in ("", SCHEMA_VERSION):
        raise InputError(
            f"the schema version must be {SCHEMA_VERSION!r} or empty, not {metadata.version!r}",
            path=path,
        )
    if not nodes:
        raise InputError("must have at least one node, not only metadata", path=path)
    return Trace(metadata, nodes, name)


def read_trace(path: str | PathLike[str]) -> Trace:
    """Read a trace file; see `read_bytes` and `parse_trace` for errors."""
    return parse_trace(read_bytes(path), path)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode_trace(trace: Trace, *, compress: bool = False) -> bytes:
    """The contents of a file with the messages of ``trace``."""
    parts = []
    for record in (trace.metadata, *trace.nodes):
        encoded = record.SerializeToString()
        parts += [_varint(len(encoded)), encoded]
    data = b"".join(parts)
    # Without the time of day, so that the same trace gives the same file.
    return gzip.compress(data, mtime=0) if compress else data

"""Small Chakra traces for tests, and where the real ones are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sw_model.chakra.files import Trace, encode_trace
from sw_model.chakra.messages import NodeKind, message

SHARED = Path(__file__).parents[1].parent / "shared"
TRACES = SHARED / "traces"
REFERENCE = SHARED / "reference"

needs_shared = pytest.mark.skipif(
    not TRACES.is_dir(), reason="the real traces are not beside the checkout"
)


def node(
    number: int,
    kind: NodeKind,
    *,
    name: str = "",
    data: Sequence[int] = (),
    control: Sequence[int] = (),
    micros: int = 0,
    **attributes: Any,
) -> Any:
    """A node; attributes by name: text, truth values, a list of those, or int64."""
    made = message("Node")(
        id=number,
        name=name or f"n{number}",
        type=kind,
        data_deps=data,
        ctrl_deps=control,
        duration_micros=micros,
    )
    for key, value in attributes.items():
        attribute = made.attr.add(name=key)
        if isinstance(value, bool):
            attribute.bool_val = value
        elif isinstance(value, str):
            attribute.string_val = value
        elif isinstance(value, list):
            attribute.bool_list.values.extend(value)
        else:
            attribute.int64_val = value
    return made


def compute(number: int, micros: int, **more: Any) -> Any:
    """A compute node."""
    return node(number, NodeKind.COMP, micros=micros, **more)


def all_reduce(number: int, size: int, **more: Any) -> Any:
    """An all-reduce node."""
    return node(number, NodeKind.COMM_COLL, comm_type=0, comm_size=size, **more)


def send(number: int, to: int, size: int, tag: int = 0, **more: Any) -> Any:
    """A send node."""
    return node(number, NodeKind.COMM_SEND, comm_dst=to, comm_size=size, comm_tag=tag, **more)


def receive(number: int, source: int, size: int, tag: int = 0, **more: Any) -> Any:
    """A receive node."""
    return node(number, NodeKind.COMM_RECV, comm_src=source, comm_size=size, comm_tag=tag, **more)


def trace(nodes: Iterable[Any], *, version: str = "0.0.4") -> Trace:
    """A trace of these nodes."""
    return Trace(message("GlobalMetadata")(version=version), list(nodes), "t.et")


def write(folder: Path, *ranks: Iterable[Any], name: str = "w") -> Path:
    """Write the ranks' traces; their prefix."""
    for rank, nodes in enumerate(ranks):
        (folder / f"{name}.{rank}.et").write_bytes(encode_trace(trace(nodes)))
    return folder / name

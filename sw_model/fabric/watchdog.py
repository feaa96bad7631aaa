"""Says what is stuck and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sw_model.endpoint.ace import Endpoint
from sw_model.endpoint.dim_engine import Op
from sw_model.endpoint.lane import ClassLane
from sw_model.fabric.network import Network

if TYPE_CHECKING:
    from sw_model.fabric.backend import Entry

__all__ = ["blocked"]


def blocked(now: int, network: Network, entries: Sequence[Entry]) -> str:
    """A line for every collective that not all ranks have entered, and for every op, load and
    store that waits, with its rank and what it waits for."""
    lines = [f"nothing can happen any more after cycle {now}"]
    for entry in entries:
        missing = [rank for rank in network.endpoints if rank not in entry.issued]
        if missing:
            lines.append(f"{_name(entry)} has not been entered by ranks {missing}")
    for endpoint in network.endpoints.values():
        lines += _endpoint(endpoint)
    return "\n".join(lines)


def _endpoint(endpoint: Endpoint) -> Iterator[str]:
    for number, lane in enumerate(endpoint.lanes):
        where = f"rank {endpoint.rank}"
        if endpoint.engine.classes:
            where += f", class {endpoint.engine.classes[number]}"
        yield from _lane(where, lane)


def _lane(where: str, lane: ClassLane) -> Iterator[str]:
    load = lane.tx_dma.head()
    if load is not None:
        yield (
            f"{where}: the load of chunk {load.chunk} waits for release {load.epoch} of buffer "
            f"{load.buffer}"
        )
    for number, engine in enumerate(lane.dims, start=1):
        for op, cause in engine.waits():
            yield f"{where}, dim {number}: op {op.number} ({_op(op)}) waits for {cause}"
    store = lane.rx_dma.head()
    if store is not None:
        yield (
            f"{where}: the store of chunk {store.chunk} waits for fill {store.epoch + 1} of buffer "
            f"{store.buffer}"
        )


def _op(op: Op) -> str:
    entry: Entry = op.collective
    record = op.record
    phase = entry.plan.chunks[record.chunk].phases[record.phase]
    return (
        f"{phase.operation.value}, phase {record.phase + 1} of chunk {record.chunk} of "
        f"{_name(entry)}"
    )


def _name(entry: Entry) -> str:
    request = entry.plan.collective
    name = f" {request.name!r}" if request.name else ""
    return f"collective {entry.number}{name}"

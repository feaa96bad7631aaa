"""Steps of a phase that a FRED switch carries out (FRED, arXiv 2406.19580, flows and
patterns).

All-reduce is one flow. Reduce-scatter is P reduce flows in series, flow j giving coordinate j its
shard; all-gather is P multicast flows, one from each coordinate, which take their turns at the
switch as they come; the sender hears itself too, so every port hears all of them. A broadcast, a
reduce and a send are one flow each: from the root to all, from all to the root, from one to one.
"""

from __future__ import annotations

from collections.abc import Sequence

from sw_model.collective.plan import Operation, RankSteps, ReceiveStep, SendStep

__all__ = ["in_network_steps"]


def in_network_steps(
    operation: Operation,
    coordinate: int,
    bounds: Sequence[int],
    root: int = 0,
    target: int | None = None,
) -> RankSteps:
    """Send and receive steps of one coordinate; parameters as for a ring, and the coordinates
    ``root`` and ``target`` of the rooted operations."""
    size = len(bounds) - 1
    everyone = tuple(range(size))
    lengths = [bounds[j + 1] - bounds[j] for j in range(size)]
    total = bounds[size]

    def send(flow: tuple, offset: int, length: int, step: int) -> SendStep:
        return SendStep(
            peer=None,
            from_destination=False,
            offset=offset,
            length=length,
            after=None,
            copy_offset=None,
            step=step,
            flow=flow,
        )

    def receive(write_offset: int, length: int) -> ReceiveStep:
        return ReceiveStep(
            peer=None,
            reduce=False,
            into_destination=True,
            offset=0,
            write_offset=write_offset,
            length=length,
        )

    one_flow = {
        Operation.BROADCAST: ((root,), everyone),
        Operation.REDUCE: (everyone, (root,)),
        Operation.SEND: ((root,), () if target is None else (target,)),
    }
    if operation in one_flow:
        inputs, outputs = flow = one_flow[operation]
        return RankSteps(
            (send(flow, 0, total, 0),) if total and coordinate in inputs else (),
            (receive(0, total),) if total and coordinate in outputs else (),
        )
    match operation:
        case Operation.ALL_REDUCE:
            if total == 0:
                return RankSteps((), ())
            return RankSteps((send((everyone, everyone), 0, total, 0),), (receive(0, total),))
        case Operation.REDUCE_SCATTER:
            sends = tuple(
                send((everyone, (j,)), bounds[j], lengths[j], 0) for j in everyone if lengths[j]
            )
            own = lengths[coordinate]
            return RankSteps(sends, (receive(0, own),) if own else ())
        case Operation.ALL_GATHER:
            step_of: dict[int, int] = {}
            for j in everyone:
                if lengths[j]:
                    step_of[j] = len(step_of)
            own = lengths[coordinate]
            sends = (send(((coordinate,), everyone), 0, own, step_of[coordinate]),) if own else ()
            return RankSteps(sends, tuple(receive(bounds[j], lengths[j]) for j in step_of))
    raise ValueError(f"an in-network phase must be AR, RS, AG or rooted, not {operation.value!r}")

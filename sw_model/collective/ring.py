"""Steps of the unidirectional ring: coordinate i sends to i + 1 and hears from i - 1 (mod P).

Reduce-scatter and all-gather take P - 1 steps, all-reduce is the one followed by the other in the
same phase. Every message but a rank's first is the one it has just received, so it can leave
while it arrives. (Patarasu and Yuan, *Bandwidth optimal all-reduce algorithms*, JPDC 2009; which
shard starts where is decided here, so that reduce-scatter leaves shard i at coordinate i.)
"""

from __future__ import annotations

from collections.abc import Sequence

from sw_model.collective.plan import Operation, RankSteps, ReceiveStep, SendStep

__all__ = ["ring_steps"]


def ring_steps(operation: Operation, coordinate: int, bounds: Sequence[int]) -> RankSteps:
    """Send and receive steps of one coordinate.

    Parameters
    ----------
    operation : reduce-scatter, all-gather or all-reduce
    coordinate : place in the ring, 0 to P - 1
    bounds : P + 1 offsets in quanta; shard j is ``[bounds[j], bounds[j + 1])`` of the whole buffer
        (the source of a reduce-scatter, the destination of an all-gather, both of an all-reduce)
    """
    size = len(bounds) - 1
    scatter = operation is not Operation.ALL_GATHER
    gather = operation is not Operation.REDUCE_SCATTER
    gathering = size - 1 if scatter else 0  # ring step at which the all-gather begins
    before, after = (coordinate - 1) % size, (coordinate + 1) % size

    sends: list[SendStep] = []
    receives: list[ReceiveStep] = []
    previous = None  # receive step that wrote what the next send step sends
    for step in range(gathering + (size - 1 if gather else 0)):
        # Coordinate i begins a reduce-scatter with shard i - 1, and an all-gather with shard i.
        shard = (coordinate - step - (1 if scatter else 0)) % size
        offset, length = bounds[shard], bounds[shard + 1] - bounds[shard]
        if length:
            own = step == 0 and not scatter
            sends.append(
                SendStep(
                    peer=after,
                    from_destination=step >= gathering and not own,
                    offset=0 if own else offset,
                    length=length,
                    after=previous,
                    copy_offset=offset if own else None,
                    step=len(sends),
                )
            )
        shard = (shard - 1) % size
        offset, length = bounds[shard], bounds[shard + 1] - bounds[shard]
        previous = None
        if length:
            reduced = step < gathering
            complete = step == gathering - 1
            previous = len(receives)
            receives.append(
                ReceiveStep(
                    peer=before,
                    reduce=reduced,
                    into_destination=complete or not reduced,
                    offset=offset if reduced else 0,
                    write_offset=0 if complete and not gather else offset,
                    length=length,
                )
            )
    return RankSteps(tuple(sends), tuple(receives))

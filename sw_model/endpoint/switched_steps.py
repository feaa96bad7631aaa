"""Messages from NPU to NPU through a FRED switch: an all-to-all, a send.

The switch carries each as a unicast, a flow of one input and one output; what one coordinate has
for the one `distance` on is part of a rotation, all of whose flows run at the same time. Unicasts
of several senders to one receiver race, and one of a later op must not overtake one of this op
(docs/plan.md, rule 5). So a *barrier* follows them: an all-reduce of one quantum over all ports,
which the switch carries when it has carried everybody's unicasts. It is everybody's last message
and first receive step: what comes through a switch may come in any order. What it adds up means
nothing; it is written to the front of the source buffer, out of which everything has been read by
then. (Decided here.)
"""

from __future__ import annotations

from dataclasses import replace

from sw_model.collective.plan import (
    Algorithm,
    CollectivePlan,
    Operation,
    RankSteps,
    ReceiveStep,
    SendStep,
)
from sw_model.collective.steps import rank_steps
from sw_model.topology import DimKind, Topology

__all__ = ["MESSAGES", "engine_steps", "switched_dims"]

MESSAGES = (Operation.ALL_TO_ALL, Operation.SEND)
"""Operations that are messages from NPU to NPU on every kind of dim."""


def switched_dims(operation: Operation, dims: tuple[int, ...], topology: Topology) -> set[int]:
    """The FRED dims on which a collective sends messages from NPU to NPU."""
    if operation not in MESSAGES:
        return set()
    return {
        dim
        for dim in dims
        if topology.dims[dim].kind is DimKind.FRED
        and topology.dims[dim].tree is None
        and topology.dims[dim].size > 1
    }


def engine_steps(plan: CollectivePlan, chunk: int, phase: int, rank: int) -> RankSteps:
    """Steps of ``rank`` as its engine carries them out: those of the plan
    (`sw_model.collective.steps.rank_steps`), where a switch lies between with flows and a barrier.
    """
    steps = rank_steps(plan, chunk, phase, rank)
    step = plan.chunks[chunk].phases[phase]
    direct = step.algorithm is Algorithm.DIRECT
    if not direct or not switched_dims(step.operation, (step.dim,), plan.topology):
        return steps
    return _switched(
        steps, plan.topology.coordinates(rank)[step.dim], plan.topology.dims[step.dim].size
    )


def _switched(steps: RankSteps, own: int, size: int) -> RankSteps:
    """``own`` is the coordinate of the rank. What it has for itself stays a step of its own."""
    everyone = tuple(range(size))
    sends = []
    for send in steps.sends:
        assert send.peer is not None, "direct messages have peers"
        if send.peer != own:
            flow = ((own,), (send.peer,))
            send = replace(send, peer=None, flow=flow, step=send.step + 1)
        sends.append(send)
    receives = [
        receive if receive.peer == own else replace(receive, peer=None)
        for receive in steps.receives
    ]
    barrier = SendStep(
        peer=None,
        from_destination=False,
        offset=0,
        length=1,
        after=None,
        copy_offset=None,
        step=0,
        flow=(everyone, everyone),
    )
    arrival = ReceiveStep(
        peer=None, reduce=False, into_destination=False, offset=0, write_offset=0, length=1
    )
    return RankSteps((*sends, barrier), (arrival, *receives))

"""The slots of a plan: does everything run once, in turn, in buffers that are free?

Every slot runs in an order in which it can: a chunk is loaded, goes phase by phase, is stored. A
buffer is taken only after its last owner left it, with the epoch that counts its owners.
"""

from __future__ import annotations

from sw_model.collective.interpret import PlanError
from sw_model.collective.plan import BufferUse, CollectivePlan

__all__ = ["check_slots"]


def check_slots(plan: CollectivePlan) -> None:
    """Every slot once, in a possible order, in buffers that are free.

    Epochs count from whatever the plan finds: the first use of a buffer sets its count.
    """
    uses: dict[tuple[int, int], int] = {}  # buffer -> epoch of its next owner
    owner: dict[tuple[int, int], int] = {}
    at: dict[int, tuple[int, BufferUse]] = {}  # chunk -> position, buffer
    done: set[int] = set()
    next_slot: dict[tuple, int] = {}

    def take(use: BufferUse, chunk: int, where: str) -> None:
        key = (use.partition, use.buffer)
        if key in owner:
            raise PlanError(f"{where}: {_name(use)} is still in use by chunk {owner[key]}")
        if use.epoch != uses.get(key, use.epoch):
            raise PlanError(f"{where}: {_name(use)} must be taken in epoch {uses[key]}")
        uses[key] = use.epoch + 1
        owner[key] = chunk

    def leave(use: BufferUse, chunk: int, position: int, where: str) -> None:
        if chunk not in at or chunk in done:
            raise PlanError(f"{where}: chunk {chunk} is not in the engine")
        if at[chunk] != (position, use):
            raise PlanError(
                f"{where}: chunk {chunk} is at position {at[chunk][0]} in {_name(at[chunk][1])}, "
                f"not at position {position} in {_name(use)}"
            )
        del owner[use.partition, use.buffer]

    for kind, *index in plan.sequence:
        unit = (kind, *index[:-1])
        if index[-1] != next_slot.get(unit, 0):
            raise PlanError(f"slot {index[-1]} of {unit} comes out of turn")
        next_slot[unit] = index[-1] + 1
        where = f"{kind} {index[-1]}"
        if kind == "load":
            load = plan.loads[index[0]]
            if load.chunk in at:
                raise PlanError(f"{where}: chunk {load.chunk} is loaded for the second time")
            take(load.destination, load.chunk, where)
            at[load.chunk] = (0, load.destination)
        elif kind == "op":
            op = plan.ops[index[0]][index[1]]
            where = f"op {index[1]} of dim {index[0] + 1}"
            phases = plan.chunks[op.chunk].phases
            if op.phase >= len(phases) or phases[op.phase].dim != index[0]:
                raise PlanError(f"{where}: chunk {op.chunk} has no phase {op.phase} on this dim")
            take(op.destination, op.chunk, where)
            leave(op.source, op.chunk, op.phase, where)
            at[op.chunk] = (op.phase + 1, op.destination)
        else:
            store = plan.stores[index[0]]
            leave(store.source, store.chunk, len(plan.chunks[store.chunk].phases), where)
            done.add(store.chunk)
    lists = {("load",): plan.loads, ("store",): plan.stores}
    lists |= {("op", d): ops for d, ops in enumerate(plan.ops)}  # type: ignore[misc]
    for unit, slots in lists.items():
        if next_slot.get(unit, 0) != len(slots):
            raise PlanError(f"slots of {unit} are missing in the sequence")
    if done != set(range(len(plan.chunks))):
        missing = min(set(range(len(plan.chunks))) - done)
        raise PlanError(f"chunk {missing} is never stored")


def _name(use: BufferUse) -> str:
    return f"buffer {use.buffer} of partition {use.partition}, epoch {use.epoch}"

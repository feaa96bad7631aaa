"""One class of traffic at one rank, and a switch as one class sees it, in the model of
``sw_model.schedule.marked_graph``: when a load, op or store starts, and what it frees at its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sw_model.collective.plan import BufferUse, CollectivePlan
from sw_model.endpoint.switched_steps import engine_steps, switched_dims
from sw_model.schedule.marked_ports import OpPorts, PortDim, op_ports

if TYPE_CHECKING:
    from sw_model.schedule.marked_graph import Model

__all__ = ["Engine", "Rules", "Slot", "Switch"]


@dataclass(frozen=True)
class Rules:
    """The engine as the model has it, and which of its rules are kept.

    Parameters
    ----------
    contexts : per class and dim
    queue_depth : slots that wait in front of each unit
    switch_slots : messages of a class that fit into an input buffer of a switch, and into the
        receive buffer behind each of its outputs
    private_contexts : contexts belong to a (class, dim) and take ops in plan order; broken, the
        dims of a class share ``contexts`` and whoever is first takes one
    class_contexts : the classes of a rank have contexts of their own; broken, those of a dim are
        for all of them, and whoever is first takes one
    gather_order : behind an all-gather through a switch, a rank sends nothing of a later op before
        the headers of all messages of the all-gather have come in; broken, it does
    barrier : behind the unicasts of an all-to-all or a send through a switch all ports pass a
        barrier; broken, they do not
    grants : a message waits for its receiver's op, on a dim of several ports for that of all its
        peers; broken, it is sent at once, and when its op has not started at the
        receiver it blocks the link
    """

    contexts: int = 2
    queue_depth: int = 8
    switch_slots: int = 1
    private_contexts: bool = True
    class_contexts: bool = True
    gather_order: bool = True
    barrier: bool = True
    grants: bool = True


class Slot:
    """A load, op or store in the order of a rank's descriptor."""

    __slots__ = (
        "begun", "destination", "finished", "following", "key", "next", "number", "plan", "ports",
        "received", "sending", "sends", "source", "started", "total", "unit",
    )  # fmt: skip

    def __init__(self, unit: int, source: Any, destination: Any, plan: int) -> None:
        self.unit = unit
        self.source = source  # (buffer, epoch) or None
        self.destination = destination
        self.plan = plan
        self.number = 0  # of an op: on its dim, since reset
        self.key: tuple[int, int, int] = (plan, 0, 0)  # of an op: plan, chunk, phase
        self.started = self.finished = False
        self.sends: tuple = ()
        self.total = 0  # receive steps
        self.next = self.begun = self.received = 0
        self.sending = False
        self.following = False  # at the end of a message that follows one not yet there
        self.ports: OpPorts | None = None  # on a dim of several ports


_LOAD, _STORE, _DIM = 0, 1, 2


def _slots(plan: CollectivePlan) -> list[tuple]:
    """(unit, source, destination, chunk, phase) in the order of the descriptor."""
    found = plan.derived.get("slots")
    if found is None:

        def buffer(use: BufferUse) -> tuple[tuple[int, int], int]:
            return (use.partition, use.buffer), use.epoch

        found = plan.derived["slots"] = []
        for kind, *at in plan.sequence:
            if kind == "load":
                found.append((_LOAD, None, buffer(plan.loads[at[0]].destination), 0, 0))
            elif kind == "store":
                found.append((_STORE, buffer(plan.stores[at[0]].source), None, 0, 0))
            else:
                op = plan.ops[at[0]][at[1]]
                where = buffer(op.source), buffer(op.destination)
                found.append((_DIM + at[0], *where, op.chunk, op.phase))
    return found


class Engine:
    """One class at one rank."""

    def __init__(self, model: Model, rank: int, name: str, plans: Sequence[CollectivePlan]) -> None:
        self.model = model
        self.rank = rank
        self.name = name
        dims = len(model.topology.dims)
        self.slots: list[Slot] = []
        self.stores_left = [len(plan.stores) for plan in plans]
        units = 2 + dims
        self.queues: list[deque[Slot]] = [deque() for _ in range(units)]
        self.busy = [False, False]  # DMA
        self.fills: dict[tuple[int, int], int] = {}
        self.releases: dict[tuple[int, int], int] = {}
        self.cursor = 0
        self.pool = model.rules.contexts
        self.ops: list[list[Slot]] = [[] for _ in range(dims)]  # by number
        self.named: list[dict[tuple[int, int, int], Slot]] = [{} for _ in range(dims)]
        self.live: list[list[Slot]] = [[] for _ in range(dims)]  # started, not finished
        self.count = [0] * dims  # ops started
        self.granted = [0] * dims
        self.credits = [model.rules.switch_slots] * dims
        self.inbox: list[deque[tuple]] = [deque() for _ in range(dims)]
        self.inbox_busy = [False] * dims
        self.port_dims = {
            dim: PortDim(model, self, dim, where.links)
            for dim, where in enumerate(model.topology.dims)
            if where.links > 1
        }
        for index, plan in enumerate(plans):
            self._compile(index, plan)

    def _compile(self, index: int, plan: CollectivePlan) -> None:
        for unit, source, destination, chunk, phase in _slots(plan):
            slot = Slot(unit, source, destination, index)
            if unit >= _DIM:
                ops = self.ops[unit - _DIM]
                slot.number, slot.key = len(ops), (index, chunk, phase)
                self.named[unit - _DIM][slot.key] = slot
                ops.append(slot)
                slot.sends, slot.total = self._steps(plan, chunk, phase)
                if unit - _DIM in self.port_dims:
                    slot.ports = op_ports(plan, chunk, phase, unit - _DIM, self.rank)
                    program = slot.ports.program
                    slot.sends = tuple(step for part in program.sends for step in part)
                    slot.total = sum(len(part) for part in program.receives)
            self.slots.append(slot)

    def _steps(self, plan: CollectivePlan, chunk: int, phase: int) -> tuple[tuple, int]:
        """Send steps, and how many receive steps, of an op."""
        steps = engine_steps(plan, chunk, phase, self.rank)
        step = plan.chunks[chunk].phases[phase]
        sends, total = steps.sends, len(steps.receives)
        if switched_dims(step.operation, (step.dim,), plan.topology):
            # What it has for itself passes no switch; the barrier is everybody's last message.
            total -= len(sends) - sum(send.flow is not None for send in sends)
            sends = tuple(send for send in sends if send.flow is not None)
            if not self.model.rules.barrier:
                sends, total = sends[:-1], total - 1
        return sends, total

    # Starting slots.

    def poke(self) -> None:
        """Dispatch and start whatever can."""
        model, moved = self.model, True
        while moved:
            moved = False
            while self.cursor < len(self.slots):
                slot = self.slots[self.cursor]
                queue = self.queues[slot.unit]
                if len(queue) >= model.rules.queue_depth or not model.issued(self, slot.plan):
                    break
                queue.append(slot)
                self.cursor += 1
                moved = True
            queues = self.queues
            if not model.rules.private_contexts:  # timing decides who takes a shared context
                queues = sorted(queues, key=lambda _: model.random())
            for queue in queues:
                while queue and self._can_start(queue[0]):
                    moved = True
                    self._start(queue.popleft())

    def _can_start(self, slot: Slot) -> bool:
        if slot.source is not None:
            buffer, epoch = slot.source
            if self.fills.get(buffer, 0) != epoch + 1:
                return False
        if slot.destination is not None:
            buffer, epoch = slot.destination
            if self.releases.get(buffer, 0) != epoch:
                return False
        if slot.unit < _DIM:
            return not self.busy[slot.unit]
        rules = self.model.rules
        if not rules.private_contexts:
            return self.pool > 0
        if not rules.class_contexts:
            engines = self.model.engines[self.rank].values()
            if sum(len(e.live[slot.unit - _DIM]) for e in engines) >= rules.contexts:
                return False
        before = slot.number - rules.contexts
        return before < 0 or self.ops[slot.unit - _DIM][before].finished

    def _start(self, slot: Slot) -> None:
        slot.started = True
        if slot.unit < _DIM:
            self.busy[slot.unit] = True
            self.model.later(self.rank, self._dma_done, slot)
            return
        dim = slot.unit - _DIM
        self.pool -= 1
        self.live[dim].append(slot)
        self.count[dim] += 1
        if not slot.sends and not slot.total:
            self.model.later(self.rank, self._op_done, slot)
        self.model.started(self, dim)

    # Ending slots.

    def _dma_done(self, slot: Slot) -> None:
        self.busy[slot.unit] = False
        slot.finished = True
        if slot.unit == _LOAD:
            buffer, _ = slot.destination
            self.fills[buffer] = self.fills.get(buffer, 0) + 1
        else:
            buffer, _ = slot.source
            self.releases[buffer] = self.releases.get(buffer, 0) + 1
            self.stores_left[slot.plan] -= 1
            if not self.stores_left[slot.plan]:
                self.model.poke_rank(self.rank)
        self.poke()

    def end(self, slot: Slot) -> None:
        """Finish an op whose steps are all done."""
        if slot.next == len(slot.sends) and slot.received == slot.total and not slot.finished:
            self._op_done(slot)

    def _op_done(self, slot: Slot) -> None:
        slot.finished = True
        self.pool += 1
        self.live[slot.unit - _DIM].remove(slot)
        buffer, _ = slot.destination
        self.fills[buffer] = self.fills.get(buffer, 0) + 1
        buffer, _ = slot.source
        self.releases[buffer] = self.releases.get(buffer, 0) + 1
        if self.model.rules.class_contexts:
            self.poke()
        else:
            self.model.poke_rank(self.rank)

    def sendable(self, dim: int) -> tuple[Slot, Any] | None:
        """The next message: of the oldest op on ``dim`` whose next send step is ready."""
        for slot in self.live[dim]:
            if slot.sending or slot.next == len(slot.sends):
                continue
            step = slot.sends[slot.next]
            if step.after is not None and slot.begun <= step.after:
                continue
            if step.flow is not None:
                return (slot, step) if self.credits[dim] and self._in_order(dim, slot) else None
            if self.model.rules.grants and slot.number >= self.granted[dim]:
                continue
            return slot, step
        return None

    def _in_order(self, dim: int, slot: Slot) -> bool:
        """Whether nothing that other members still have to send could come after ``slot``.

        Of the flows of an all-gather each has one input, so a quick member could overtake a slow
        one by a whole op. Where a rank hears more messages than it sends, it waits until it has
        heard the last of them before it goes on to the next op.
        """
        if not self.model.rules.gather_order:
            return True
        for older in self.live[dim]:
            if older is slot:
                return True
            if older.total > len(older.sends) and older.begun < older.total:
                return False
        raise AssertionError("a started op is live until it ends")

    def stuck(self) -> str:
        """Where this engine stands."""
        parts = []
        for dim, live in enumerate(self.live):
            for slot in live:
                parts.append(
                    f"op {slot.number} of dim {dim + 1} sent {slot.next} of {len(slot.sends)} and "
                    f"received {slot.received} of {slot.total}"
                )
        waiting = [f"{len(q)} before unit {u}" for u, q in enumerate(self.queues) if q]
        text = "; ".join(parts + waiting)
        return f"rank {self.rank}, class {self.name}: {text or 'nothing issued'}"


class Switch:
    """A FRED switch as one class sees it."""

    def __init__(self, model: Model, dim: int, engines: Sequence[Engine]) -> None:
        self.model = model
        self.dim = dim
        self.engines = engines
        self.inputs: list[deque[tuple]] = [deque() for _ in engines]
        self.room = [model.rules.switch_slots for _ in engines]

    def arrive(self, engine: Engine, message: tuple) -> None:
        self.inputs[self.engines.index(engine)].append(message)
        self.fire()

    def returned(self, output: int) -> None:
        self.room[output] += 1
        self.fire()

    def fire(self) -> None:
        """Start every flow whose inputs all hold its message and whose outputs have room."""
        moved = True
        while moved:
            moved = False
            for queue in self.inputs:
                if not queue:
                    continue
                message = queue[0]
                inputs, outputs = message[2]
                ready = all(self.inputs[i] and self.inputs[i][0] == message for i in inputs)
                if ready and all(self.room[o] for o in outputs):
                    moved = True
                    self._run(message[0], inputs, outputs)

    def _run(
        self, key: tuple[int, int, int], inputs: Sequence[int], outputs: Sequence[int]
    ) -> None:
        model, dim = self.model, self.dim
        for i in inputs:
            self.inputs[i].popleft()
            model.post(model.latency[self.engines[i].rank][dim], self._credit, i)
        for o in outputs:
            self.room[o] -= 1
            model.post(model.latency[self.engines[o].rank][dim], self._deliver, o, key)

    def _credit(self, coordinate: int) -> None:
        engine = self.engines[coordinate]
        engine.credits[self.dim] += 1
        self.model.transmit(engine.rank, self.dim)

    def _deliver(self, coordinate: int, key: tuple[int, int, int]) -> None:
        engine = self.engines[coordinate]
        engine.inbox[self.dim].append((key, (self, coordinate)))
        self.model.accept(engine, self.dim)

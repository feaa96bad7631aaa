"""A model of the engines' rules under arbitrary timing: can the ranks get stuck?

All ranks execute their plans with random delays of every transfer and every rank, under the rules
of docs/plan.md (*Deadlock*): ops start in plan order with a private context and reserved buffers,
receivers grant, on a dim of several ports all of them, and may wait there with a message for one at
another port (``sw_model.schedule.marked_ports``), a FRED switch starts a flow when all inputs hold
its message and all outputs have room. The model knows messages, not flits, and no data.

It can also break a rule, to show that the rule is needed and that the model would notice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from sw_model.collective.plan import CollectivePlan
from sw_model.errors import DeadlockError
from sw_model.schedule.marked_engine import Engine, Rules, Slot, Switch
from sw_model.topology import Topology

__all__ = ["CLASSES", "Program", "Rules", "run_program"]

#: Traffic classes in falling priority for a free port.
CLASSES = ("mp", "pp", "dp")


@dataclass(frozen=True)
class Program:
    """What all ranks run.

    Parameters
    ----------
    plans : by class, in program order, planned one after another with one ``PlannerState``
    after : (class, index) -> (class, index) of collectives that must be complete *at that rank*
        before this one is issued there; must not be cyclic, with the order within each class
    """

    plans: Mapping[str, Sequence[CollectivePlan]]
    after: Mapping[tuple[str, int], Sequence[tuple[str, int]]] | None = None


def run_program(
    program: Program,
    rng: random.Random,
    rules: Rules | None = None,
    *,
    by_rank: Callable[[int, CollectivePlan], CollectivePlan] | None = None,
) -> int:
    """Run a program on all ranks with random timing.

    Parameters
    ----------
    rng : of all delays
    by_rank : replaces the plan at a rank, to let ranks disagree on its order; messages find their
        op by chunk and phase then, as well as ever

    Returns
    -------
    int
        the time at which the last rank was done

    Raises
    ------
    DeadlockError
        naming the ranks that are stuck, and where.
    """
    return Model(program, rng, rules or Rules(), by_rank).run()


class Model:
    """All ranks, ports and switches."""

    def __init__(
        self,
        program: Program,
        rng: random.Random,
        rules: Rules,
        by_rank: Callable[[int, CollectivePlan], CollectivePlan] | None,
    ) -> None:
        self.rules = rules
        self.random = rng.random
        self.agree = by_rank is None
        self.after = program.after or {}
        self.topology: Topology = next(p[0].topology for p in program.plans.values() if p)
        self.now = 0
        self.serial = 0
        self.events: list[tuple] = []
        ranks = range(self.topology.npus)
        # Half of all ranks are quick, some are slow: stragglers matter most.
        self.slowness = [(1, 1, 4, 30)[int(4 * self.random())] for _ in ranks]
        names = [name for name in CLASSES if program.plans.get(name)]
        self.engines = [
            {
                name: Engine(
                    self,
                    rank,
                    name,
                    [p if by_rank is None else by_rank(rank, p) for p in program.plans[name]],
                )
                for name in names
            }
            for rank in ranks
        ]
        dims = range(len(self.topology.dims))
        self.port_busy = [[False for _ in dims] for _ in ranks]
        self.latency = [[self._delay(1) for _ in dims] for _ in ranks]
        self.peers = [[self.topology.peers(rank, dim) for dim in dims] for rank in ranks]
        self.switches: dict[tuple, Switch] = {}
        for name in names:
            for dim in dims:
                for group in {self.peers[rank][dim] for rank in ranks}:
                    self.switches[name, dim, group] = Switch(
                        self, dim, [self.engines[r][name] for r in group]
                    )

    def _delay(self, slowness: int) -> int:
        draw = self.random()
        return 1 + int(slowness * (4 * draw if draw < 0.75 else 40 * draw))

    def post(self, delay: int, action: Callable[..., None], *arguments: Any) -> None:
        self.serial += 1
        heappush(self.events, (self.now + delay, self.serial, action, arguments))

    def later(self, rank: int, action: Callable[..., None], *arguments: Any) -> None:
        """Do something after a random time, which depends on the rank."""
        self.post(self._delay(self.slowness[rank]), action, *arguments)

    def run(self) -> int:
        for engines in self.engines:
            for engine in engines.values():
                self.later(engine.rank, engine.poke)
        events = self.events
        while events:
            self.now, _, action, arguments = heappop(events)
            action(*arguments)
        stuck = [e for engines in self.engines for e in engines.values() if any(e.stores_left)]
        if stuck:
            raise DeadlockError(
                f"{len(stuck)} engines are stuck: " + "; ".join(e.stuck() for e in stuck[:4])
            )
        return self.now

    def issued(self, engine: Engine, plan: int) -> bool:
        """Whether the rank's program has come to a collective."""
        return all(
            not self.engines[engine.rank][name].stores_left[index]
            for name, index in self.after.get((engine.name, plan), ())
        )

    def poke_rank(self, rank: int) -> None:
        for engine in self.engines[rank].values():
            engine.poke()

    # Messages.

    def started(self, engine: Engine, dim: int) -> None:
        """An op has started: grant it to whoever sends here, and look at its own messages."""
        if dim in engine.port_dims:
            engine.port_dims[dim].started()
            return
        group = self.peers[engine.rank][dim]
        sender = group[group.index(engine.rank) - 1]
        upstream = self.engines[sender][engine.name]
        self.post(self.latency[engine.rank][dim], self.grant, upstream, dim, engine.count[dim])
        self.transmit(engine.rank, dim)
        self.accept(engine, dim)

    def grant(self, engine: Engine, dim: int, count: int) -> None:
        engine.granted[dim] = count
        self.transmit(engine.rank, dim)

    def transmit(self, rank: int, dim: int) -> None:
        """Begin the next message on a free port, of the highest class that has one."""
        if self.port_busy[rank][dim]:
            return
        for engine in self.engines[rank].values():
            chosen = engine.sendable(dim)
            if chosen is None:
                continue
            slot, step = chosen
            self.port_busy[rank][dim] = True
            slot.sending = True
            if step.flow is not None:
                engine.credits[dim] -= 1
            else:
                target = self.peers[rank][dim][step.peer]
                receiver = self.engines[target][engine.name]
                self.post(self.latency[rank][dim], self.begin, receiver, dim, slot.key)
            self.later(rank, self.sent, engine, dim, slot)
            return

    def sent(self, engine: Engine, dim: int, slot: Slot) -> None:
        """The last flit is ready to leave, once that which it follows has arrived."""
        step = slot.sends[slot.next]
        if step.after is not None and slot.received <= step.after:
            slot.following = True
            return
        slot.next += 1
        slot.sending = False
        self.port_busy[engine.rank][dim] = False
        latency = self.latency[engine.rank][dim]
        if step.flow is not None:
            switch = self.switches[engine.name, dim, self.peers[engine.rank][dim]]
            self.post(latency, switch.arrive, engine, (slot.key, step.step, step.flow))
        else:
            target = self.peers[engine.rank][dim][step.peer]
            receiver = self.engines[target][engine.name]
            self.post(latency, self.arrive, receiver, dim, slot.key)
        engine.end(slot)
        self.transmit(engine.rank, dim)

    def begin(self, engine: Engine, dim: int, key: tuple[int, int, int]) -> None:
        """The first flit of a ring message arrives."""
        op = engine.named[dim][key]
        if self.rules.grants and self.agree:
            assert op.started, f"rank {engine.rank}: an ungranted message"
        if op.started:
            op.begun += 1
            self.transmit(engine.rank, dim)

    def arrive(self, engine: Engine, dim: int, key: tuple[int, int, int]) -> None:
        """The last flit of a message arrives at a rank."""
        engine.inbox[dim].append((key, None))
        self.accept(engine, dim)

    def accept(self, engine: Engine, dim: int) -> None:
        """Write the oldest message that has arrived; it blocks the others until its op starts."""
        inbox = engine.inbox[dim]
        if engine.inbox_busy[dim] or not inbox or not engine.named[dim][inbox[0][0]].started:
            return
        engine.inbox_busy[dim] = True
        op, credit = engine.named[dim][inbox[0][0]], inbox[0][1]
        if credit is not None:
            op.begun += 1
            self.transmit(engine.rank, dim)
        self.later(engine.rank, self.written, engine, dim)

    def written(self, engine: Engine, dim: int) -> None:
        key, credit = engine.inbox[dim].popleft()
        engine.inbox_busy[dim] = False
        op = engine.named[dim][key]
        op.received += 1
        op.begun = max(op.begun, op.received)  # without grants its begin can be missed
        if op.following and op.received > op.sends[op.next].after:
            op.following = False
            self.later(engine.rank, self.sent, engine, dim, op)
        if credit is not None:
            switch, output = credit
            self.post(self.latency[engine.rank][dim], switch.returned, output)
        engine.end(op)
        self.transmit(engine.rank, dim)
        self.accept(engine, dim)

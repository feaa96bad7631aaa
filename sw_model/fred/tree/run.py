"""Running collectives on a tree of switches, every move at a random time."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sw_model.errors import DeadlockError
from sw_model.fred.tree.case import CLASSES, Collective, Flow, Link, Tree, flows_of
from sw_model.fred.tree.rules import Rules
from sw_model.fred.tree.switch import Channel, Packet, Switch

__all__ = ["Outcome", "run_tree"]


@dataclass(frozen=True)
class Outcome:
    """A run that came to its end: moves made, and the most packets that passed a ready class in a
    switch."""

    moves: int
    most_passed: int


class _Rank:
    """A rank: one sender for each class, and always room for what comes."""

    def __init__(
        self,
        number: int,
        program: list[Collective],
        tree: Tree,
        channel: Callable[[Link, int], Channel],
        rules: Rules,
        rng: random.Random,
    ) -> None:
        self.number = number
        self.rng = rng
        here = tree.switch(number)
        self.up = [channel(("rank", number, "L1", here, 0), c) for c in range(len(CLASSES))]
        self.down = [channel(("L1", here, "rank", number, 0), c) for c in range(len(CLASSES))]
        self.left = {
            c.number: c.packets * ((number in c.sources) + (number in c.sinks)) for c in program
        }
        self.programs: list[list[Collective]] = [
            [c for c in program if c.traffic_class == k and number in c.sources]
            for k in range(len(CLASSES))
        ]
        if not rules.agreed_order:
            for one in self.programs:
                rng.shuffle(one)
        self.sent = [0] * len(CLASSES)
        self.leaving: list[Packet | None] = [None] * len(CLASSES)

    def act(self) -> bool:
        """Begin or end a packet of some class, or take one that has come."""
        moves = [self._take, self._end, self._begin]
        first = int(self.rng.random() * 3)
        return any(moves[(first + k) % 3]() for k in range(3))

    def _begin(self) -> bool:
        for k in self._classes():
            program = self.programs[k]
            if self.leaving[k] is not None or not program or self.up[k].room <= 0:
                continue
            collective = program[0]
            if any(self.left.get(earlier) for earlier in collective.after):
                continue
            self.up[k].room -= 1
            self.leaving[k] = self.up[k].begin(collective.number, self.sent[k])
            return True
        return False

    def _end(self) -> bool:
        for k in self._classes():
            packet = self.leaving[k]
            if packet is None:
                continue
            self.leaving[k] = None
            self.up[k].end(packet)
            self.sent[k] += 1
            if self.sent[k] == self.programs[k][0].packets:
                self.programs[k].pop(0)
                self.sent[k] = 0
            self.left[packet.collective] -= 1
            return True
        return False

    def _take(self) -> bool:
        for k in self._classes():
            queue = self.down[k].queue
            if queue and queue[0].whole:
                self.left[queue.pop(0).collective] -= 1
                self.down[k].free()
                return True
        return False

    def _classes(self) -> Sequence[int]:
        first = int(self.rng.random() * 3)
        return (first, (first + 1) % 3, (first + 2) % 3)

    def waiting(self) -> str | None:
        """For a watchdog: what it does not send, and why."""
        for k, program in enumerate(self.programs):
            if program and self.up[k].room > 0:
                open_ = [number for number in program[0].after if self.left.get(number)]
                return f"rank {self.number}: collective {program[0].number} waits for {open_}"
        return None


def run_tree(
    tree: Tree,
    program: Sequence[Collective],
    rng: random.Random,
    *,
    rules: Rules | None = None,
    room: int = 1,
    late: Sequence[int] = (),
) -> Outcome:
    """Run a program of collectives, in the one global order, to its end.

    Every begin and end of a packet is a move of its own; which of the possible ones is next is
    drawn, so that any move may take any time. The configurations of each switch are drawn too:
    flows that use different ports may share one, and those of one collective do.

    Parameters
    ----------
    program : collectives by number; ``after`` names earlier ones
    rules : by default all of ours
    room : packets that every class has credits for on every link
    late : ranks that begin at some later time, or when nothing else can move

    Raises
    ------
    DeadlockError
        where nothing can move before the end, with the links that wait for each other.
    """
    rules = rules or Rules()
    channels: dict[tuple[Link, int], Channel] = {}

    def channel(link: Link, traffic_class: int) -> Channel:
        key = (link, traffic_class if rules.private_buffers else 0)
        if key not in channels:
            size = room if rules.private_buffers else room * len(CLASSES)
            channels[key] = Channel(link, size)
        return channels[key]

    by_switch: dict[tuple[str, int], list[Flow]] = defaultdict(list)
    for collective in program:
        for flow in flows_of(tree, collective):
            by_switch[flow.switch].append(flow)
    agents: dict[tuple[str, int], _Rank | Switch] = {
        place: Switch(_configured(flows, rng), channel, rules, rng)
        for place, flows in by_switch.items()
    }
    members = sorted({rank for collective in program for rank in collective.members})
    for number in members:
        mine = [c for c in program if number in c.members]
        agents["rank", number] = _Rank(number, mine, tree, channel, rules, rng)

    asleep = [("rank", number) for number in late if ("rank", number) in agents]
    awake = [place for place in agents if place not in asleep]
    listed = set(agents)  # awake or asleep: nothing to do to wake it

    def waker(place: tuple[str, int]) -> Callable[[], None]:
        def wake() -> None:
            if place not in listed and place in agents:
                listed.add(place)
                awake.append(place)

        return wake

    for (link, _), one in channels.items():
        one.wake_writer = waker((link[0], link[1]))
        one.wake_reader = waker((link[2], link[3]))

    moves = 0
    while awake or asleep:
        if asleep and (not awake or rng.random() < 0.01):
            awake.append(asleep.pop())
        index = int(rng.random() * len(awake))
        place = awake[index]
        if agents[place].act():
            moves += 1
            continue
        awake[index] = awake[-1]
        awake.pop()
        listed.remove(place)
    switches = [agent for agent in agents.values() if isinstance(agent, Switch)]
    ranks = [agent for agent in agents.values() if isinstance(agent, _Rank)]
    if any(any(rank.left.values()) for rank in ranks):
        raise DeadlockError(_blocked(agents))
    return Outcome(moves, max(switch.most_passed for switch in switches))


def _configured(flows: list[Flow], rng: random.Random) -> list[tuple[Flow, int]]:
    """Flows with the configurations that hold them, those of one collective in one."""
    by_collective: dict[int, list[Flow]] = defaultdict(list)
    for flow in flows:
        by_collective[flow.collective.number].append(flow)
    used: list[set[tuple[str, Link]]] = []
    found = []
    for together in by_collective.values():
        ports = {("in", link) for flow in together for link in flow.inputs}
        ports |= {("out", link) for flow in together for link in flow.outputs}
        fitting = [index for index, taken in enumerate(used) if not taken & ports]
        if fitting and rng.random() < 0.5:
            index = rng.choice(fitting)
        else:
            index = len(used)
            used.append(set())
        used[index] |= ports
        found += [(flow, index) for flow in together]
    return found


def _blocked(agents: dict[tuple[str, int], _Rank | Switch]) -> str:
    lines = ["no packet can move any more"]
    for place, agent in agents.items():
        if isinstance(agent, Switch):
            lines += [f"{place[0]} {place[1]}: {text}" for text in agent.waiting()]
        elif (text := agent.waiting()) is not None:
            lines.append(text)
    return "\n".join(lines)

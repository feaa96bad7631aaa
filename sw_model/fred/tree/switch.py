"""A switch of a tree: which packets start, and when they end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sw_model.fred.tree.case import CLASSES, Flow, Link
from sw_model.fred.tree.rules import Rules

__all__ = ["Channel", "Packet", "Switch"]


class Packet:
    """One packet in a buffer; ``whole`` : its last flit has come too."""

    __slots__ = ("collective", "sequence", "whole")

    def __init__(self, collective: int, sequence: int) -> None:
        self.collective = collective
        self.sequence = sequence
        self.whole = False


@dataclass(eq=False)
class Channel:
    """The buffer of a class at the end of a link. A packet occupies it from its start before the
    link to its end behind it.

    Attributes
    ----------
    room : packets that it has credits for
    queue : packets that have not been started from here
    wake_reader, wake_writer : to be called where something comes, or becomes free
    """

    link: Link
    room: int
    queue: list[Packet] = field(default_factory=list)
    wake_reader: Callable[[], None] = lambda: None
    wake_writer: Callable[[], None] = lambda: None

    def begin(self, collective: int, sequence: int) -> Packet:
        """A packet begins to come; its credit has been taken."""
        packet = Packet(collective, sequence)
        self.queue.append(packet)
        self.wake_reader()
        return packet

    def end(self, packet: Packet) -> None:
        """Its last flit has come."""
        packet.whole = True
        self.wake_reader()

    def free(self) -> None:
        """A packet has left; its credit goes back."""
        self.room += 1
        self.wake_writer()


class _Lane:
    """A flow in its switch: where its packets are.

    ``taken`` : the packets under way; ``made`` : what they become at the outputs; ``held`` :
    outputs whose credit it has taken before it could start.
    """

    __slots__ = (
        "configuration", "held", "inputs", "made", "next", "number", "outputs", "packets", "taken",
        "traffic_class",
    )  # fmt: skip

    def __init__(self, flow: Flow, configuration: int, channel: Callable[[Link, int], Channel]):
        collective = flow.collective
        self.number = collective.number
        self.traffic_class = collective.traffic_class
        self.packets = collective.packets
        self.configuration = configuration
        self.inputs = [channel(link, self.traffic_class) for link in flow.inputs]
        self.outputs = [channel(link, self.traffic_class) for link in flow.outputs]
        self.next = 0
        self.taken: list[Packet] | None = None
        self.made: list[Packet] = []
        self.held: set[int] = set()

    def complete(self) -> bool:
        """All inputs hold the next packet at their heads."""
        if self.taken is not None or self.next == self.packets:
            return False
        for channel in self.inputs:
            queue = channel.queue
            if not queue or queue[0].collective != self.number or queue[0].sequence != self.next:
                return False
        return True

    def missing(self) -> list[Channel]:
        """Inputs whose head is not the next packet."""
        number, sequence = self.number, self.next
        return [
            channel
            for channel in self.inputs
            if not channel.queue
            or channel.queue[0].collective != number
            or channel.queue[0].sequence != sequence
        ]


class Switch:
    """One switch. :meth:`act` makes one move; nothing else happens in it.

    Parameters
    ----------
    flows : the flows through it, each with the number of its configuration
    channel : gives the channel of a link and class
    rules : see :class:`Rules`
    rng : which of several possible moves is made

    Attributes
    ----------
    most_passed : most packets that passed a class with a ready packet, over all classes
    """

    def __init__(
        self,
        flows: list[tuple[Flow, int]],
        channel: Callable[[Link, int], Channel],
        rules: Rules,
        rng: random.Random,
    ) -> None:
        self.rules = rules
        self.rng = rng
        self.lanes = [_Lane(flow, configuration, channel) for flow, configuration in flows]
        self.moving: list[_Lane] = []
        self.active: int | None = None
        self.passed = [0] * len(CLASSES)
        self.most_passed = 0
        self._committed: _Lane | None = None
        self._phase: int | None = None

    def act(self) -> bool:
        """End a packet, or start one; whether anything could be done."""
        if self.rng.random() < 0.5:
            return self._end() or self._start()
        return self._start() or self._end()

    def _end(self) -> bool:
        """A packet of which everything has come leaves."""
        ready = [lane for lane in self.moving if all(packet.whole for packet in lane.taken or ())]
        if not ready:
            return False
        lane = ready[int(self.rng.random() * len(ready))]
        self.moving.remove(lane)
        lane.taken = None
        for channel, packet in zip(lane.outputs, lane.made, strict=True):
            channel.end(packet)
        for channel in lane.inputs:
            channel.free()
        return True

    def _start(self) -> bool:
        """Of the ready packets the best starts, or another one of the active configuration."""
        complete = [lane for lane in self.lanes if lane.complete()]
        if not self.rules.by_flow:
            complete = self._only_committed(complete)
        if self.rules.all_ports:
            complete = self._only_phase(complete)
        if not complete:
            return False
        if not self.rules.whole_credit and self._hold(complete):
            return True
        ready = [lane for lane in complete if self._funded(lane)]
        if not ready:
            return False
        best = ready[0] if len(ready) == 1 else min(ready, key=self._rank)
        if self.moving and best.configuration != self.active:
            return False  # what is under way ends, and nothing else starts
        chosen = best
        if len(ready) > 1:
            fitting = [lane for lane in ready if lane.configuration == best.configuration]
            if not self._starving(best) and self.rng.random() < 0.5:
                chosen = self.rng.choice(fitting)
            self._count(chosen, ready)
        else:
            self.passed[chosen.traffic_class] = 0
        self._take(chosen)
        return True

    def _rank(self, lane: _Lane) -> tuple[bool, int, int]:
        return (not self._starving(lane), lane.traffic_class, lane.number)

    def _starving(self, lane: _Lane) -> bool:
        bound = self.rules.starvation_bound
        return bound is not None and self.passed[lane.traffic_class] >= bound

    def _funded(self, lane: _Lane) -> bool:
        return all(
            place in lane.held or channel.room > 0 for place, channel in enumerate(lane.outputs)
        )

    def _count(self, chosen: _Lane, ready: list[_Lane]) -> None:
        self.passed[chosen.traffic_class] = 0
        for other in {lane.traffic_class for lane in ready} - {chosen.traffic_class}:
            self.passed[other] += 1
            self.most_passed = max(self.most_passed, self.passed[other])

    def _take(self, lane: _Lane) -> None:
        self.active = lane.configuration
        self._committed = None
        lane.taken = [channel.queue.pop(0) for channel in lane.inputs]
        lane.made = []
        for place, channel in enumerate(lane.outputs):
            if place not in lane.held:
                channel.room -= 1
            lane.made.append(channel.begin(lane.number, lane.next))
        lane.held.clear()
        lane.next += 1
        self.moving.append(lane)

    # What the rules replace

    def _only_committed(self, complete: list[_Lane]) -> list[_Lane]:
        """Without ``by_flow``: the switch waits for the flow that it has settled on."""
        if self._committed is None:
            begun = [
                lane
                for lane in self.lanes
                if lane.taken is None
                and lane.next < lane.packets
                and len(lane.missing()) < len(lane.inputs)
            ]
            if begun:
                self._committed = min(begun, key=self._rank)
        return [lane for lane in complete if lane is self._committed]

    def _only_phase(self, complete: list[_Lane]) -> list[_Lane]:
        """With ``all_ports``: one class at a time, entered when all its ports hold a packet."""
        holding = {
            number: [
                any(packet.collective in collectives for packet in channel.queue)
                for channel in channels
            ]
            for number, (collectives, channels) in self._ports_by_class().items()
        }
        if self._phase is not None and not any(holding[self._phase]) and not self.moving:
            self._phase = None
        for number in sorted(holding):
            if self._phase is not None and number >= self._phase:
                break
            if all(holding[number]):
                self._phase = number
                break
        return [lane for lane in complete if lane.traffic_class == self._phase]

    def _ports_by_class(self) -> dict[int, tuple[set[int], list[Channel]]]:
        found: dict[int, tuple[set[int], list[Channel]]] = {}
        for lane in self.lanes:
            collectives, channels = found.setdefault(lane.traffic_class, (set(), []))
            collectives.add(lane.number)
            channels += [channel for channel in lane.inputs if channel not in channels]
        return found

    def _hold(self, complete: list[_Lane]) -> bool:
        """Without ``whole_credit``: a flow takes one more credit, and keeps it."""
        wanted = [
            (lane, place)
            for lane in complete
            for place, channel in enumerate(lane.outputs)
            if place not in lane.held and channel.room > 0
        ]
        if not wanted:
            return False
        lane, place = self.rng.choice(wanted)
        lane.outputs[place].room -= 1
        lane.held.add(place)
        return True

    def waiting(self) -> Iterator[str]:
        """For a watchdog: packets that wait here, for which links or credits."""
        for lane in self.lanes:
            if lane.taken is not None or lane.next >= lane.packets:
                continue
            missing = lane.missing()
            if len(missing) == len(lane.inputs):
                continue
            there = [channel for channel in lane.inputs if channel not in missing]
            what = f"packet {lane.next} of collective {lane.number}"
            if missing:
                yield f"{what} waits at {_names(there)} for {_names(missing)}"
            elif dry := [channel for channel in lane.outputs if channel.room <= 0]:
                yield f"{what} waits at {_names(there)} for credit of {_names(dry, output=True)}"
            else:
                yield f"{what} waits at {_names(there)} for the switch"


def _names(channels: list[Channel], *, output: bool = False) -> str:
    side = 2 if output else 0
    names = [
        f"{channel.link[side]} {channel.link[side + 1]}"
        + (f"/{channel.link[4]}" if "L2" in channel.link else "")
        for channel in channels
    ]
    return ", ".join(names)

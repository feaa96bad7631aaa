"""The steps of an op as the ports of a dim carry them out.

A plan has two lists of steps for a rank (`sw_model.collective.plan.RankSteps`). An engine has a
transmitter and a receiver on every port, each with a program of its own, all of which run at once
(docs/ace.md, *Programs*). So every step is given to its port, is numbered there, and says what it
must wait for at other ports:

* a send step, for the receive steps that write to its range, and for the send step that copies to
  it;
* a receive step that adds to a sum, for the receive step that wrote the sum so far.

A step has room for one wait. Where a send step needs more, *local* steps that only wait stand in
front of it. What a rank has for itself is a local step too: a move within the SRAM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sw_model.collective.plan import RankSteps, ReceiveStep, SendStep
from sw_model.errors import InputError
from sw_model.topology import Dim, DimKind

__all__ = ["PortProgram", "PortReceive", "PortSend", "Wait", "port_program"]

Flow = tuple[tuple[int, ...], tuple[int, ...]]


class Wait(NamedTuple):
    """What a step waits for.

    Attributes
    ----------
    port, step : a receive step of the same op, by port and number there
    whole : until it has ended; else flit i follows flit i
    sent : it is a send step, and its copy must be written
    """

    port: int
    step: int
    whole: bool
    sent: bool = False


class PortSend(NamedTuple):
    """A send step of a port; as `SendStep`, but for

    ``wait`` : what it waits for; ``local`` : nothing goes to the link; ``step`` : the receive step
    at the receiver, among those of its port.
    """

    from_destination: bool
    offset: int
    length: int
    wait: Wait | None
    copy_offset: int | None
    local: bool
    step: int
    flow: Flow | None


class PortReceive(NamedTuple):
    """A receive step of a port; as `ReceiveStep`, and what it waits for."""

    reduce: bool
    into_destination: bool
    offset: int
    write_offset: int
    length: int
    wait: Wait | None


@dataclass(frozen=True, slots=True)
class PortProgram:
    """The steps of one op at one rank, by port."""

    sends: tuple[tuple[PortSend, ...], ...]
    receives: tuple[tuple[PortReceive, ...], ...]

    @property
    def longest(self) -> int:
        """Steps of the longest program of a port."""
        return max(len(part) for part in (*self.sends, *self.receives))


def port_program(steps: RankSteps, dim: Dim, coordinate: int, number: int) -> PortProgram:
    """The programs of the ports of a rank.

    Parameters
    ----------
    steps : of the rank
    dim, coordinate : on which they are carried out, and the rank's place there
    number : index of the dim, for messages

    Raises
    ------
    InputError
        where no port leads to a peer, or a sum depends on more steps than one can wait for.
    """
    return _Compiler(dim, coordinate, number).compile(steps)


class _Compiler:
    def __init__(self, dim: Dim, coordinate: int, number: int) -> None:
        self.dim = dim
        self.own = coordinate
        self.number = number
        self.sends: list[list[PortSend]] = [[] for _ in range(dim.links)]
        self.receives: list[list[PortReceive]] = [[] for _ in range(dim.links)]
        # By number in the plan's list: port and number there, None where it uses no link.
        self.places: list[tuple[int, int] | None] = []
        self.latest: dict[int, tuple[int]] = {}  # by port, the last receive step so far
        # By receive step: how many steps of each port have ended when it has.
        self.ended: list[list[int]] = []

    def compile(self, steps: RankSteps) -> PortProgram:
        for send in steps.sends:
            if send.peer != self.own:
                self._port(send.peer, 1)
        for receive in steps.receives:
            self._receive(receive, steps.receives)
        own = iter([step for step in steps.receives if step.peer == self.own])
        counts: dict[int | None, int] = {}
        copies: list[tuple[SendStep, tuple[int, int]]] = []
        for step in steps.sends:
            if step.peer == self.own:
                target = next(own)
                self.sends[0].append(
                    PortSend(
                        step.from_destination, step.offset, step.length, None,
                        target.write_offset, True, 0, None,
                    )
                )  # fmt: skip
                continue
            port = self._port(step.peer, 1)
            there = step.step if step.flow is not None else counts.setdefault(step.peer, 0)
            counts[step.peer] = there + 1
            self._send(step, port, there, steps.receives, copies)
            if step.copy_offset is not None:
                copies.append((step, (port, len(self.sends[port]) - 1)))
        return PortProgram(
            tuple(tuple(part) for part in self.sends), tuple(tuple(part) for part in self.receives)
        )

    def _port(self, peer: int | None, way: int) -> int:
        """The port to a peer, or with ``way`` -1 from one."""
        if self.dim.kind is DimKind.FRED:
            if peer is not None:
                raise InputError(
                    f"the port of dim {self.number + 1}, a Fred, must send what its switch reduces "
                    f"or multicasts, not messages to coordinate {peer}: an engine there runs "
                    "in-network programs only"
                )
            return 0
        if peer is None:
            raise InputError(
                f"dim {self.number + 1}, a {self.dim.kind.value}, must run messages from NPU to "
                "NPU: no switch there reduces or multicasts"
            )
        distance = way * (peer - self.own) % self.dim.size
        if self.dim.kind is DimKind.FULLY_CONNECTED:
            return distance - 1
        if distance != 1:
            onward = (self.own + way) % self.dim.size
            does = (
                f"send from coordinate {self.own} to" if way > 0 else f"bring {self.own} what is of"
            )
            raise InputError(
                f"the port of dim {self.number + 1}, a {self.dim.kind.value}, must {does} "
                f"{onward}, not {'to' if way > 0 else 'of'} {peer}: an engine has programs of the "
                "ring alone there"
            )
        return 0

    def _receive(self, step: ReceiveStep, all_steps: Sequence[ReceiveStep]) -> None:
        number = len(self.places)
        if step.peer == self.own:
            self.places.append(None)
            self.ended.append([])
            return
        port = self._port(step.peer, -1)
        waits: list[int] = []
        if step.reduce:
            waits = self._last_of(all_steps[:number], False, step.offset, step.length)
            if len(waits) > 1:
                raise InputError(
                    f"receive step {number} on dim {self.number + 1} must add to what one step "
                    f"wrote, not to what steps {waits} did"
                )
        wait = self._wait(waits[0], all_steps, step.offset, step.length) if waits else None
        here = len(self.receives[port])
        ended = [0] * self.dim.links
        for n in (*self.latest.get(port, ()), *waits):
            ended = [max(pair) for pair in zip(ended, self.ended[n], strict=True)]
        ended[port] = here + 1
        self.ended.append(ended)
        self.latest[port] = (number,)
        self.places.append((port, here))
        self.receives[port].append(
            PortReceive(
                step.reduce,
                step.into_destination,
                step.offset,
                step.write_offset,
                step.length,
                wait,
            )
        )

    def _send(
        self,
        step: SendStep,
        port: int,
        there: int,
        receives: Sequence[ReceiveStep],
        copies: Sequence[tuple[SendStep, tuple[int, int]]],
    ) -> None:
        buffer, offset = step.from_destination, step.offset
        low, high = offset, offset + step.length
        waits = []
        if step.after is not None:
            waits = self._last_of(receives[: step.after + 1], buffer, offset, step.length)
        found = [self._wait(n, receives, offset, step.length) for n in waits]
        for copied, place in copies if buffer else ():
            at = copied.copy_offset
            assert at is not None
            if (at, copied.length) == (offset, step.length) and not copied.from_destination:
                buffer, offset = False, copied.offset  # the same data, where it came from
            elif at < high and low < at + copied.length:
                found.append(Wait(*place, True, True))
        if len(found) > 1:
            found = [wait._replace(whole=True) for wait in found]
        for wait in found[:-1]:
            self.sends[port].append(
                PortSend(step.from_destination, step.offset, 1, wait, None, True, 0, None)
            )
        self.sends[port].append(
            PortSend(
                buffer, offset, step.length, found[-1] if found else None,
                step.copy_offset, False, there, step.flow,
            )
        )  # fmt: skip

    def _last_of(
        self, steps: Sequence[ReceiveStep], destination: bool, offset: int, length: int
    ) -> list[int]:
        """Of the receive steps that write to a range, those that end after all others."""
        out: list[int] = []
        for n in range(len(steps) - 1, -1, -1):
            step, place = steps[n], self.places[n]
            if (
                place is not None
                and step.into_destination == destination
                and step.write_offset < offset + length
                and offset < step.write_offset + step.length
                and not any(place[1] < self.ended[other][place[0]] for other in out)
            ):
                out.append(n)
                if self.dim.links == 1:
                    break
        return out[::-1]

    def _wait(self, number: int, receives: Sequence[ReceiveStep], offset: int, length: int) -> Wait:
        """A wait for a receive step by what reads a range."""
        step, place = receives[number], self.places[number]
        assert place is not None
        return Wait(*place, (step.write_offset, step.length) != (offset, length))

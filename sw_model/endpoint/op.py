"""An op while it runs at one rank: how far each of its ports is."""

from __future__ import annotations

from typing import Any

from sw_model.endpoint.programs import Record, Send

__all__ = ["NEVER", "Lane", "Op"]

NEVER = 1 << 62
"""A cycle that is not known yet."""


class Lane:
    """The send steps of an op at one port.

    Attributes
    ----------
    sends : all of them
    next : index of the next one
    held : cycle from which it is known to the transmit unit
    ready : cycle from which it may be chosen
    left : by step so far, cycle in which its last flit left
    """

    __slots__ = ("held", "left", "next", "ready", "sends")

    def __init__(self, sends: tuple[Send, ...]) -> None:
        self.sends = sends
        self.next = 0
        self.held = NEVER
        self.ready = NEVER
        self.left: list[int] = []


class Op:
    """One op of one rank, from its record to its end.

    Attributes
    ----------
    number : on its dim, since reset
    begun : FRED dims: cycle from which on the last packet of every known message is arriving
    heard : the same once all its messages are known
    lanes : by port
    sending : send steps whose end is not known
    receiving : receive steps whose end is not known
    first, last : by port and receive step, cycles in which its first and last flit are written
    left : cycle in which the last flit sent so far leaves
    written : cycle in which the last flit received so far is written
    """

    __slots__ = (
        "begun", "collective", "first", "heard", "lanes", "last", "left", "number", "receiving",
        "record", "sending", "start", "written",
    )  # fmt: skip

    def __init__(self, number: int, record: Record, collective: Any) -> None:
        program = record.program
        assert program is not None
        self.number = number
        self.record = record
        self.collective = collective
        self.lanes = [Lane(sends) for sends in program.sends]
        self.sending = program.steps
        self.receiving = program.receives
        self.start = NEVER
        self.begun = 0
        self.heard = NEVER
        self.first = [[NEVER] * len(waits) for waits in program.waits]
        self.last = [[NEVER] * len(waits) for waits in program.waits]
        self.left = 0
        self.written = 0

    @property
    def sends(self) -> tuple[Send, ...]:
        """Send steps at the first port."""
        return self.lanes[0].sends

"""What the classes share in a FRED switch: its ports' links, and whose flow is carried next."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from sw_model.endpoint.class_turns import ClassTurns
from sw_model.endpoint.dim_engine import NEVER
from sw_model.engine import EventKernel
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.shared_port import SharedGate, SharedPort
from sw_model.platform import LinkParameters

if TYPE_CHECKING:
    from sw_model.fabric.fred_switch import FredSwitch

__all__ = ["SharedSwitch"]


class SharedSwitch:
    """One flow at a time, of the class whose turn it is.

    Parameters
    ----------
    kernel : event kernel
    link : of every port
    constants : pipeline constants
    packet_flits : payload flits of a full packet

    Attributes
    ----------
    up, down : by port, the link into the switch, and the rate of the one out of it
    free : cycle from which the next flow may start
    """

    def __init__(
        self,
        kernel: EventKernel,
        link: LinkParameters,
        constants: FabricConstants,
        packet_flits: int,
    ) -> None:
        self.kernel = kernel
        self.up: defaultdict[int, SharedPort] = defaultdict(
            lambda: SharedPort(kernel, link.rate, constants.ace, packet_flits)
        )
        self.down: defaultdict[int, SharedGate] = defaultdict(lambda: SharedGate(link.rate, 1))
        self.free = 0
        self.turns = ClassTurns()
        self._switches: list[FredSwitch] = []
        self._wake = NEVER

    def join(self, switch: FredSwitch) -> int:
        """A class's view of the switch; its number."""
        self._switches.append(switch)
        return len(self._switches) - 1

    def look(self, cycle: int) -> None:
        """Arbitrate in ``cycle``, unless an earlier look is due."""
        cycle = max(cycle, self.free, self.kernel.now)
        if cycle < self._wake:
            self._wake = cycle
            self.kernel.decide(cycle, self._arbitrate, cycle)

    def _arbitrate(self, cycle: int) -> None:
        if cycle != self._wake:
            return
        self._wake = NEVER
        ready = {}
        soonest = NEVER
        for lane, switch in enumerate(self._switches):
            chosen, later = switch.candidate(cycle)
            if chosen is not None:
                ready[lane] = chosen
            soonest = min(soonest, later)
        if ready:
            lane = self.turns.choose(ready)
            switch = self._switches[lane]
            self.turns.begin(lane, switch.packets(ready[lane]), ready)
            switch.start(ready[lane], cycle)
            if len(ready) > 1:
                soonest = min(soonest, self.free)
        if soonest != NEVER:
            self.look(soonest)

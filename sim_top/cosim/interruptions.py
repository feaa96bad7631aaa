"""Packets that a higher class interrupts on the links of NPUs, counted on the RTL from outside.

An engine counts the flits and headers that it sends of each class. Read in every cycle, the counts
tell whose flit every one is, so that a packet with flits of another class between its own is seen.
"""

from __future__ import annotations

from collections import Counter

from rtl.ace.counters import COUNTER_BITS, DimCounters, engine_counters
from sim_top.platform.control import PlatformControl

__all__ = ["InterruptedPackets", "RunningPackets"]

_MASK = (1 << COUNTER_BITS) - 1


class RunningPackets:
    """The packets of all classes on one link, flit by flit.

    Parameters
    ----------
    classes : that share the link

    Attributes
    ----------
    interrupted : by class and other class, packets of the one between whose flits some of the
        other were sent
    """

    def __init__(self, classes: int) -> None:
        self.interrupted: Counter[tuple[int, int]] = Counter()
        self._since: list[set[int]] = [set() for _ in range(classes)]  # its last flit, by class
        self._inside: list[set[int]] = [set() for _ in range(classes)]  # its last packet, by class

    def flit(self, of: int, *, header: bool) -> None:
        """The next flit on the link."""
        if header:
            self._inside[of].clear()
        else:
            new = self._since[of] - self._inside[of]
            self._inside[of] |= new
            self.interrupted.update((of, other) for other in new)
        self._since[of].clear()
        for other, since in enumerate(self._since):
            if other != of:
                since.add(of)


class InterruptedPackets:
    """Lets the platform run, and stops it in every cycle to see what it has sent.

    Only for a platform of one dim whose NPUs have one link each.

    Parameters
    ----------
    control : the running platform
    """

    def __init__(self, control: PlatformControl) -> None:
        self.control = control
        topology = control.platform.topology
        (dim,) = topology.dims
        if dim.links != 1:
            raise ValueError(f"an NPU must have one link to be watched, not {dim.links}")
        lanes = control.platform.engine.lanes
        layout = engine_counters(1, lanes)
        start, size = layout["dims"].offset, DimCounters.as_shape().size
        fields = DimCounters.as_shape()
        self._places = [
            (start + lane * size + fields["flits_sent"].offset,
             start + lane * size + fields["headers_sent"].offset)
            for lane in range(lanes)
        ]  # fmt: skip
        dut = control.shell.dut
        self._ports = [getattr(dut, f"counters__{rank}") for rank in range(topology.npus)]
        self._links = [RunningPackets(lanes) for _ in self._ports]
        self._words = [0] * topology.npus
        self._sent = [[(0, 0)] * lanes for _ in self._ports]

    async def run(self, until: int | None) -> None:
        """As :meth:`PlatformControl.run`."""
        control = self.control
        control.shell.write("capture", 1)
        done = control.completed()
        while control.completed() == done and (until is None or control.cycle < until):
            await control.run(control.cycle + 1)
            self._look()

    def _look(self) -> None:
        for rank, port in enumerate(self._ports):
            word = int(port.value)
            if word == self._words[rank]:
                continue
            self._words[rank] = word
            now = [(word >> a & _MASK, word >> b & _MASK) for a, b in self._places]
            before, self._sent[rank] = self._sent[rank], now
            for lane, (old, new) in enumerate(zip(before, now, strict=True)):
                if new != old:
                    assert new[0] == old[0] + 1, "a link takes a flit in a cycle"
                    self._links[rank].flit(lane, header=new[1] != old[1])

    def total(self) -> dict[tuple[int, int], int]:
        """By class and other class, packets interrupted on the links of all NPUs."""
        return dict(sum((link.interrupted for link in self._links), Counter()))

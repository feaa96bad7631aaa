"""A monitor of one AXI4 port: the rules of the protocol, and what the engine promises beyond."""

from __future__ import annotations

from typing import Any

from cocotb.triggers import FallingEdge

__all__ = ["AxiMonitor", "stays"]

_PAYLOAD = {
    "aw": ("awaddr", "awlen", "awsize", "awburst", "awid", "awprot", "awqos", "awcache"),
    "ar": ("araddr", "arlen", "arsize", "arburst", "arid", "arprot", "arqos", "arcache"),
    "w": ("wdata", "wstrb", "wlast"),
}


async def stays(dut: Any, valid: str, ready: str, *payload: str) -> None:
    """Fail where a channel that the DUT drives withdraws or changes what was not taken."""
    held: tuple[int, ...] | None = None
    while True:
        await FallingEdge(dut.clk)
        if int(dut.rst.value):
            continue
        now = None
        if int(getattr(dut, valid).value):
            now = tuple(int(getattr(dut, name).value) for name in payload)
        assert held in (None, now), f"{valid}: {held} became {now} before it was taken"
        held = None if now is None or int(getattr(dut, ready).value) else now


class AxiMonitor:
    """Watches one port of a manager in every cycle, and fails where a rule is broken.

    Checked: what is valid stays, unchanged, until it is ready; bursts are INCR, of whole flits,
    within 4 KiB, not longer than allowed, with the promised ID and attributes; ``wlast`` falls
    where ``awlen`` says, and no data comes before its address; no more bursts are outstanding than
    allowed.

    Parameters
    ----------
    dut : cocotb's handle
    prefix : of the port's names
    expected : attributes of all bursts: ``flit_bytes``, ``burst_beats``, ``reads``, ``writes``,
        ``read_id``, ``write_id``, ``prot``, ``qos``, ``cache``

    Attributes
    ----------
    bursts : by channel, beats of every burst
    most : by channel, most bursts outstanding at once
    """

    def __init__(self, dut: Any, prefix: str, expected: dict[str, int]) -> None:
        self._dut = dut
        self._prefix = prefix
        self._expected = expected
        self.bursts: dict[str, list[int]] = {"aw": [], "ar": []}
        self.outstanding = {"aw": 0, "ar": 0}
        self.most = {"aw": 0, "ar": 0}
        self._held: dict[str, tuple[int, ...] | None] = dict.fromkeys(_PAYLOAD)
        self._beats: list[int] = []  # beats that W owes, by burst

    def _value(self, name: str) -> int:
        return int(getattr(self._dut, f"{self._prefix}_{name}").value)

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            await FallingEdge(self._dut.clk)
            if int(self._dut.rst.value):
                continue
            for channel in _PAYLOAD:
                self._sample(channel)
            if self._value("rvalid") and self._value("rready") and self._value("rlast"):
                self.outstanding["ar"] -= 1
            if self._value("bvalid") and self._value("bready"):
                self.outstanding["aw"] -= 1
            assert min(self.outstanding.values()) >= 0, self.outstanding

    def _sample(self, channel: str) -> None:
        held = self._held[channel]
        if not self._value(f"{channel}valid"):
            assert held is None, f"{self._prefix}_{channel}valid fell before it was taken"
            return
        payload = tuple(self._value(name) for name in _PAYLOAD[channel])
        assert held in (None, payload), f"{self._prefix}_{channel} changed before it was taken"
        if not self._value(f"{channel}ready"):
            self._held[channel] = payload
            return
        self._held[channel] = None
        if channel == "w":
            self._data(last=payload[2])
        else:
            self._burst(channel, payload)

    def _burst(self, channel: str, payload: tuple[int, ...]) -> None:
        address, length, size, burst, identity, prot, qos, cache = payload
        e = self._expected
        beats = length + 1
        who = f"{self._prefix}_{channel} {address:#x} of {beats} beats"
        assert (burst, 1 << size) == (1, e["flit_bytes"]), who
        assert address % e["flit_bytes"] == 0, f"{who} is not aligned"
        assert beats <= e["burst_beats"], f"{who} is too long"
        last = address + beats * e["flit_bytes"] - 1
        assert address // 4096 == last // 4096, f"{who} crosses 4 KiB"
        assert identity == e["read_id" if channel == "ar" else "write_id"], who
        assert (prot, qos, cache) == (e["prot"], e["qos"], e["cache"]), who
        self.bursts[channel].append(beats)
        self.outstanding[channel] += 1
        self.most[channel] = max(self.most[channel], self.outstanding[channel])
        assert self.outstanding[channel] <= e["reads" if channel == "ar" else "writes"], who
        if channel == "aw":
            self._beats.append(beats)

    def _data(self, *, last: int) -> None:
        assert self._beats, f"{self._prefix}: data without an address"
        self._beats[0] -= 1
        assert bool(last) == (self._beats[0] == 0), f"{self._prefix}: wlast is misplaced"
        if last:
            del self._beats[0]

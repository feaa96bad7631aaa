"""A FRED switch between senders that never pause and receivers that never wait."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import DataType, PacketHeader, TrafficClass
from rtl.fred.switch import FredSwitch
from sim_top.fred_traffic.pattern import BEAT_STEP, LANE_STEP, PORT_STEP

__all__ = ["FredTraffic"]


class FredTraffic(wiring.Component):
    """Sends packets into every port as fast as credits allow, and measures what comes out.

    Packets go through configuration 0, 1, 0, ... in turn, ``period`` packets at a time; every
    port takes part in both. A receiver takes every flit at once.

    Parameters
    ----------
    switch : the switch under load; its links have no flight time
    payload_flits : payload of each packet

    Members
    -------
    configure, configured, refusal : those of the switch
    start : In, high to send
    packets, period : In, packets to send at each port, and before the configuration changes
    alternate : In, 1 to change the configuration after each period
    done : Out, everything has come out
    error : Out, that of the switch
    entered : Out, cycle of the first flit into the switch
    first, last : Out, cycle of the first and the last flit out of each port
    flits, digest : Out, how many came out of each port, and a digest of them
    received, sent : Out, the switch's own counters of flits in and out of each port
    ended : Out, everything has come out, or the switch reports an error
    """

    def __init__(self, switch: FredSwitch, *, payload_flits: int) -> None:
        self._switch = switch
        self.payload_flits = payload_flits
        members = switch.signature.members
        words = data.ArrayLayout(32, switch.ports)
        super().__init__(
            {
                "configure": members["configure"],
                "configured": members["configured"],
                "refusal": members["refusal"],
                "start": In(1),
                "packets": In(16),
                "period": In(16),
                "alternate": In(1),
                "done": Out(1),
                "error": Out(1),
                "entered": Out(32),
                "first": Out(words),
                "last": Out(words),
                "flits": Out(words),
                "digest": Out(words),
                "received": Out(words),
                "sent": Out(words),
                "ended": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.switch = switch = self._switch
        wiring.connect(m, wiring.flipped(self.configure), switch.configure)
        m.d.comb += [
            self.configured.eq(switch.configured),
            self.refusal.eq(switch.refusal),
            self.error.eq(switch.error),
            self.received.eq(switch.received),
            self.sent.eq(switch.sent),
            self.ended.eq(self.done | self.error),
        ]
        cycle = Signal(32)
        m.d.sync += cycle.eq(cycle + 1)
        sending = Signal(switch.ports)
        for port in range(switch.ports):
            self._send(m, port, sending)
            self._receive(m, port, cycle)
        seen = Signal()
        with m.If(sending.any() & ~seen):
            m.d.sync += [seen.eq(1), self.entered.eq(cycle)]

        total = Signal(32)
        m.d.sync += total.eq(self.packets * (self.payload_flits + 1))
        m.d.sync += self.done.eq(
            self.start & Cat(self.flits[p] == total for p in range(switch.ports)).all()
        )
        return m

    def _send(self, m: Module, port: int, sending: Signal) -> None:
        switch = self._switch
        wire = switch.i[port]
        lanes = [
            Signal(
                32,
                name=f"lane_{port}_{j}",
                init=(port * PORT_STEP + j * LANE_STEP) & 0xFFFFFFFF,
            )
            for j in range(switch.flit_bytes // 4)
        ]
        credits = Signal(range(switch.input_depth + 1), init=switch.input_depth)
        sent = Signal(16, name=f"sent_{port}")  # packets
        number = Signal(16, name=f"number_{port}")  # packet within its period
        turn = Signal(16, name=f"turn_{port}")
        beat = Signal(range(self.payload_flits + 1), name=f"beat_{port}")
        header = Signal(PacketHeader, name=f"header_{port}")
        go = Signal(name=f"go_{port}")
        m.d.comb += [
            go.eq(self.start & (sent != self.packets) & credits.any()),
            sending[port].eq(go),
            header.traffic_class.eq(TrafficClass.DP),
            header.data_type.eq(DataType.FP16),
            header.op.eq(turn),
            header.sequence.eq(number * self.payload_flits),
            header.length.eq(self.payload_flits * switch.flit_bytes),
            header.last.eq(number == self.period - 1),
            header.configuration.eq(turn[0] & self.alternate),
            wire.valid.eq(go),
            wire.flit.data.eq(Cat(lanes)),
            wire.flit.last.eq(beat == self.payload_flits),
        ]
        with m.If(beat == 0):
            m.d.comb += [wire.flit.data.eq(Value.cast(header)), wire.flit.head.eq(1)]
        with m.If(go != wire.credit):
            m.d.sync += credits.eq(credits - go + wire.credit)
        with m.If(go):
            m.d.sync += beat.eq(beat + 1)
            with m.If(beat != 0):
                m.d.sync += [lane.eq(lane + Const(BEAT_STEP, 32)) for lane in lanes]
            with m.If(wire.flit.last):
                m.d.sync += [beat.eq(0), sent.eq(sent + 1), number.eq(number + 1)]
                with m.If(header.last):
                    m.d.sync += [number.eq(0), turn.eq(turn + 1)]

    def _receive(self, m: Module, port: int, cycle: Signal) -> None:
        wire = self._switch.o[port]
        credit = Signal(name=f"credit_{port}")
        m.d.sync += credit.eq(wire.valid)
        m.d.comb += wire.credit.eq(credit)
        folded = Signal(32, name=f"folded_{port}")
        m.d.comb += folded.eq(
            _xor(wire.flit.data.word_select(j, 32) for j in range(self._switch.flit_bytes // 4))
        )
        with m.If(wire.valid):
            m.d.sync += [
                self.last[port].eq(cycle),
                self.flits[port].eq(self.flits[port] + 1),
                self.digest[port].eq(self.digest[port].rotate_left(1) ^ folded),
            ]
            with m.If(self.flits[port] == 0):
                m.d.sync += self.first[port].eq(cycle)


def _xor(values: Any) -> Value:
    result: Any = 0
    for value in values:
        result = result ^ value
    return result

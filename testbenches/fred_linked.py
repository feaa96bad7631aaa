"""A FRED switch with a link to and from every port: streams in, streams out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import flit_layout
from rtl.fred.switch import FredSwitch
from rtl.link.delay import LinkDelay
from rtl.link.receiver import LinkReceiver
from rtl.link.transmitter import LinkTransmitter

__all__ = ["LinkedSwitch"]


class LinkedSwitch(wiring.Component):
    """Transmitter, flight, switch, flight, receiver, for each port.

    Parameters
    ----------
    switch : with at least two channels
    latency : cycles of every flight
    depth : flits that the receivers hold, by channel: the ``output_credits`` of the switch

    Members
    -------
    i, o : streams, channel after channel and port after port
    configure, configured, refusal, errors, idle : of the switch
    overrun : one bit per port and channel: a receiver lost a flit
    """

    def __init__(self, switch: FredSwitch, *, latency: int, depth: Sequence[int]):
        self._switch = switch
        self.latency = latency
        self.depth = tuple(depth)
        members = switch.signature.members
        flits = stream.Signature(flit_layout(switch.flit_bytes))
        places = switch.ports * switch.channels
        super().__init__(
            {
                "i": In(flits).array(places),
                "o": Out(flits).array(places),
                **{name: members[name] for name in ("configure", "configured", "refusal")},
                "errors": members["errors"],
                "idle": Out(1),
                "overrun": Out(places),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.switch = switch = self._switch
        size = {"flit_bytes": switch.flit_bytes, "channels": switch.channels}
        wiring.connect(m, wiring.flipped(self.configure), switch.configure)
        m.d.comb += [
            self.configured.eq(switch.configured),
            self.refusal.eq(switch.refusal),
            self.errors.eq(switch.errors),
            self.idle.eq(switch.idle),
        ]
        for port in range(switch.ports):
            transmitter = LinkTransmitter(
                credits=switch.input_depth,
                rate=switch.rate,
                starvation_bound=switch.starvation_bound,
                **size,
            )
            receiver = LinkReceiver(depth=self.depth, **size)
            up, down = (LinkDelay(latency=self.latency, **size) for _ in range(2))
            m.submodules[f"transmitter_{port}"] = transmitter
            m.submodules[f"receiver_{port}"] = receiver
            m.submodules[f"up_{port}"] = up
            m.submodules[f"down_{port}"] = down
            wiring.connect(m, transmitter.o, up.i)
            wiring.connect(m, up.o, switch.i[port])
            wiring.connect(m, switch.o[port], down.i)
            wiring.connect(m, down.o, receiver.i)
            for channel in range(switch.channels):
                place = channel * switch.ports + port
                wiring.connect(m, wiring.flipped(self.i[place]), transmitter.i[channel])
                wiring.connect(m, receiver.o[channel], wiring.flipped(self.o[place]))
                m.d.comb += self.overrun[place].eq(receiver.overrun[channel])
        return m

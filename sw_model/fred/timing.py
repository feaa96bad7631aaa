"""Cycles of the FRED switch, for the transaction-level model; tests hold the RTL to them.

"From a to b" is the number of cycles from the cycle in which a happens to that of b. On the wire
means: ``valid`` is high at the port of the switch.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FRED_TIMING", "FredTiming"]


@dataclass(frozen=True)
class FredTiming:
    """Pipeline depths of a switch.

    Attributes
    ----------
    adder_depth : register levels of an adder
    receive : header on the last input wire of a flow to the same header out of its link buffer
    look_up : header out of the link buffer to its packet, with its flow known, at the scheduler
    match : packets of all inputs at the scheduler, and the credits there, to their start
    go : start of a packet to its header taken into the interconnect
    turn : last flit of a packet taken to the header of the next on the same ports taken, at
        least, whether their configurations are equal or not
    credit : credit on an output's wire back to the start of a packet that uses it, at least
    look_ahead : flits that an input holds beside its link buffer
    look_ahead_packets : packets whose headers an input has seen, at most
    """

    adder_depth: int = 2
    receive: int = 1
    look_up: int = 2
    match: int = 1
    go: int = 1
    turn: int = 1
    credit: int = 2
    look_ahead: int = 8
    look_ahead_packets: int = 4

    @property
    def reducing_stage(self) -> int:
        """Cycles of an R or RD switch: the adder and an output register."""
        return self.adder_depth + 1

    @property
    def distributing_stage(self) -> int:
        """Cycles of a D switch: an output register."""
        return 1

    def interconnect(self, ports: int) -> int:
        """Cycles of FRED_m(ports): L reducing and L - 1 distributing stages, L = ceil(log2 P)."""
        levels = (ports - 1).bit_length()
        return levels * self.reducing_stage + (levels - 1) * self.distributing_stage

    @property
    def start(self) -> int:
        """Header on the last input wire of a flow to the header taken into the interconnect."""
        return self.receive + self.look_up + self.match + self.go

    def latency(self, ports: int) -> int:
        """Header on the last input wire of a flow to that on its output wires."""
        return self.start + self.interconnect(ports)

    @property
    def reconfiguration(self) -> int:
        """Idle cycles of a port between two configurations that are both ready."""
        return self.turn - 1

    def output_credits(self, ports: int, packet_flits: int, link_latency: int) -> int:
        """Fewest credits of an output with which packets of ``packet_flits`` (header included)
        follow each other without a gap at one flit per cycle, if the receiver never waits.

        A packet starts when all its credits are there, and the last credits of the one before
        come back a round trip after its last flit.
        """
        round_trip = self.interconnect(ports) + 2 * link_latency + 2 + self.credit + self.go - 1
        return packet_flits + round_trip


FRED_TIMING = FredTiming()
"""With the adder depth that the platforms use."""

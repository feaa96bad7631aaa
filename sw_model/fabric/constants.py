"""Every constant of the RTL's pipelines that the TLM needs, in one place.

Cycles are counted between registers: "a to b" is the number of cycles from the cycle in which a
happens to the cycle in which b happens. docs/tlm.md shows each of them in a diagram.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["EndpointConstants", "FabricConstants", "SwitchConstants"]


@dataclass(frozen=True)
class EndpointConstants:
    """One ACE engine.

    Attributes
    ----------
    doorbell : doorbell write to the first descriptor request at the memory read port
    descriptor_burst, descriptor_window : records requested at a time, and ahead at most
    burst_beats, read_beats : payload flits requested at a time, and under way at most
    first_step : start of an op to the choice of its first message, at the earliest
    next_step : choice of an op's message to the choice of its next one, at the earliest
    transmit : choice of a message to its header at the link
    run_ahead : flits that the transmit unit holds in front of a slow link
    granted : start of the receiver's op to the choice of a message for it, but for the link
    chase : flit written to the choice of the message that chases it
    chase_last : flit written to the same flit at the link
    receive : payload flit out of the link to the same flit written
    receive_resume : start of an op to the first flit written of a message that waited for it
    sent_end : last flit of an op at the link to its buffers counted and its context free
    received_end : last flit of an op written to the same
    store_read : flit read from SRAM to the same flit at the memory write port
    completion : last acknowledgement to the completion
    """

    doorbell: int = 2
    descriptor_burst: int = 4
    descriptor_window: int = 16
    burst_beats: int = 16
    read_beats: int = 128
    first_step: int = 3
    next_step: int = 3
    transmit: int = 4
    run_ahead: int = 8
    granted: int = 1
    chase: int = 1
    chase_last: int = 4
    receive: int = 9
    receive_resume: int = 11
    sent_end: int = 3
    received_end: int = 2
    store_read: int = 3
    completion: int = 1


@dataclass(frozen=True)
class SwitchConstants:
    """One FRED switch.

    Attributes
    ----------
    match : header on the wire of the last input of a flow to the flow's start, at the earliest
    start : start of a flow to its header taken from the inputs
    payload : payload flit on an input's wire to the same flit taken, at the earliest
    edge : flit taken to the flit on the wires of the outputs, but for the stages
    adder_depth : register levels of an adder
    look_ahead : flits that an input holds behind its link's buffer
    """

    match: int = 4
    start: int = 1
    payload: int = 2
    edge: int = -1
    adder_depth: int = 4
    look_ahead: int = 8

    def through(self, ports: int) -> int:
        """Cycles from a flit taken at the inputs to the same flit on the wires of the outputs."""
        return self.edge + (ports - 1).bit_length() * (self.adder_depth + 2)


@dataclass(frozen=True)
class FabricConstants:
    """All of them."""

    endpoint: EndpointConstants = field(default_factory=EndpointConstants)
    switch: SwitchConstants = field(default_factory=SwitchConstants)

"""Cycles of the ACE engine, for the transaction-level model; tests hold the RTL to them.

"From a to b" is the number of cycles from the cycle in which a happens to that of b. A flit is *at
the link* in the cycle in which the engine's port gives it to, or takes it from, its link end; it
is *written* in the cycle in which the SRAM accepts it; a record is *queued* in the cycle in which
it is given to its unit. docs/ace.md, *Timing*, shows each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ACE_TIMING", "AceTiming"]


@dataclass(frozen=True)
class AceTiming:
    """Pipeline depths of one engine, without collisions on SRAM banks.

    Attributes
    ----------
    adder_depth : register levels of the reduction unit
    doorbell : doorbell taken to the first descriptor request at the memory port
    record_arrival : last beat of a record taken to the record offered to its unit
    queue : record queued to its start (load: first request; op: start; store: first SRAM read),
        at the earliest
    load_fill : last beat of a load taken from memory to its buffer seen filled
    first_step : start of an op to the choice of its first message, at the earliest
    next_step : choice of an op's message to the choice of its next one, at the earliest
    transmit : choice of a message to its header at the link
    payload : choice of a message to its first payload flit at the link
    run_ahead : flits that the transmitter holds in front of a link that takes none
    granted : grant pulse at the engine's port to the choice of a message of that op
    chase : flit written to the choice of the message that chases it
    chase_last : flit written to the same flit at the link
    sent_end : last flit of an op at the link to its buffers seen filled and released, and its
        context free
    received_end : last flit of an op written to the same
    store_read : flit read from SRAM to the same flit at the memory write port
    store_buffer : flits read by stores that memory has not taken, at most
    completion : last acknowledgement to the completion offered
    """

    adder_depth: int = 4
    doorbell: int = 2
    record_arrival: int = 1
    queue: int = 1
    load_fill: int = 1
    first_step: int = 3
    next_step: int = 3
    transmit: int = 4
    payload: int = 5
    run_ahead: int = 8
    granted: int = 1
    chase: int = 1
    chase_last: int = 4
    sent_end: int = 3
    received_end: int = 2
    store_read: int = 3
    store_buffer: int = 8
    completion: int = 1

    @property
    def receive(self) -> int:
        """A payload flit at the link to the same flit written."""
        return 5 + self.adder_depth


ACE_TIMING = AceTiming()

"""What a dim engine reports about itself: where it stands, what it waits for, what it did."""

import enum

from amaranth.lib import data

from rtl.ace.layouts import MAX_PORTS

__all__ = ["CompletionStatus", "DimEvents", "DimStatus", "WaitCause"]

_ports = range(MAX_PORTS + 1)


class CompletionStatus(enum.IntEnum):
    """How a collective ended (docs/ace.md, *Protection and recovery*)."""

    OK = 0
    ADDRESS_ERROR = 1  # memory outside the regions registered for it
    OPERATION_ERROR = 2  # unknown operation, operator or traffic class
    TYPE_ERROR = 3  # a data type that the engine was not built for
    SIZE_ERROR = 4  # a size that is no multiple of the element
    PLAN_ERROR = 5  # a program longer than the program memory, or SRAM that is not there
    MEMORY_ERROR = 6  # memory answered with an error; the result is undefined
    PEER_ERROR = 7  # another rank gave the collective up; the result is undefined
    ABORTED = 8  # the host gave it up; the result is undefined
    DESCRIPTOR_ERROR = 9  # a descriptor could not be read; the collective is not known


class WaitCause(enum.IntEnum):
    """What an op, running or next to start, waits for."""

    NONE = 0  # nothing: idle, or it moves
    SOURCE = 1  # its source buffer has not been filled yet
    DESTINATION = 2  # an earlier use of its destination buffer has not been released yet
    CONTEXT = 3  # the op that has its context has not finished yet
    GRANT = 4  # the receiver of its next message has not started the op
    DATA = 5  # the message that its next message forwards has not arrived
    LINK = 6  # the link takes no flit: no credit, or its rate is used up
    RECEIVE = 7  # everything is sent, a message has not arrived
    OPERATION = 8  # a message arrived for an op that has not started here
    FOREIGN = 9  # a message arrived for the op, of another collective: ranks disagree on the order


class DimStatus(data.Struct):
    """State of a dim engine, for the watchdog.

    Members
    -------
    running : an op has started and not finished
    op : number of the oldest such op, else of the next op to start
    collective : its collective id (running only)
    sent, received : its messages that are done
    cause : what it waits for, :class:`WaitCause`
    queued : an op waits to start
    start_cause : what the op that is next to start waits for, :class:`WaitCause`
    """

    running: 1
    op: 16
    collective: 16
    sent: 8
    received: 8
    cause: 4
    queued: 1
    start_cause: 4


class DimEvents(data.Struct):
    """What happened at the ports of a dim in one cycle, summed over them; each is a counter in
    ``rtl.ace.counters``.

    Members
    -------
    flit_sent, flit_received : a flit passed the port, headers included
    header_sent : that flit was a packet header
    reduced : a received flit was combined with the local one
    stall_link : a flit stood at the output and was not taken
    stall_grant : nothing was being sent, and a step waited for its grant
    stall_data : a step or a begun message waited for the message it forwards, or a received flit
        for the one it follows
    stall_operation : a message stood at the input whose op had not started
    forwarded, read_back : a flit that is sent on was read from the forwarding buffer, from SRAM
    contexts : contexts in use
    """

    flit_sent: _ports
    flit_received: _ports
    header_sent: _ports
    reduced: _ports
    stall_link: _ports
    stall_grant: _ports
    stall_data: _ports
    stall_operation: _ports
    forwarded: _ports
    read_back: _ports
    contexts: 8

"""Records that the NPU leaves in memory for the engine, and the steps of a program.

A *descriptor* is a list of records in memory, each :data:`RECORD_BYTES` long and aligned. The
engine fetches it from the address given at the doorbell, record by record, up to ``END``, and
hands each record to its unit (program memory, TX DMA, a dim engine, RX DMA) through a bounded
queue in order. Decided here.

All SRAM and memory addresses, offsets and lengths are in flits.
"""

import enum

from amaranth.lib import data

__all__ = [
    "MAX_PORTS",
    "PORT_BITS",
    "RECORD_BYTES",
    "Begin",
    "CollectiveKind",
    "Load",
    "Op",
    "Program",
    "RecordKind",
    "RxStep",
    "Store",
    "TxStep",
    "beyond",
]

RECORD_BYTES = 32

MAX_PORTS = 7
"""Ports of a dim: an op record has a number of send steps for each."""

PORT_BITS = 3


class RecordKind(enum.IntEnum):
    """What a record asks for; the code stands in the four lowest bits of every record."""

    END = 0  # the descriptor is over
    PROGRAM = 1  # write one step into the program memory of a dim
    LOAD = 2  # TX DMA: memory -> SRAM
    OP = 3  # one phase of one chunk on a dim engine
    STORE = 4  # RX DMA: SRAM -> memory
    FENCE = 5  # fetch no further record until every unit is idle
    BEGIN = 6  # what the collective of the following records is


class CollectiveKind(enum.IntEnum):
    """What a collective does; the value is its code in a BEGIN record."""

    ALL_REDUCE = 0
    REDUCE_SCATTER = 1
    ALL_GATHER = 2
    ALL_TO_ALL = 3
    BROADCAST = 4
    REDUCE = 5
    SEND = 6


class TxStep(data.Struct):
    """One message to send.

    Members
    -------
    from_destination : read the op's destination buffer instead of its source buffer
    offset : first flit, within that buffer
    length : flits, at least 1
    last_bytes : bytes valid in the last flit, 1 to flit_bytes
    chase : send only what receive step ``after`` of the same op has already written: flit i
        follows flit i
    whole : with ``chase``: begin when that receive step has ended
    copied : with ``whole``: it is a send step, and has ended with its copy
    after, after_port : index of that step among those of a port, and the port
    copy : also write what is sent to the destination buffer, at ``copy_offset``
    copy_offset : first flit written there
    local : nothing goes to the link: with ``copy`` a move within the SRAM, without it only a wait
    step : index of the receive step at the receiver, among those of its port
    configuration : configuration index in the header (FRED dims)
    """

    from_destination: 1
    offset: 16
    length: 16
    last_bytes: 8
    chase: 1
    whole: 1
    copied: 1
    after: 8
    after_port: PORT_BITS
    copy: 1
    copy_offset: 16
    local: 1
    step: 8
    configuration: 12


class RxStep(data.Struct):
    """One message to receive.

    Members
    -------
    reduce : combine with the local copy at ``offset`` of the source buffer
    into_destination : write to the destination buffer, else to the source buffer (in place)
    offset : first flit of the operand in the source buffer
    write_offset : first flit written, in the buffer chosen by ``into_destination``
    length : flits, at least 1
    chase : take only what receive step ``after`` of the same op, at port ``after_port``, has
        already written: flit i follows flit i
    whole : with ``chase``: take the first flit when that step has ended
    """

    reduce: 1
    into_destination: 1
    offset: 16
    write_offset: 16
    length: 16
    chase: 1
    whole: 1
    after: 8
    after_port: PORT_BITS


class Program(data.Struct):
    """Record that writes one step into a program memory of a dim's port."""

    kind: 4
    dim: 4
    receive: 1  # 1: ``step`` holds an RxStep for the receive program memory, 0: a TxStep
    index: 12
    step: 128
    port: PORT_BITS


class Begin(data.Struct):
    """What a collective asks for, checked before anything is done for it.

    With this record in front, the engine knows the collective from then on until its completion:
    it can be aborted, and its completion says how it ended (docs/ace.md, *Protection and
    recovery*).

    Members
    -------
    operation : code of :class:`CollectiveKind`
    traffic_class, data_type, operator, collective : as in its ops
    source, result : first flit of its input and output regions
    source_bytes, result_bytes : of these regions, whole elements
    program_steps : program memory it needs on any dim, in steps
    """

    kind: 4
    operation: 4
    traffic_class: 2
    data_type: 3
    operator: 2
    reserved: 1
    collective: 16
    source: 32
    source_bytes: 40
    result: 32
    result_bytes: 40
    program_steps: 16


class Load(data.Struct):
    """TX DMA record. A chunk takes one or more; ``first`` reserves, ``final`` fills the buffer.

    Its bytes lie in ``length`` flits of SRAM, from the first byte of the first on, ``last_bytes``
    of them in the last; in memory they begin at byte ``shift`` of the flit ``memory_address``.
    """

    kind: 4
    first: 1
    final: 1
    buffer: 8
    epoch: 8
    sram_address: 20
    length: 20
    last_bytes: 8
    memory_address: 32
    collective: 16
    shift: 7


class Op(data.Struct):
    """One phase of one chunk on one dim.

    It starts when it is next on its dim, a context is free, ``source`` has been filled in
    ``source_epoch`` and ``destination`` has been released up to ``destination_epoch``.

    Its programs begin at ``tx_program`` and ``rx_program`` in the program memories of every port.
    ``tx_count`` and ``rx_count`` are the steps of all ports together; on a dim of several ports
    ``port_counts`` are the send steps of each.
    """

    kind: 4
    dim: 4
    traffic_class: 2
    data_type: 3
    operator: 2
    collective: 16
    tx_program: 12  # first step, in the dim's send program memory
    tx_count: 8
    rx_program: 12  # first step, in the dim's receive program memory
    rx_count: 8
    source: 8
    source_epoch: 8
    source_address: 20
    destination: 8
    destination_epoch: 8
    destination_address: 20
    port_counts: data.ArrayLayout(8, MAX_PORTS)


class Store(data.Struct):
    """RX DMA record. ``first`` waits for the buffer, ``final`` releases it, ``complete`` ends the
    collective: when all its writes are acknowledged its completion is raised. Where its bytes lie
    is said as in a :class:`Load`."""

    kind: 4
    first: 1
    final: 1
    complete: 1
    buffer: 8
    epoch: 8
    sram_address: 20
    length: 20
    last_bytes: 8
    memory_address: 32
    collective: 16
    shift: 7


def beyond(record, *, flit_bytes):
    """Whether the bytes of a :class:`Load` or :class:`Store` that has any lie in one flit of memory
    more than of SRAM."""
    return (record.shift + record.last_bytes) > flit_bytes

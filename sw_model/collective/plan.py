"""What a collective does, as plain data: made once, executed by the TLM and by the RTL.

Sizes here are in *quanta*: the smallest piece a shard is cut into. It is one element for a pure
transaction-level run and one flit's elements for the RTL, so that a shard always starts at a
flit. Shard i of n quanta over P members is ``[i*n//P, (i+1)*n//P)`` (decided here). An empty shard
is neither sent nor received.

A chunk at *position* p is resident in one buffer of partition p on every rank: position 0 before
its first phase, position k after phase k. The phase k moves it from its *source* buffer
(position k) to its *destination* buffer (position k + 1).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from math import prod

from sw_model.collective.written import WrittenAlgorithm
from sw_model.topology import Topology

__all__ = [
    "ELEMENT_BYTES",
    "OPERATORS",
    "SYMMETRIC",
    "Algorithm",
    "AnyAlgorithm",
    "BufferUse",
    "ChunkPlan",
    "Collective",
    "CollectivePlan",
    "LoadSlot",
    "OpSlot",
    "Operation",
    "Phase",
    "Piece",
    "RankSteps",
    "ReceiveStep",
    "SendStep",
    "StoreSlot",
]  # fmt: skip


#: Bytes of one element of each data type.
ELEMENT_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4, "int32": 4}

#: What a reduction does with two elements.
OPERATORS = ("sum", "max", "min")


class Operation(enum.Enum):
    """A collective, and what one phase of it does on one dim."""

    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    ALL_TO_ALL = "all-to-all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    SEND = "send"

    @property
    def rooted(self) -> bool:
        """Whether one rank has the source or gets the result."""
        return self in (Operation.BROADCAST, Operation.REDUCE, Operation.SEND)

    @property
    def reorders(self) -> bool:
        """Whether the bytes on a dim depend on the order of the dims, so that schedulers choose it.

        An all-to-all and a rooted operation move all of their bytes on every dim in any order.
        """
        return self in (Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER)


#: Operations in which every rank has a part: those of workloads and of ASTRA-sim.
SYMMETRIC = tuple(operation for operation in Operation if not operation.rooted)


class Algorithm(enum.Enum):
    """How a phase is carried out on its dim."""

    RING = "ring"
    DIRECT = "direct"
    BIDIRECTIONAL_RING = "bidirectional-ring"
    HALVING_DOUBLING = "halving-doubling"
    DOUBLE_BINARY_TREE = "double-binary-tree"
    IN_NETWORK = "in-network"


#: One that is built in, or one that is written down by its moves.
AnyAlgorithm = Algorithm | WrittenAlgorithm


@dataclass(frozen=True)
class Collective:
    """A request for one collective over all NPUs of ``topology.dims[d] for d in dims``.

    Parameters
    ----------
    operation : what is asked for
    elements : elements of one rank's buffer; all-gather: elements of one rank's shard
    data_type : "fp16", "bf16", "fp32" or "int32"
    operator : "sum", "max" or "min"
    traffic_class : "mp", "pp" or "dp"
    dims : indices of the dims it spans, ascending; other dims hold independent groups. None at
        all, ``()``, is a group of one: the result is a copy of the source
    name : for reports
    root : who has the source of a broadcast or a send, and gets the result of a reduce: its place
        in its group, which counts the dims, the innermost fastest
    target : who gets what is sent, likewise; for a send only
    groups : in place of ``dims``, on a network that is one tree of FRED switches: the ranks of
        every group, ascending. Groups share no rank and have one size; ranks in none have no part
    """

    operation: Operation
    elements: int
    data_type: str = "fp16"
    operator: str = "sum"
    traffic_class: str = "dp"
    dims: tuple[int, ...] = ()
    name: str = ""
    root: int = 0
    target: int | None = None
    groups: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.elements, int) or self.elements < 0:
            raise ValueError(
                f"elements must be a whole number of at least 0, not {self.elements!r}"
            )
        _choice("data_type", self.data_type, tuple(ELEMENT_BYTES))
        _choice("operator", self.operator, OPERATORS)
        _choice("traffic_class", self.traffic_class, ("mp", "pp", "dp"))
        if list(self.dims) != sorted(set(self.dims)) or any(d < 0 for d in self.dims):
            raise ValueError(f"dims must be ascending dim indices, not {self.dims!r}")
        if self.root < 0 or (self.root and not self.operation.rooted):
            raise ValueError(
                f"root must be a place in the group of a broadcast, reduce or send, "
                f"not {self.root!r} of a {self.operation.value}"
            )
        self._check_groups()
        sends = self.operation is Operation.SEND
        if sends != (self.target is not None) or (self.target or 0) < 0:
            raise ValueError(
                "target must be a place in the group for a send, and None for all others, "
                f"not {self.target!r} of a {self.operation.value}"
            )

    def _check_groups(self) -> None:
        if not self.groups:
            return
        if self.dims:
            raise ValueError(f"groups must stand in place of dims, not beside {self.dims!r}")
        ranks = [rank for group in self.groups for rank in group]
        ascending = all(list(group) == sorted(group) for group in self.groups)
        if len(set(ranks)) != len(ranks) or not ascending or min(ranks, default=0) < 0:
            raise ValueError(f"groups must be ascending ranks, and share none, not {self.groups!r}")
        if len({len(group) for group in self.groups}) > 1 or len(self.groups[0]) < 2:
            raise ValueError(
                f"groups must have one size, of 2 or more, not "
                f"{sorted({len(group) for group in self.groups})!r}"
            )

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return ELEMENT_BYTES[self.data_type]

    def group_size(self, topology: Topology) -> int:
        """Ranks of one group."""
        if self.groups:
            return len(self.groups[0])
        return prod(topology.dims[dim].size for dim in self.dims)


def _choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")


@dataclass(frozen=True)
class Phase:
    """One op of a chunk on one dim (index into ``Topology.dims``)."""

    operation: Operation
    dim: int
    algorithm: AnyAlgorithm


@dataclass(frozen=True)
class SendStep:
    """One message that a rank sends in a phase. Offsets and lengths in quanta.

    Attributes
    ----------
    peer : receiving coordinate on the dim; None where the FRED switch decides (``flow``). The own
        coordinate, in an all-to-all and a send: the data stay on the rank and use no link
    flow : in-network only: (input coordinates, output coordinates) of the flow it belongs to
    from_destination : data is read from the destination buffer, else from the source buffer
    offset, length : the range in that buffer
    after : index of the last receive step of this phase that writes to the range, or None.
        Where that step writes just this range a sender may *chase*: send each flit as soon as it
        was written. Otherwise it waits until the step has ended.
    copy_offset : also write the data to the destination buffer there, or None
    step : index of the receive step at the receiver(s)
    """

    peer: int | None
    from_destination: bool
    offset: int
    length: int
    after: int | None
    copy_offset: int | None
    step: int
    flow: tuple[tuple[int, ...], tuple[int, ...]] | None = None


@dataclass(frozen=True)
class ReceiveStep:
    """One message that a rank receives in a phase, in order of arrival on the dim.

    Attributes
    ----------
    peer : sending coordinate on the dim; None in-network
    reduce : combine with the local copy at ``offset`` of the source buffer: result is
        ``operator(local, received)``
    into_destination : write to the destination buffer, else in place to the source buffer
    offset, write_offset, length : quanta
    """

    peer: int | None
    reduce: bool
    into_destination: bool
    offset: int
    write_offset: int
    length: int


@dataclass(frozen=True)
class RankSteps:
    """The two step lists of one rank in one phase: the sender and the receiver run side by side."""

    sends: tuple[SendStep, ...]
    receives: tuple[ReceiveStep, ...]


@dataclass(frozen=True)
class Piece:
    """A contiguous range that DMA moves between a rank's memory region and its SRAM buffer.

    ``memory`` and ``elements`` count elements in the payload region (source region for loads,
    result region for stores); ``buffer`` is the first quantum in the SRAM buffer.
    """

    memory: int
    elements: int
    buffer: int


@dataclass(frozen=True)
class ChunkPlan:
    """One chunk: its place in the payload and the ordered phases it goes through on every rank.

    Attributes
    ----------
    index : its number
    quanta : resident on every rank before the first phase, of those that have a part
    phases : in order
    offset, extent : the range ``[offset, offset + extent)`` of quanta that it takes, of the
        payload (all-reduce, broadcast, reduce, send) or of *every* rank's block of it
        (reduce-scatter, all-gather, all-to-all); it ends earlier where the payload or the block
        does
    """

    index: int
    quanta: int
    phases: tuple[Phase, ...]
    offset: int = 0
    extent: int = 0


@dataclass(frozen=True)
class BufferUse:
    """Who owns an SRAM buffer: buffer ``buffer`` of partition ``partition``, for the
    ``epoch``-th time since reset (0 is the first). Chosen by the planner, not by run-time timing
    (docs/plan.md)."""

    partition: int
    buffer: int
    epoch: int


@dataclass(frozen=True)
class LoadSlot:
    """Admission of a chunk by TX DMA into ``destination``."""

    chunk: int
    destination: BufferUse


@dataclass(frozen=True)
class OpSlot:
    """One op in the start order of its dim."""

    chunk: int
    phase: int
    source: BufferUse
    destination: BufferUse


@dataclass(frozen=True)
class StoreSlot:
    """Write-back of a finished chunk by RX DMA out of ``source``."""

    chunk: int
    source: BufferUse


@dataclass(frozen=True)
class CollectivePlan:
    """A whole collective, the same for every rank but for the steps.

    Attributes
    ----------
    collective, topology : what and where
    quantum : elements of one quantum
    chunks : by chunk index
    loads : admission order
    ops : for every dim of the topology, the start order on it
    stores : write-back order
    sequence : all slots in the order in which the planner's feasible execution starts them, as
        ("load", i), ("op", dim, i), ("store", i): the order of the records in a descriptor
    padding_bytes : bytes moved that are no payload (last flits), per rank
    notes : what the user should be told, for reports
    makespan_ps : end of the planner's own execution, counted from its start; a coarse figure
    groups : on a tree of FRED switches, the ranks of each group, in the order of the coordinates of
        ``local``; a rank in none has no part, and does nothing in every slot
    local : then the same plan for one group alone, on a network of its own; its steps, pieces and
        proofs are those of every group
    derived : memo of what follows from the rest (steps by rank); never compared
    """

    collective: Collective
    topology: Topology
    quantum: int
    chunks: tuple[ChunkPlan, ...]
    loads: tuple[LoadSlot, ...]
    ops: tuple[tuple[OpSlot, ...], ...]
    stores: tuple[StoreSlot, ...]
    sequence: tuple[tuple, ...]
    padding_bytes: int = 0
    notes: tuple[str, ...] = field(default=())
    makespan_ps: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    local: CollectivePlan | None = None
    derived: dict = field(default_factory=dict, init=False, repr=False, compare=False)

    def member(self, rank: int) -> tuple[int, int] | None:
        """Group of ``rank`` and its place in it; None where it has no part."""
        found = self.derived.get("members")
        if found is None:
            found = self.derived["members"] = {
                member: (number, place)
                for number, group in enumerate(self.groups)
                for place, member in enumerate(group)
            }
        return found.get(rank)

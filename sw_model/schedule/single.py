"""One collective alone on the network, in the minimal model: how it is cut, timed and judged.

`Instance` turns a collective into whole numbers: quanta of a chunk, units of time of an op. A
`Candidate` is one way to schedule it, and `Instance.run` says how long that takes. All schedulers,
the search and the bound are compared here, in one arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm

from sw_model.collective.cost import phase_cost
from sw_model.collective.plan import Algorithm, Collective, Operation, Phase
from sw_model.collective.positions import largest_resident
from sw_model.schedule.baseline import Baseline
from sw_model.schedule.bound import Bound, OrderCosts, solve_bound
from sw_model.schedule.chunking import Payload
from sw_model.schedule.execution import Intra
from sw_model.schedule.minimal import Op, Run, run_minimal
from sw_model.schedule.phases import Turn
from sw_model.schedule.themis import Themis
from sw_model.topology import Topology

__all__ = ["Candidate", "DimTraffic", "Instance"]


@dataclass(frozen=True)
class Candidate:
    """One way to schedule.

    Attributes
    ----------
    extents : quanta of each chunk, of the payload (all-reduce) or of every rank's block
    phases : of each chunk
    intra : which op of a dim starts first
    ranks : in place of ``intra``, by chunk and phase; see :func:`run_minimal`
    origin : who made it
    """

    extents: tuple[int, ...]
    phases: tuple[tuple[Phase, ...], ...]
    intra: Intra
    ranks: tuple[tuple[int, ...], ...] | None = None
    origin: str = ""


@dataclass(frozen=True)
class DimTraffic:
    """Bytes of one NPU on a dim, of the NPU that has most."""

    sent: int
    received: int


@dataclass(frozen=True)
class Instance:
    """A collective on all dims of an idle topology.

    Parameters
    ----------
    collective : what; its ``dims`` must be all of the topology's
    topology : where
    algorithms : by dim
    turn : whether an all-reduce's turning point is one phase
    serial_latency : charge the step latencies to the dim, instead of letting other ops use it then
    quantum : elements of the smallest piece of a shard (docs/plan.md)
    """

    collective: Collective
    topology: Topology
    algorithms: tuple[Algorithm, ...]
    turn: Turn = Turn.IN_NETWORK
    serial_latency: bool = False
    quantum: int = 1

    @property
    def operation(self) -> Operation:
        """The collective's."""
        return self.collective.operation

    @cached_property
    def payload(self) -> Payload:
        """What there is to cut, in quanta."""
        return Payload(self.collective, self.topology, self.quantum)

    @property
    def quantum_bytes(self) -> int:
        """Bytes of a quantum."""
        return self.quantum * self.collective.element_bytes

    @cached_property
    def grain(self) -> int:
        """See :attr:`sw_model.schedule.chunking.Payload.grain`."""
        return self.payload.grain

    @cached_property
    def unit(self) -> int:
        """Units of time in a second, such that all op times are whole."""
        parts = [self._per_quantum(d) for d in range(len(self.topology.dims))]
        parts += [Fraction(dim.latency_ps, 10**12) for dim in self.topology.dims]
        return lcm(*(part.denominator for part in parts))

    @cached_property
    def units_per_quantum(self) -> tuple[int, ...]:
        """By dim, units of time in which it moves a quantum."""
        return tuple(int(self._per_quantum(d) * self.unit) for d in range(len(self.topology.dims)))

    @cached_property
    def latency_units(self) -> tuple[int, ...]:
        """By dim, units of time of one step's latency."""
        return tuple(int(Fraction(d.latency_ps * self.unit, 10**12)) for d in self.topology.dims)

    @cached_property
    def costs(self) -> OrderCosts:
        """What the orders cost, for the bound and the search."""
        return OrderCosts(self.topology.dims, self.operation, self.algorithms, self.turn)

    @cached_property
    def bound(self) -> Bound:
        """See :mod:`sw_model.schedule.bound`."""
        return solve_bound(self.costs)

    @property
    def largest_bytes(self) -> int:
        """The payload of one NPU where it is largest: what an all-gather has in the end."""
        grown = self.payload.group if self.operation is Operation.ALL_GATHER else 1
        return self.collective.elements * self.collective.element_bytes * grown

    @cached_property
    def bound_seconds(self) -> Fraction:
        """No schedule of this collective is faster."""
        return self.bound.seconds_per_byte * self.largest_bytes

    @cached_property
    def ideal_seconds(self) -> Fraction:
        """What every NPU must send, over the bandwidth of all its dims together; of a broadcast
        what it must hear."""
        n = self.payload.group
        total = sum(d.bandwidth for d in self.topology.dims if d.size > 1)
        if self.operation.rooted:
            return Fraction(self.largest_bytes) / total if n > 1 else Fraction(0)
        twice = 2 if self.operation is Operation.ALL_REDUCE else 1
        return Fraction(twice * self.largest_bytes * (n - 1), n) / total if n > 1 else Fraction(0)

    def seconds(self, units: int) -> Fraction:
        """A time of :meth:`run`."""
        return Fraction(units, self.unit)

    def scheduled(self, scheduler: Baseline | Themis, chunks: int, intra: Intra) -> Candidate:
        """What a scheduler makes of at most ``chunks`` equal chunks."""
        cuts = self.payload.cut(chunks, None)
        grown = 1 if self.payload.ranged else self.payload.group
        sizes = [cut.extent * grown * self.quantum_bytes for cut in cuts]
        phases = scheduler.schedule(self.operation, self.topology, self.collective.dims, sizes)
        name = type(scheduler).__name__.lower()
        return Candidate(
            extents=tuple(cut.extent for cut in cuts),
            phases=tuple(phases),
            intra=intra,
            origin=f"{name} {intra.value}, {len(cuts)} chunks",
        )

    def baseline(self, chunks: int, intra: Intra = Intra.FIFO) -> Candidate:
        """The fixed order."""
        return self.scheduled(Baseline(self.turn, self.algorithms), chunks, intra)

    def themis(
        self, chunks: int, intra: Intra = Intra.SCF, *, initial_latency: bool = False
    ) -> Candidate:
        """Levelled loads."""
        scheduler = Themis(self.turn, initial_latency=initial_latency, algorithms=self.algorithms)
        return self.scheduled(scheduler, chunks, intra)

    def ops(self, extent: int, phases: tuple[Phase, ...]) -> tuple[Op, ...]:
        """The ops of a chunk, in units of time."""
        return self._chunk(extent, phases)[0]

    def resident(self, extent: int, phases: tuple[Phase, ...]) -> list[int]:
        """By phase, quanta of the chunk on a rank where it is larger: before the phase, or after an
        all-gather. No rank has more."""
        if self.operation is Operation.ALL_TO_ALL:  # the same bytes on every dim
            return [extent * self.payload.group] * len(phases)
        sizes = [dim.size for dim in self.topology.dims]
        all_of_them = largest_resident(self.operation, phases, sizes, extent)
        return [
            all_of_them[position + (phase.operation is Operation.ALL_GATHER)]
            for position, phase in enumerate(phases)
        ]

    def run(self, candidate: Candidate) -> Run:
        """Time it."""
        chunks = [
            self.ops(extent, phases)
            for extent, phases in zip(candidate.extents, candidate.phases, strict=True)
        ]
        return run_minimal(
            chunks, dims=len(self.topology.dims), intra=candidate.intra, ranks=candidate.ranks
        )

    def traffic(self, candidate: Candidate) -> tuple[DimTraffic, ...]:
        """Bytes on every dim; exact, padding included."""
        sent = [0] * len(self.topology.dims)
        received = list(sent)
        for extent, phases in zip(candidate.extents, candidate.phases, strict=True):
            for phase, moved in zip(phases, self._chunk(extent, phases)[1], strict=True):
                sent[phase.dim] += moved.sent
                received[phase.dim] += moved.received
        width = self.quantum_bytes
        return tuple(DimTraffic(s * width, r * width) for s, r in zip(sent, received, strict=True))

    def _per_quantum(self, dim: int) -> Fraction:
        return self.quantum_bytes / self.topology.dims[dim].bandwidth

    @cached_property
    def _memo(
        self,
    ) -> dict[tuple[int, int], tuple[tuple[Phase, ...], tuple[Op, ...], tuple[DimTraffic, ...]]]:
        return {}

    @cached_property
    def _grains(
        self,
    ) -> dict[tuple[Phase, ...], tuple[tuple[Op, ...], tuple[DimTraffic, ...]]]:
        return {}

    def _chunk(
        self, extent: int, phases: tuple[Phase, ...]
    ) -> tuple[tuple[Op, ...], tuple[DimTraffic, ...]]:
        # Schedulers share the phases of chunks that go the same way: their identity is quick to
        # look up. The memo holds on to them, so that it stays theirs.
        key = (extent, id(phases))
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = (phases, *self._timed(extent, phases))
        return known[1], known[2]

    def _timed(
        self, extent: int, phases: tuple[Phase, ...]
    ) -> tuple[tuple[Op, ...], tuple[DimTraffic, ...]]:
        grains, rest = divmod(extent, self.grain)
        if grains > 1 and not rest and not self.serial_latency and self._scales:
            # Whole grains have whole shards throughout, so everything grows with their number.
            ops_of_one, moved_of_one = self._grain(phases)
            return (
                tuple((dim, busy * grains, latency) for dim, busy, latency in ops_of_one),
                tuple(DimTraffic(m.sent * grains, m.received * grains) for m in moved_of_one),
            )
        return self._exact(extent, phases)

    @cached_property
    def _scales(self) -> bool:
        """Whether a grain is divided into whole shards only."""
        trees = Algorithm.DOUBLE_BINARY_TREE in self.algorithms
        return not (self.operation.rooted or trees)

    def _grain(self, phases: tuple[Phase, ...]) -> tuple[tuple[Op, ...], tuple[DimTraffic, ...]]:
        found = self._grains.get(phases)
        if found is None:
            found = self._grains[phases] = self._exact(self.grain, phases)
        return found

    def _exact(
        self, extent: int, phases: tuple[Phase, ...]
    ) -> tuple[tuple[Op, ...], tuple[DimTraffic, ...]]:
        ops: list[Op] = []
        moved: list[DimTraffic] = []
        for phase, whole in zip(phases, self.resident(extent, phases), strict=True):
            cost = phase_cost(
                self.topology.dims[phase.dim], phase.operation, phase.algorithm, whole
            )
            sent, received = _ceil(cost.sent), _ceil(cost.received)
            busy = _ceil(max(sent, received) / cost.share) * self.units_per_quantum[phase.dim]
            latency = cost.steps * self.latency_units[phase.dim]
            if self.serial_latency:
                busy, latency = busy + latency, 0
            ops.append((phase.dim, busy, latency))
            moved.append(DimTraffic(sent, received))
        return tuple(ops), tuple(moved)

    def padding_bytes(self, extents: Sequence[int]) -> int:
        """What the last chunk carries beyond the payload, so that all shards are whole."""
        if self.operation is Operation.ALL_GATHER or self.operation.rooted:
            return 0
        group = self.payload.group
        if self.operation is Operation.ALL_REDUCE:
            whole = sum(extent + -extent % group for extent in extents)
        else:
            whole = sum(extents) * group
        payload = self.collective.elements * self.collective.element_bytes
        return whole * self.quantum_bytes - payload


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)

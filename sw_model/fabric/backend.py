"""The platform at transaction level as a backend of the training loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sw_model.backend import Completion
from sw_model.collective.plan import Collective, CollectivePlan
from sw_model.endpoint.counters import RankCounters
from sw_model.endpoint.dim_engine import DimEngine, Op
from sw_model.engine import EventKernel
from sw_model.errors import DeadlockError
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.counters import total
from sw_model.fabric.folding import Folding, padded, representatives
from sw_model.fabric.network import Network
from sw_model.fabric.preemption import by_class
from sw_model.fabric.watchdog import blocked
from sw_model.schedule.options import PlanBook

__all__ = ["Entry", "TlmBackend"]


@dataclass
class Entry:
    """A collective that at least one rank has entered.

    Attributes
    ----------
    number : its place in the sequence
    plan : what is executed
    issued, ended : cycle by simulated rank
    counters : by simulated rank
    """

    number: int
    plan: CollectivePlan
    timed: CollectivePlan
    issued: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    counters: dict[int, RankCounters] = field(default_factory=dict)


class TlmBackend:
    """Executes plans on a message-level model of the platform (docs/tlm.md).

    Parameters
    ----------
    book : plans, and the platform they are for
    folding : which ranks are simulated
    constants : pipeline constants of the RTL
    on_op_end : called with (rank, dim engine, op) when an op ends, for timelines

    Raises
    ------
    DeadlockError
        from :meth:`wait`, where collectives are unfinished and nothing can happen any more.
    """

    def __init__(
        self,
        book: PlanBook,
        *,
        folding: Folding = Folding.NONE,
        constants: FabricConstants | None = None,
        on_op_end: Callable[[DimEngine, Op], None] | None = None,
    ) -> None:
        self.book = book
        self.platform = book.platform
        self.folding = folding
        self.kernel = EventKernel()
        self.representative = representatives(self.platform.topology, folding)
        self.constants = constants or FabricConstants()
        self.network = Network(
            self.kernel,
            self.platform,
            self.constants,
            self.representative,
            self._stored,
            on_op_end,
            book.flows,
        )
        self.representatives: Sequence[int] = tuple(self.network.endpoints)
        self.entries: list[Entry] = []
        self._entered = dict.fromkeys(self.representatives, 0)
        self._completions: list[Completion] = []
        self._unfinished = 0

    @property
    def now(self) -> int:
        """The present cycle."""
        return self.kernel.now

    def issue(self, collective: Collective, ranks: Sequence[int]) -> int:
        """See :class:`sw_model.backend.Backend`.

        Raises
        ------
        ValueError
            where the ranks do not enter the same collective, or a rank is not simulated.
        """
        strange = [rank for rank in ranks if rank not in self._entered]
        if strange or not ranks:
            raise ValueError(
                f"ranks must be among the simulated ranks {list(self.representatives)}, "
                f"not {strange!r}"
            )
        numbers = {self._entered[rank] for rank in ranks}
        if len(numbers) != 1:
            raise ValueError(f"ranks must enter the same collective, not {sorted(numbers)!r}")
        number = numbers.pop()
        if number == len(self.entries):
            plan = self.book.plan(number, collective)
            timed = padded(plan) if self.folding is Folding.ALL else plan
            self.entries.append(Entry(number, plan, timed))
        entry = self.entries[number]
        if entry.plan.collective != collective:
            raise ValueError(
                f"collective {number} must be {entry.plan.collective!r}, not {collective!r}"
            )
        for rank in ranks:
            self._entered[rank] += 1
            self._unfinished += 1
            entry.issued[rank] = self.now
            if entry.plan.chunks:
                endpoint = self.network.endpoints[rank]
                entry.counters[rank] = endpoint.start(entry.timed, entry, self.constants.doorbell)
            else:
                self._complete((rank, entry))
        return number

    async def wait(self, until: int | None) -> list[Completion]:
        """See :class:`sw_model.backend.Backend`."""
        if not self._completions:
            self.kernel.run(until)
        if not self._completions and until is None and self._unfinished:
            raise DeadlockError(self.describe())
        done, self._completions = self._completions, []
        return done

    def _stored(self, rank: int, entry: Entry) -> None:
        """The engine of ``rank`` offers its completion."""
        self.kernel.after(self.constants.completion, self._complete, (rank, entry))

    def _complete(self, item: tuple[int, Entry]) -> None:
        rank, entry = item
        now = self.kernel.now
        entry.ended[rank] = now
        self._unfinished -= 1
        self._completions.append(Completion(entry.number, rank, now))
        self.kernel.halt()

    def counters(self) -> tuple[RankCounters, ...]:
        """Counters of every rank over everything issued; a folded rank has its
        representative's."""
        dims = len(self.platform.topology.dims)
        classes = self.platform.engine.classes
        sums = {}
        for rank in self.representatives:
            entries = [e for e in self.entries if rank in e.counters]
            counted = {
                name: total(
                    [e.counters[rank] for e in entries if name == e.plan.collective.traffic_class],
                    dims,
                ).dims
                for name in classes
            }
            whole = total([e.counters[rank] for e in entries], dims)
            sums[rank] = replace(whole, by_class=tuple(counted[name] for name in classes))
        return tuple(sums[rank] for rank in self.representative)

    def interrupted_packets(self) -> dict[str, dict[str, int]] | None:
        """By class and higher class, packets of the one between whose flits some of the other left
        an NPU; None where classes have no channels of their own, or packets are not modelled."""
        tree, classes = self.network.tree, self.platform.engine.classes
        return by_class(classes, tree.interrupted()) if tree is not None and classes else None

    def overtaken_packets(self) -> dict[str, dict[str, int]] | None:
        """By class and higher class, packets of the one that were ready and let some of the other
        go first, once for every link of an NPU and every switch; None as above."""
        tree, classes = self.network.tree, self.platform.engine.classes
        return by_class(classes, tree.overtaken()) if tree is not None and classes else None

    def describe(self) -> str:
        """Every blocked rank and op, and what it waits for."""
        return blocked(self.kernel.now, self.network, self.entries)

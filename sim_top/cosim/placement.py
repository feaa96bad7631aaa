"""Where a sequence of collectives and its descriptors lie in the memory beside each NPU.

The simulation places what it loads by this; and what it will load is placed by this before anything
is built, so that a memory which is too small is known then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sim_top.configurations import FlowTable
from sim_top.cosim.memory_map import MemoryMap, Region, Regions
from sim_top.platform.build import flow_tables
from sim_top.records import RecordCompiler, descriptor_bytes
from sw_model.collective.plan import Collective, CollectivePlan
from sw_model.errors import InputError
from sw_model.fred.tree.table import TreeTable
from sw_model.platform import Platform
from sw_model.schedule.options import PlanBook

__all__ = ["Placed", "Placement", "check_memory", "check_payloads"]


@dataclass(frozen=True)
class Placed:
    """One collective in memory.

    Attributes
    ----------
    plan : what is executed
    source, result, descriptor : regions, the same on all ranks
    source_bytes : of the source's last flit, some bytes may not be its own
    blocks : by rank, the bytes of the descriptor; the longest fills the region
    """

    plan: CollectivePlan
    source: Region
    result: Region
    descriptor: Region
    source_bytes: int
    blocks: tuple[bytes, ...]


class Placement:
    """Places collectives one after another, and makes their descriptors.

    Parameters
    ----------
    book : plans, and the platform they are for
    flows : by dim, the entries of its switches' configuration memories (FRED dims only)
    protected : with a BEGIN record in front of every collective
    """

    def __init__(
        self,
        book: PlanBook,
        flows: Mapping[int, FlowTable | TreeTable],
        *,
        protected: bool = False,
    ) -> None:
        self.book = book
        self.protected = protected
        platform = book.platform
        ranks = range(platform.topology.npus)
        self._compilers = [
            [RecordCompiler(platform, rank, flows, lane) for rank in ranks]
            for lane in range(platform.engine.lanes)
        ]
        self.memory = MemoryMap(platform.memory.words)

    def place(self, number: int, collective: Collective) -> Placed:
        """Collective ``number`` (from 0) of the sequence: the numbers must come in order.

        Raises
        ------
        InputError
            where the memory is too small for it, it cannot be planned, or an engine cannot hold
            its programs.
        """
        platform = self.book.platform
        plan = self.book.plan(number, collective)
        regions = Regions.of(collective, platform)
        what = f"collective {number}"
        # The descriptor names the regions, so it is made last; it lies right behind the source,
        # so that one transfer brings both.
        result = self.memory.take(regions.result_flits, what)
        source = self.memory.take(regions.source_flits, what)
        blocks = tuple(
            descriptor_bytes(
                compiler.compile(
                    plan,
                    collective=number % (1 << 16),
                    source=source.first,
                    result=result.first,
                    begin=self.protected,
                )
            )
            for compiler in self._compilers[platform.engine.lane_of(collective.traffic_class)]
        )
        longest = max(len(block) for block in blocks)
        descriptor = self.memory.take(
            -(-longest // platform.engine.flit_bytes),
            f"the descriptor of {what}",
            lower="schedule.chunks or the payload scale",
        )
        return Placed(plan, source, result, descriptor, regions.source_bytes, blocks)


def check_payloads(platform: Platform, collectives: Iterable[Collective]) -> None:
    """Refuse payloads that the memories inside the simulation cannot hold, whatever their
    descriptors are: that takes no plan.

    Raises
    ------
    InputError
        where they are too small.
    """
    flits = 0
    for request in collectives:
        regions = Regions.of(request, platform)
        flits += regions.source_flits + regions.result_flits
    if flits > platform.memory.words:
        raise InputError(
            f"the payloads need {flits} flits beside each NPU, and the memory inside the "
            f"simulation has {platform.memory.words}: raise memory.words, or lower the payload "
            "scale"
        )


def check_memory(book: PlanBook, collectives: Iterable[Collective]) -> None:
    """Refuse collectives that, in this order and with their descriptors, the memories inside the
    simulation cannot hold. All that ``book`` has no plan for yet are planned.

    Raises
    ------
    InputError
        as :meth:`Placement.place`.
    """
    placement = Placement(book, flow_tables(book.platform, book.flows))
    for number, collective in enumerate(collectives):
        placement.place(number, collective)

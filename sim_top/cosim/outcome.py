"""What is handed to the simulation, and what comes back from it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim_top.cosim.memory_map import Region
from sw_model.collective.plan import Collective, CollectivePlan
from sw_model.endpoint.counters import RankCounters
from sw_model.platform import Platform
from sw_model.results import TrainingResult
from sw_model.schedule.options import ScheduleOptions
from sw_model.workload.layers import Workload
from sw_model.workload.spans import collectives_of
from sw_model.workload.variation import Variation

__all__ = [
    "IDLE_CYCLES",
    "Issued",
    "Job",
    "Outcome",
    "SingleCollectives",
    "Training",
    "load",
    "save",
]


IDLE_CYCLES = 160
"""Simulated where nothing is outstanding, after a collective: what has been read behind the end of
its descriptor has come by then. Single collectives are so far apart, so that each finds an idle
platform."""


@dataclass(frozen=True)
class Training:
    """Run the training loop.

    Parameters
    ----------
    workload : scaled already
    iterations : at least 1
    data_type : of all collectives
    variation : of compute times, for stragglers
    """

    workload: Workload
    iterations: int
    data_type: str
    variation: Variation = field(default_factory=Variation)


@dataclass(frozen=True)
class SingleCollectives:
    """Run collectives one after another, each on an idle platform.

    Parameters
    ----------
    collectives : in order
    absent : ranks that never enter, to see what becomes of the others
    reversed : ranks that are given the collectives in reversed order, all at once as the others
        are, to see that they are caught
    at_once : enter them all in the first cycle, in order; each class does them in that order
    """

    collectives: tuple[Collective, ...]
    absent: tuple[int, ...] = ()
    reversed: tuple[int, ...] = ()
    at_once: bool = False


@dataclass(frozen=True)
class Job:
    """One simulation.

    Parameters
    ----------
    platform : as the model was built
    schedule : how collectives are planned
    work : what is run
    seed : of the payloads
    watchdog : cycles without any movement after which the run is given up
    record : file that takes down the run, so that it can be repeated without Python
    protected : put a BEGIN record in front of every collective, which the TLM does not count
    watched : stop in every cycle to see whose flit every NPU sends; one dim, and one link each

    Raises
    ------
    InputError
        where the platform's reduction units are not built for a collective.
    """

    platform: Platform
    schedule: ScheduleOptions
    work: Training | SingleCollectives
    seed: int = 1
    watchdog: int = 20_000
    record: Path | None = None
    protected: bool = False
    watched: bool = False

    def __post_init__(self) -> None:
        for collective in self.collectives():
            self.platform.engine.check_arithmetic(collective)

    def collectives(self) -> tuple[Collective, ...]:
        """All that it issues, each kind once or more often."""
        if isinstance(self.work, SingleCollectives):
            return self.work.collectives
        topology = self.platform.topology
        return tuple(collectives_of(self.work.workload, topology, self.work.data_type).values())


@dataclass(frozen=True)
class Issued:
    """One collective that ran on the RTL.

    Attributes
    ----------
    plan : what was executed
    source, result : regions, the same on all ranks
    issued, ended : cycle by rank, in the time of the training loop
    """

    plan: CollectivePlan
    source: Region
    result: Region
    issued: dict[int, int]
    ended: dict[int, int]

    @property
    def cycles(self) -> int:
        """From the entry of the last rank to the end of the last."""
        return max(self.ended.values()) - max(self.issued.values())


@dataclass(frozen=True)
class Outcome:
    """What a simulation found.

    Attributes
    ----------
    issued : the collectives, in order
    counters : by rank, over the whole run
    single_counters : the same after each collective, by collective; none for a training run
    single_collisions : likewise, by rank, requests that its SRAM has refused
    busy : by rank and dim, cycles in which an op was under way
    training : for a :class:`Training` job
    cycles : at the end, in the time of the training loop
    simulated : cycles that were simulated; the rest only computed
    wakes : how often Python was woken
    seconds : processor time of the simulation proper, Python's part and the model's
    results : by collective and rank, the bytes in its result region
    interrupted : where it was watched, by the numbers of two classes, packets of the one between
        whose flits some of the other left an NPU
    """

    issued: tuple[Issued, ...]
    counters: tuple[RankCounters, ...]
    single_counters: tuple[tuple[RankCounters, ...], ...]
    single_collisions: tuple[tuple[int, ...], ...]
    busy: tuple[tuple[int, ...], ...]
    training: TrainingResult | None
    cycles: int
    simulated: int
    wakes: int
    seconds: float
    results: tuple[tuple[NDArray[np.uint8], ...], ...]
    interrupted: dict[tuple[int, int], int] | None = None


def save(thing: object, path: Path) -> None:
    """Write ``thing`` for the other process. Both belong to one run of one command."""
    path.write_bytes(pickle.dumps(thing))


def load(path: Path) -> object:
    """Read what :func:`save` wrote."""
    return pickle.loads(path.read_bytes())

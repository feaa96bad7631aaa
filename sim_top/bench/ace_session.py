"""The cocotb test in which one collective is watched: this module is loaded in the simulation."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cocotb

from sim_top.cosim.backend import RtlBackend
from sim_top.cosim.outcome import Job, SingleCollectives, load, save
from sim_top.cosim.verify import first_difference
from sim_top.platform.build import flow_tables
from sim_top.platform.control import PlatformControl
from sw_model.endpoint.counters import RankCounters
from sw_model.schedule.options import PlanBook

__all__ = ["Progress", "watch_job"]


@dataclass(frozen=True)
class Progress:
    """What was counted.

    Attributes
    ----------
    cycles : in which the counters were looked at
    sent : then, by rank and dim, flits sent so far, headers too
    counters : at the end, by rank
    """

    cycles: tuple[int, ...]
    sent: tuple[tuple[tuple[int, ...], ...], ...]
    counters: tuple[RankCounters, ...]


@cocotb.test()
async def watch_job(dut: Any) -> None:
    """Run the collective of the file that the parameter ``job`` names, look at the counters every
    so many cycles, and compare every rank's result bit for bit."""
    path = Path(json.loads(os.environ["ANTIPHON_PARAMETERS"])["job"])
    told = load(path)
    assert isinstance(told, tuple)
    job: Job = told[0]
    every: int = told[1]
    assert isinstance(job.work, SingleCollectives)
    platform = job.platform
    book = PlanBook(platform, job.schedule, collectives=job.collectives())
    control = PlatformControl(dut, platform, flow_tables(platform, book.flows))
    await control.start(watchdog=job.watchdog)
    backend = RtlBackend(control, book, seed=job.seed)
    backend.issue(job.work.collectives[0], backend.representatives)
    waiting = platform.topology.npus
    cycles, sent = [], []
    while waiting:
        ended = await backend.wait(backend.now + every)
        waiting -= len(ended)
        if ended:
            continue  # others end in the next cycles, in which nobody looks at counters
        counters, _ = await control.counters()
        cycles.append(control.cycle)
        sent.append(tuple(tuple(d.flits_sent for d in rank.dims) for rank in counters))
        if waiting:  # who ended while the counters were looked at
            waiting -= len(await backend.wait(backend.now + 1))
    counters, _ = await control.counters()
    (issued,) = backend.issued
    flit = platform.engine.flit_bytes
    memories = await control.dump(0, issued.result.first + issued.result.flits)
    results = [memory[issued.result.first * flit :] for memory in memories]
    wrong = first_difference(issued, results, seed=job.seed, number=0, flows=book.flows)
    assert wrong is None, wrong
    progress = Progress(tuple(cycles), tuple(sent), counters)
    save((issued, progress), path.with_suffix(".outcome"))

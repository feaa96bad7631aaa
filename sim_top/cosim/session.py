"""The cocotb test in which a job runs: this module is loaded inside the simulation."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import cocotb

from sim_top.cosim.backend import RtlBackend
from sim_top.cosim.interruptions import InterruptedPackets
from sim_top.cosim.outcome import IDLE_CYCLES, Issued, Job, Outcome, SingleCollectives, load, save
from sim_top.platform.build import flow_tables
from sim_top.platform.control import PlatformControl
from sw_model.backend import run_alone
from sw_model.collective.check import check_plan
from sw_model.endpoint.counters import RankCounters
from sw_model.errors import AntiphonError
from sw_model.results import TrainingResult
from sw_model.schedule.limits import Limits
from sw_model.schedule.options import PlanBook
from sw_model.training import train

__all__ = ["run_job"]

_Single = tuple[tuple[RankCounters, ...], tuple[int, ...]]


@cocotb.test()
async def run_job(dut: Any) -> None:
    """Run the job in the file that the parameter ``job`` names; leave its outcome beside it."""
    path = Path(json.loads(os.environ["ANTIPHON_PARAMETERS"])["job"])
    job = load(path)
    assert isinstance(job, Job)
    outcome: Outcome | AntiphonError
    try:
        outcome = await _run(dut, job, path.with_suffix(".progress"))
    except AntiphonError as error:
        outcome = error
    save(outcome, path.with_suffix(".outcome"))


async def _run(dut: Any, job: Job, progress: Path) -> Outcome:
    platform = job.platform
    limits = Limits.of(platform)
    book = PlanBook(
        platform,
        job.schedule,
        check=lambda plan: check_plan(plan, limits=limits),
        collectives=job.collectives(),
    )
    control = PlatformControl(dut, platform, flow_tables(platform, book.flows), record=job.record)
    await control.start(watchdog=job.watchdog)
    watch = InterruptedPackets(control) if job.watched else None
    backend = RtlBackend(
        control,
        book,
        seed=job.seed,
        protected=job.protected,
        advance=watch.run if watch else None,
    )
    training = None
    singles: list[_Single] = []
    started = time.process_time()
    if isinstance(job.work, SingleCollectives):
        singles = await _singles(backend, control, job.work, progress)
    else:
        training = await _training(backend, job, progress)
    seconds = time.process_time() - started
    cycles, simulated = backend.now, control.cycle
    issued = backend.issued
    counters, busy = await control.counters()
    return Outcome(
        issued=issued,
        counters=counters,
        single_counters=tuple(counters for counters, _ in singles),
        single_collisions=tuple(collisions for _, collisions in singles),
        busy=busy,
        training=training,
        cycles=cycles,
        simulated=simulated,
        wakes=control.shell.wakes,
        seconds=seconds,
        results=await _results(control, issued),
        interrupted=watch.total() if watch else None,
    )


async def _singles(
    backend: RtlBackend, control: PlatformControl, work: SingleCollectives, progress: Path
) -> list[_Single]:
    """Run collectives one by one; the counters and bank collisions after each. With ranks that have
    them in reversed order, and where they are to contend, all are run at once."""
    if work.reversed or work.at_once:
        backend.issue_at_once(work.collectives, work.reversed)
        left = len(work.collectives) * len(backend.representatives)
        while left:
            left -= len(await backend.wait(None))
        return []
    found = []
    for number, collective in enumerate(work.collectives):
        ranks = [rank for rank in backend.representatives if rank not in work.absent]
        await run_alone(backend, collective, ranks)
        # Where memory refuses at random the end of a descriptor may come behind the completion.
        await control.run(until=control.cycle + IDLE_CYCLES)
        counters, _ = await control.counters()
        found.append((counters, control.bank_collisions()))
        progress.write_text(f"{(number + 1) / len(work.collectives):.4f}")
    return found


async def _training(backend: RtlBackend, job: Job, progress: Path) -> TrainingResult:
    work = job.work
    assert not isinstance(work, SingleCollectives)
    return await train(
        work.workload,
        job.platform.topology,
        backend,
        iterations=work.iterations,
        clock_hz=job.platform.clock_hz,
        data_type=work.data_type,
        variation=work.variation,
        progress=lambda share: progress.write_text(f"{share:.4f}"),
    )


async def _results(control: PlatformControl, issued: tuple[Issued, ...]) -> tuple[tuple, ...]:
    """The result regions, cut out of one dump of all memories."""
    top = max((entry.result.first + entry.result.flits for entry in issued), default=0)
    if not top:
        return tuple(() for _ in issued)
    flit = control.platform.engine.flit_bytes
    memories = await control.dump(0, top)
    return tuple(
        tuple(
            memory[entry.result.first * flit : (entry.result.first + entry.result.flits) * flit]
            for memory in memories
        )
        for entry in issued
    )

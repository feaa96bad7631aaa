"""A training workload on the TLM and with the RTL in the loop, and how the two compare."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from sim_top.cosim.outcome import Job, Outcome, Training, load, save
from sim_top.cosim.placement import check_memory, check_payloads
from sim_top.cosim.verify import compare
from sim_top.platform.build import platform_model
from sim_top.platform.limits import check_rtl
from sim_top.simulator import Model, build, run_cocotb
from sim_top.simulator.cache import build_root
from sw_model.errors import AntiphonError
from sw_model.experiment import Experiment
from sw_model.fabric.folding import Folding
from sw_model.fabric.preemption import by_class
from sw_model.fred.tree.order import check_order
from sw_model.platform import Platform
from sw_model.results import (
    CosimResult,
    Crosscheck,
    RunResult,
)
from sw_model.schedule.options import PlanBook
from sw_model.simulation import dim_results, run_result, simulate_on
from sw_model.workload.layers import Workload
from sw_model.workload.spans import collectives_of, issued

__all__ = ["run_cosim", "run_job", "run_jobs"]

Progress = Callable[[float], object]


def run_cosim(
    experiment: Experiment,
    workload: Workload,
    *,
    waves: Path | None = None,
    interruptions: bool = False,
    progress: Progress | None = None,
) -> CosimResult:
    """Run the experiment: the TLM at full size (on a tree of FRED switches at the experiment's
    scale), then TLM and RTL at the experiment's scale; each with the baseline schedule and with the
    experiment's own.

    Parameters
    ----------
    experiment : what to run
    workload : its workload, at full size
    waves : file for the waveforms of the run with the experiment's own schedule
    interruptions : count on the RTL the packets that higher classes interrupt, for which it is
        stopped in every cycle; on a tree of FRED switches whose classes have channels of their own
    progress : called with the share that is done

    Raises
    ------
    InputError
        before anything runs or is built, where the workload does not fit the platform, its payloads
        and descriptors do not fit the memories, the RTL cannot be that platform, or the simulator
        is missing
    DeadlockError
        where nothing moves any more on one of the two, naming who waits for what
    """
    tell = progress or (lambda share: None)
    own = experiment.schedule
    schedules = [own]
    if own.scheduler != "baseline":
        schedules.insert(0, replace(own, scheduler="baseline", intra="fifo"))
    settings = experiment.workload
    scale = experiment.cosim.scale
    platform = experiment.platform()
    small = workload.scaled(scale, settings.data_type)

    collectives = collectives_of(small, platform.topology, settings.data_type)
    sequence = issued(small, collectives) * settings.iterations
    check_payloads(platform, sequence)
    check_rtl(platform)
    if platform.tree is not None:
        check_order(collectives.values(), platform.topology.npus, platform.engine.lane_of)
    work = Training(
        workload=small,
        iterations=settings.iterations,
        data_type=settings.data_type,
        variation=settings.variation,
    )
    jobs = [Job(platform, schedule, work, watched=interruptions) for schedule in schedules]
    books = [PlanBook(platform, one, collectives=collectives.values()) for one in schedules]
    for book in books:
        check_memory(book, sequence)
    # A tree of switches is modelled packet by packet: too many at full size.
    whole = workload if platform.tree is None else small
    full_size = []
    for schedule in schedules:
        full_size.append(simulate_on(replace(experiment, schedule=schedule), whole).result)
    tell(0.1)
    model = platform_model(platform, waves=waves is not None)
    build(model)
    tell(0.3)

    outcomes = run_jobs(model, jobs, waves=waves, progress=lambda share: tell(0.3 + 0.6 * share))
    rtl, tlm, cases = [], [], []
    for schedule, book, outcome in zip(schedules, books, outcomes, strict=True):
        run = simulate_on(
            replace(experiment, schedule=schedule),
            small,
            label=f"{schedule.scheduler}, TLM",
            folding=Folding.NONE,
            book=book,
        )
        tlm.append(run.result)
        rtl.append(_rtl_result(schedule.scheduler, outcome, platform))
        cases += compare(schedule.scheduler, outcome, run.backend, seed=jobs[0].seed)
    tell(1.0)
    return CosimResult(
        full_size=tuple(full_size),
        scale=scale,
        tlm=tuple(tlm),
        rtl=tuple(rtl),
        crosscheck=Crosscheck(cases=tuple(cases)),
        cycles_simulated=outcomes[-1].simulated,
        seconds=outcomes[-1].seconds,
    )


def run_jobs(
    model: Model,
    jobs: Sequence[Job],
    *,
    waves: Path | None = None,
    progress: Progress | None = None,
    plusargs: tuple[str, ...] = (),
) -> list[Outcome]:
    """Run jobs side by side, two at a time. ``waves`` is for the last one."""
    shares = [0.0] * len(jobs)

    def one(number: int) -> Outcome:
        def report(share: float) -> None:
            shares[number] = share
            if progress is not None:
                progress(sum(shares) / len(shares))

        target = waves if number == len(jobs) - 1 else None
        return run_job(model, jobs[number], waves=target, progress=report, plusargs=plusargs)

    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(one, range(len(jobs))))


def run_job(
    model: Model,
    job: Job,
    *,
    waves: Path | None = None,
    progress: Progress | None = None,
    plusargs: tuple[str, ...] = (),
    timeout_seconds: float = 3600,
) -> Outcome:
    """Run one job on a model that is built.

    Raises
    ------
    AntiphonError
        what the job ended with inside the simulation
    SimulationError
        where the simulation itself failed
    """
    root = build_root() / "jobs"
    root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=root))
    path = folder / "job"
    save(job, path)
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(
            run_cocotb,
            model,
            module="sim_top.cosim.session",
            parameters={"job": str(path)},
            timeout_seconds=timeout_seconds,
            waves=waves,
            plusargs=plusargs,
        )
        while not running.done():
            time.sleep(0.1)
            if progress is not None:
                progress(_share(path.with_suffix(".progress")))
        failure = running.exception()
    found = path.with_suffix(".outcome")
    outcome = load(found) if found.exists() else None
    # A simulator may crash where it is ended before its first cycle: what ended it says more.
    if failure is not None and not isinstance(outcome, AntiphonError):
        raise failure
    shutil.rmtree(folder, ignore_errors=True)
    if isinstance(outcome, AntiphonError):
        raise outcome
    assert isinstance(outcome, Outcome)
    return outcome


def _share(path: Path) -> float:
    try:
        return float(path.read_text() or 0)
    except (OSError, ValueError):
        return 0.0


def _rtl_result(label: str, outcome: Outcome, platform: Platform) -> RunResult:
    """The RTL's run in the form of every other run."""
    assert outcome.training is not None
    dims = range(len(platform.topology.dims))
    busy = {dim: max(rank[dim] for rank in outcome.busy) for dim in dims}
    result = run_result(
        f"{label}, RTL",
        outcome.training,
        platform,
        dims=dim_results(platform, outcome.counters, busy),
    )
    if outcome.interrupted is None:
        return result
    packets = by_class(platform.engine.classes, outcome.interrupted)
    return replace(result, interrupted_packets=packets)

"""Running the matrix."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from sim_top.cosim.outcome import IDLE_CYCLES, Job, SingleCollectives
from sim_top.cosim.run import run_job
from sim_top.cosim.verify import compare
from sim_top.crosscheck.matrix import Case, matrix
from sim_top.platform.build import platform_model
from sim_top.platform.limits import check_rtl
from sim_top.simulator import build
from sw_model.backend import run_alone
from sw_model.fabric.backend import TlmBackend
from sw_model.results import Crosscheck, CrosscheckCase
from sw_model.schedule.options import PlanBook

__all__ = ["check_case", "run_crosscheck", "run_singles"]


def run_crosscheck(name: str, *, progress: Callable[[float], object] | None = None) -> Crosscheck:
    """Run the matrix ``quick`` or ``full``.

    Raises
    ------
    ValueError
        for another name.
    InputError
        before anything is built, where a simulator or what it builds with is missing.
    """
    cases = list(matrix(name))
    for case in cases:
        check_rtl(case.setting.platform)
    found: list[CrosscheckCase] = []
    for number, case in enumerate(cases):
        found += check_case(case)
        if progress is not None:
            progress((number + 1) / len(cases))
    return Crosscheck(cases=tuple(found))


def check_case(case: Case, *, seed: int = 1) -> list[CrosscheckCase]:
    """Run one setting on both and compare.

    Under random stalls, of which the TLM does not know, only data and counters are compared.
    """
    setting = case.setting
    model = platform_model(setting.platform)
    build(model)
    job = Job(
        platform=setting.platform,
        schedule=setting.schedule,
        work=SingleCollectives(case.collectives),
        seed=seed,
    )
    plusargs: tuple[str, ...] = ()
    if setting.stalls:
        plusargs = (f"+memory_stalls={setting.stalls}", f"+memory_seed={seed}")
    outcome = run_job(model, job, plusargs=plusargs)
    book = PlanBook(setting.platform, setting.schedule, collectives=case.collectives)
    backend = TlmBackend(book)
    asyncio.run(run_singles(backend, case))
    cases = compare(setting.name, outcome, backend, seed=seed)
    if setting.stalls:
        cases = [replace(case, timed=False) for case in cases]
    return cases


async def run_singles(backend: TlmBackend, case: Case) -> None:
    """The collectives of a case, each on an idle platform."""
    for collective in case.collectives:
        await run_alone(backend, collective, backend.representatives)
        await backend.wait(backend.now + IDLE_CYCLES)

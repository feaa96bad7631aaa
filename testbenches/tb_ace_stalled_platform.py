"""Platforms of several dims with as few buffers as there can be, links and memories that stall."""

from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from numpy.typing import NDArray

from sim_top.cosim.backend import RtlBackend
from sim_top.cosim.memory_map import payload
from sim_top.cosim.outcome import Job, load
from sim_top.platform.control import PlatformControl
from sw_model.collective.check import check_plan
from sw_model.collective.plan import Collective, Operation
from sw_model.schedule.limits import Limits
from sw_model.schedule.options import PlanBook
from testbenches import parameters, seed
from testbenches.ace_stalled_platform import COUNTED

_COUNT_BITS = 24


def _expected(collective: Collective, sources: list[NDArray[Any]], rank: int) -> NDArray[Any]:
    """What a rank of a platform whose dims the collective spans must get: of integers, whose sum
    is the same in any order."""
    ranks = len(sources)
    total = np.sum(sources, axis=0, dtype=np.int32)
    if collective.operation is Operation.ALL_REDUCE:
        return np.asarray(total)
    if collective.operation is Operation.REDUCE_SCATTER:
        return np.split(total, ranks)[rank]
    if collective.operation is Operation.ALL_GATHER:
        return np.concatenate(sources)
    assert collective.operation is Operation.ALL_TO_ALL
    return np.concatenate([np.split(source, ranks)[rank] for source in sources])


@cocotb.test()
async def worst_case(dut):
    """Collectives one behind another, entered by every rank at its own time. All of them end, and
    are right; and at every rank ops waited for a buffer of the partition that they go to."""
    p = parameters()
    job = load(Path(p["job"]))
    assert isinstance(job, Job)
    platform, schedule, collectives = job.platform, job.schedule, job.collectives()
    random = np.random.default_rng(seed())
    limits = Limits.of(platform)
    book = PlanBook(platform, schedule, check=lambda plan: check_plan(plan, limits=limits))
    control = PlatformControl(dut, platform, {})
    await control.start(watchdog=job.watchdog)
    control.shell.write("link_stalls", p["link_stalls"])
    # The links' random numbers go on in every cycle: another start is another seed.
    await control.run(control.cycle + 1 + 61 * seed())
    backend = RtlBackend(control, book, seed=seed())
    ranks = list(backend.representatives)
    start = control.cycle
    left = len(collectives) * len(ranks)
    for collective in collectives:
        for rank in random.permutation(ranks):
            backend.issue(collective, [int(rank)])
            until = backend.now + int(random.integers(1, 60))
            while backend.now < until:
                left -= len(await backend.wait(until))
    while left:
        left -= len(await backend.wait(None))
    end = control.cycle

    for number, issued in enumerate(backend.issued):
        collective = issued.plan.collective
        assert len(issued.plan.chunks) >= p["chunks"], number
        sources = [payload(collective, seed=seed(), number=number, rank=r) for r in ranks]
        found = await control.dump(issued.result.first, issued.result.flits)
        for rank in ranks:
            right = _expected(collective, sources, rank)
            np.testing.assert_array_equal(found[rank].view(np.int32), right, f"{number}, {rank}")

    word = int(dut.waited.value)
    dims = len(platform.topology.dims)
    waited = np.array(
        [
            word >> _COUNT_BITS * place & ((1 << _COUNT_BITS) - 1)
            for place in range(len(ranks) * dims * len(COUNTED))
        ]
    ).reshape(len(ranks), dims, len(COUNTED))
    for number, cause in enumerate(COUNTED):
        assert (waited[:, :, number].sum(axis=1) > 0).all(), (cause.name, waited)
    shares = {c.name: int(waited[:, :, n].sum()) for n, c in enumerate(COUNTED)}
    dut._log.info(f"{len(collectives)} collectives in {end - start} cycles; waited: {shares}")

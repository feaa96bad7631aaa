"""Memories of a rate: the model of the ports cycle by cycle, and the TLM against the RTL."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import replace
from fractions import Fraction
from math import ceil
from types import SimpleNamespace

import pytest

from sim_top.crosscheck import Case
from sim_top.crosscheck.matrix import Setting
from sim_top.crosscheck.run import check_case
from sw_model.collective.plan import Collective, Operation
from sw_model.endpoint.dma import RxDma
from sw_model.endpoint.scoreboard import Scoreboard
from sw_model.endpoint.timing import ACE_TIMING
from sw_model.fabric.simulate import run_collective
from sw_model.platform import (
    EngineParameters,
    LinkParameters,
    MemoryParameters,
    Partition,
    Platform,
)
from sw_model.schedule.options import ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology

AR, RS, AG = Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER
RATES = [Fraction(1), Fraction(5, 8), Fraction(8, 25), Fraction(1, 9)]


def platform(read: Fraction, write: Fraction) -> Platform:
    """Two ranks on a ring; one engine serves all tests."""
    return Platform(
        topology=Topology((Dim(DimKind.RING, 2, Fraction(20 * 10**9), 8000),)),
        links=(LinkParameters(rate=Fraction(1), latency=10),),
        engine=EngineParameters(partitions=(Partition(4, 256), Partition(4, 256))),
        memory=MemoryParameters(read_rate=read, write_rate=write),
    )


class Account:
    """A rate in its plainest form: what has been gained, in the cycles so far."""

    def __init__(self, rate: Fraction) -> None:
        self.rate, self.saved = rate, Fraction(1) + rate - Fraction(1, rate.denominator)

    def cycle(self, wanted: bool) -> bool:
        taken = wanted and self.saved >= 1
        self.saved -= taken
        most = 1 + self.rate - Fraction(1, self.rate.denominator)
        self.saved = min(most, self.saved + self.rate)
        return taken


def stores(
    rate: Fraction, latency: int, writes: int, jobs: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """RX DMA a cycle at a time: of every job (first cycle, flits), when its last flit is read and
    when it is given to memory."""
    account = Account(rate)
    out: list[tuple[int, int]] = []
    buffer: deque[tuple[int, int]] = deque()  # (cycle read, job)
    acknowledged: deque[int] = deque()
    room = ACE_TIMING.store_buffer
    issued = done = cycle = job = index = 0
    read: dict[int, int] = {}
    given: dict[int, int] = {}
    while len(out) < len(jobs):
        held = len(buffer)
        while acknowledged and acknowledged[0] < cycle:
            acknowledged.popleft()
            done += 1
        wanted = bool(buffer) and buffer[0][0] + ACE_TIMING.store_read <= cycle
        if account.cycle(wanted):
            _, whose = buffer.popleft()
            given[whose] = cycle
            acknowledged.append(cycle + latency)
        if job < len(jobs) and cycle >= jobs[job][0] and held < room and issued - done < writes:
            buffer.append((cycle, job))
            read[job] = cycle
            issued, index = issued + 1, index + 1
            if index == jobs[job][1]:
                job, index = job + 1, 0
        while len(out) < job and not any(whose == len(out) for _, whose in buffer):
            out.append((read[len(out)], given[len(out)]))
        cycle += 1
    return out


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("latency", [1, 32, 150, 400])
def test_stores_cycle_by_cycle(rate: Fraction, latency: int) -> None:
    """Also where the writes that may be under way do not cover the latency."""
    generator = random.Random(int(latency * rate.denominator))
    kernel = SimpleNamespace(now=0)
    dma = RxDma(kernel, Scoreboard(1), ACE_TIMING, 8, latency, rate, lambda _: None)  # type: ignore[arg-type]
    jobs, found = [], []
    for _ in range(40):
        flits = generator.choice([1, 2, 7, 8, 9, 40, 300])
        jobs.append((kernel.now, flits))
        found.append(dma._stream(flits))
        kernel.now = found[-1][0] + 1 + generator.choice([0, 0, 1, 5, 500])
    assert found == stores(rate, latency, 128, jobs)


@pytest.mark.parametrize(
    ("read", "write"),
    [(1, 1), (Fraction(5, 8), Fraction(5, 8)), (Fraction(8, 25), 1), (1, Fraction(2, 9))],
)
def test_the_tlm_keeps_the_memory_of_the_rtl(read: Fraction, write: Fraction) -> None:
    """Through loads, descriptors that slip in between them, and stores: cycle for cycle, but for
    the banks of the SRAM on which many chunks meet (a few cycles of the last)."""
    where = platform(Fraction(read), Fraction(write))
    sizes = ((AR, 1), (AR, 700), (RS, 4096), (AG, 3072), (AR, 16384))
    collectives = tuple(Collective(o, elements, dims=(0,)) for o, elements in sizes)
    schedule = ScheduleOptions("baseline", "fifo", 16)
    cases = check_case(Case(Setting("paced", where, schedule), collectives))
    assert len(cases) == len(sizes)
    for case in cases:
        assert case.data_ok, case
        assert case.counters_ok, case
    *alone, many = [c.rtl_cycles - c.tlm_cycles for c in cases]
    assert alone == [0] * len(alone)
    assert 0 <= many <= 16


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_a_long_collective_takes_what_its_memory_takes(rate: Fraction) -> None:
    """One chunk: read whole before anything is sent, and written whole behind it."""
    flits, where = 200, platform(rate, rate)
    run = run_collective(
        where,
        Collective(AR, 8 * flits, dims=(0,)),
        schedule=ScheduleOptions("baseline", chunks=1),
    )
    other = run_collective(
        platform(Fraction(1), Fraction(1)),
        Collective(AR, 8 * flits, dims=(0,)),
        schedule=ScheduleOptions("baseline", chunks=1),
    )
    more = 2 * ceil((flits - 1) / rate) - 2 * (flits - 1)
    # Descriptor beats are paced too: records come in before, beside and behind the payload.
    beats = 2 * (run.counters[0].descriptor_bytes // 32 + 16)
    assert more - 2 <= run.cycles - other.cycles <= more + ceil(beats / rate)


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("read_rate", Fraction(0)),
        ("read_rate", Fraction(9, 8)),
        ("write_rate", Fraction(1, 65536)),
    ],
)
def test_a_rate_out_of_range_is_refused(name: str, rate: Fraction) -> None:
    text = f"{name} must be above 0 and at most 1, with a denominator below 65536, not {rate}"
    with pytest.raises(ValueError, match=f"^{text}$"):
        replace(MemoryParameters(), **{name: rate})  # type: ignore[arg-type]

"""The all-reduce of one element on the torus: what its cycles consist of, summed by hand."""

from __future__ import annotations

from sim_top.bench.ace import model_cycles, torus_platform
from sw_model.endpoint.link import LINK_TIMING
from sw_model.endpoint.timing import ACE_TIMING
from sw_model.fabric.constants import FabricConstants

OVERHEAD = 4_017
"""Cycles, as docs/ace.md says; of the RTL too (tests/test_ace_torus.py)."""

LATENCIES = (90, 500, 500)
"""Cycles of a link of each dim."""

READ, WRITE = 64, 32
"""Latency of memory."""


def test_the_platform_is_that_of_the_sum() -> None:
    where = torus_platform()
    assert tuple(link.latency for link in where.links) == LATENCIES
    assert [1 / link.rate for link in where.links] == [1, 8, 8]
    assert (where.memory.read_latency, where.memory.write_latency) == (READ, WRITE)
    assert [dim.size for dim in where.topology.dims] == [4, 2, 2]


def test_the_model_takes_what_the_rtl_takes() -> None:
    assert model_cycles(torus_platform(), elements=1, chunks=1) == OVERHEAD


def test_it_is_no_less_than_the_latencies_on_its_way() -> None:
    """Independent of how the engine is made: the descriptor is read, then the element; sums go
    3 + 1 + 1 links far, and results back; on each dim the way out begins when a grant has come over
    a link; the result is written."""
    flights = 2 * (3 * 90 + 500 + 500)
    grants = 90 + 500 + 500
    memory = READ + READ + WRITE
    assert flights == 2540
    assert flights + grants + memory == 3790 <= OVERHEAD


def test_the_sum_is_exact() -> None:
    """As docs/ace.md lists it."""
    t, link, host = ACE_TIMING, LINK_TIMING, FabricConstants()
    first_beat = host.doorbell + t.doorbell + READ
    queued = first_beat + 1 + t.record_arrival  # a record has two beats
    begin = queued + t.queue + READ + t.load_fill

    def message(latency: int, spacing: int) -> int:
        """From its choice to its flit written; a slow link takes the flit ``spacing`` behind the
        header."""
        return t.transmit + spacing + link.flit(latency) + t.receive

    def op(hops: int, latency: int, spacing: int, *, granted: bool) -> int:
        """From its start to its end, where the next one starts. Grants are waited for where all
        members start at once; on the way back those without data are there long before."""
        wait = t.first_step if granted else link.grant(latency) + t.granted
        return wait + hops * message(latency, spacing) + (hops - 1) * t.chase + t.received_end

    ops = [
        op(3, 90, 1, granted=False),
        op(1, 500, 8, granted=False),
        op(2, 500, 8, granted=False),  # reduce-scatter and all-gather in one
        op(1, 500, 8, granted=True),
        op(3, 90, 1, granted=True),
    ]
    end = t.store_read + WRITE + t.completion + host.completion
    assert (begin, ops, end) == (135, [414, 1027, 1551, 528, 325], 37)
    assert begin + sum(ops) + end == OVERHEAD

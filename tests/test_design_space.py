"""SRAM and state machines of an engine: against Little's law and the figures it gives."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from sw_model.endpoint.design_space import (
    TORI,
    TorusPlatform,
    knee,
    machines_needed,
    simulate,
    study,
)

MIB = 2**20
LARGE = 32 * MIB


@pytest.mark.parametrize(("torus", "machines"), [((4, 4, 4), 15.7), ((4, 8, 4), 19.3)])
def test_the_known_demands(torus, machines):
    """About 15.7 state machines at 64 NPUs and 19.3 at 128, and about 1 MiB live."""
    needed = machines_needed(TorusPlatform(torus=torus))
    assert float(needed) == pytest.approx(machines, abs=0.05)
    if torus == (4, 4, 4):
        assert float(needed * 64 * 2**10 / MIB) == pytest.approx(1, abs=0.02)


def test_the_payload_rate_by_hand():
    """4 x 4 x 4: 2 x 3/4 of a quarter over two links of 25 GB/s. With 2.25 bytes sent a payload
    byte that is 300 GB/s."""
    assert TorusPlatform().payload_rate == Fraction(400 * 10**9, 3)
    assert float(TorusPlatform().payload_rate * Fraction(9, 4)) == 300e9
    # 4 x 2 x 2: the packages' rings are done sooner, 2 x 1/2 of a quarter.
    assert TorusPlatform(torus=(4, 2, 2)).payload_rate == 200 * 10**9


@pytest.mark.parametrize("torus", TORI)
def test_state_machines_are_the_limit_below_the_demand(torus):
    platform = TorusPlatform(torus=torus)
    needed = float(machines_needed(platform))
    memory = float(platform.memory_bandwidth / platform.payload_rate)
    for machines in (2, 6, 10, 14, 18, 22, 26):
        found = simulate(platform, sram_bytes=LARGE, machines=machines)
        limit = min(1.0, memory, machines / needed)
        assert found.utilisation <= limit * 1.01
        assert found.utilisation >= limit * 0.94
        assert found.busy_machines == pytest.approx(found.utilisation * needed, rel=0.02)


def test_the_paper_s_engine():
    """4 MiB and 16 machines carry 64 NPUs, where memory is the limit, and 5/6 of 128."""
    at_64 = simulate(TorusPlatform(), sram_bytes=4 * MIB, machines=16)
    assert at_64.utilisation == pytest.approx(0.96, abs=0.005)  # 128 of 133.3 GB/s
    at_128 = simulate(TorusPlatform(torus=(4, 8, 4)), sram_bytes=4 * MIB, machines=16)
    assert at_128.utilisation == pytest.approx(16 / 19.33, abs=0.01)
    more = simulate(TorusPlatform(torus=(4, 8, 4)), sram_bytes=4 * MIB, machines=20)
    assert more.utilisation == pytest.approx(1, abs=0.01)


def test_room_for_a_chunk_at_a_time():
    """One place in each partition, by hand: a local phase ends, and only then may the next chunk
    be read. Its next read, reduce-scatter and room at the vertical ring make the cycle."""
    platform = TorusPlatform(
        torus=(2, 2, 2),
        local_latency=0,
        package_latency=0,
        memory_bandwidth=Fraction(10**18),
        package_rate=Fraction(25 * 10**9),
    )
    # Chunk 65,536: 0.16384 us on the local link, 2 x 1/2 x 32,768 at 25 GB/s = 1.31072 us each on
    # the others. A ring's place is free when its phase ends, and the chunk before it leaves then.
    found = simulate(platform, sram_bytes=65_536 * 4, machines=8, chunks=64)
    cycle = 1.31072e-6
    rate = 65_536 / cycle / float(platform.payload_rate)  # one link of two
    assert found.utilisation <= rate * 1.001
    assert found.utilisation > rate / 2.5


def test_a_study_is_every_combination_and_more_never_hurts_much():
    found = study(TorusPlatform(), [MIB, 4 * MIB], [4, 16])
    assert [(d.sram_bytes, d.machines) for d in found] == [
        (MIB, 4),
        (MIB, 16),
        (4 * MIB, 4),
        (4 * MIB, 16),
    ]
    use = [d.utilisation for d in found]
    assert use[1] > use[0]
    assert use[3] > 2 * use[1]  # with 1 MiB the SRAM is the limit
    assert use[2] == pytest.approx(4 / 15.69, abs=0.01)


def test_the_knee_is_where_more_gains_little():
    for torus, machines in (((4, 4, 4), 16), ((4, 8, 4), 20)):
        found = study(TorusPlatform(torus=torus), [4 * MIB], range(8, 33, 4))
        assert knee(found).machines == machines
    assert knee(found[:1]) == found[0]


def test_refused():
    platform = TorusPlatform()
    for options, message in (
        ({"sram_bytes": MIB, "machines": 0}, "machines must be at least 1, not 0"),
        (
            {"sram_bytes": 65_536, "machines": 1},
            "sram_bytes must hold a chunk in every partition, not 65536",
        ),
        (
            {"sram_bytes": MIB, "machines": 1, "chunks": 4},
            "chunks must be at least 8, not 4",
        ),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            simulate(platform, **options)
    message = "torus must be three sizes of at least 2, not (4, 1, 4)"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        replace(platform, torus=(4, 1, 4))
    with pytest.raises(ValueError, match=r"^found must have a design$"):
        knee([])

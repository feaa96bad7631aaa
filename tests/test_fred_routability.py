"""Which strategies of 3D parallelism FRED switches route in one configuration."""

from __future__ import annotations

from itertools import product

import pytest

from sim_top.reproduce import fred_routability
from sim_top.reproduce.fred_routability import PORTS, phases, rows, strategies, study
from sw_model.fred.configuration import Flow
from sw_model.workload.parallel import Parallelism


def test_phases_by_hand():
    """MP 2, DP 3, PP 2: ports 0 1 are stage 0 of replica 0, 2 3 its stage 1, and so on."""
    flows = phases(Parallelism(tensor=2, data=3, pipeline=2))
    assert flows["MP"] == tuple(Flow((p, p + 1), (p, p + 1)) for p in range(0, 12, 2))
    groups = [(0, 4, 8), (1, 5, 9), (2, 6, 10), (3, 7, 11)]
    assert flows["DP"] == tuple(Flow(group, group) for group in groups)
    pairs = [(0, 2), (1, 3), (4, 6), (5, 7), (8, 10), (9, 11)]
    assert flows["PP"] == tuple(Flow((a,), (b,)) for a, b in pairs)
    assert set(phases(Parallelism(tensor=5))) == {"MP"}


def test_all_strategies():
    for ports in PORTS:
        found = {(s.tensor, s.data, s.pipeline) for s in strategies(ports)}
        numbers = range(1, ports + 1)
        triples = product(numbers, numbers, numbers)
        assert found == {t for t in triples if t[0] * t[1] * t[2] == ports}


def two_colourable(ports: int, groups: list[tuple[int, ...]]) -> bool:
    """Whether groups can take two middle copies at every level of a switch of a power of two or
    twice an odd number of ports: those that share ports 2i and 2i + 1 must differ. Tries all."""
    if ports <= 2 or len(groups) < 2:
        return True
    for colours in product((0, 1), repeat=len(groups)):
        if any(
            {p // 2 for p in a} & {p // 2 for p in b}
            for i, a in enumerate(groups)
            for j, b in enumerate(groups)
            if i < j and colours[i] == colours[j]
        ):
            continue
        halves = [
            [
                tuple(sorted({p // 2 for p in g}))
                for g, c in zip(groups, colours, strict=True)
                if c == k
            ]
            for k in (0, 1)
        ]
        if all(two_colourable(-(-ports // 2), half) for half in halves):
            return True
    return False


@pytest.mark.parametrize("ports", [8, 10, 12, 16])
def test_two_copies_against_all_colourings(ports):
    """For even sizes, where no odd port comes in until few are left."""
    for entry in study(ports, 2):
        for name, flows in phases(entry.strategy).items():
            if name == "PP":
                continue
            groups = [flow.inputs for flow in flows]
            if len(groups) <= 8:
                assert (entry.configurations[name] == 1) == two_colourable(ports, groups)


def test_what_fails_is_data_parallel():
    """On 20 ports: FRED_2 needs a second configuration for six of 18, always for the DP phase."""
    found = study(20, 2)
    failed = {
        (e.strategy.tensor, e.strategy.data, e.strategy.pipeline) for e in found if not e.at_once
    }
    assert len(found) == 18
    assert failed == {(1, 4, 5), (1, 2, 10), (2, 2, 5), (5, 4, 1), (5, 2, 2), (10, 2, 1)}
    for entry in found:
        counts = entry.configurations
        assert {name for name, count in counts.items() if count > 1} <= {"DP"}
        assert max(counts.values()) <= 2
    assert all(entry.at_once for entry in study(20, 3))


def test_rows(monkeypatch):
    """With all partitions of up to six ports; the rows of a whole run have up to eight."""
    whole = fred_routability.PARTITIONS
    monkeypatch.setattr(fred_routability, "PARTITIONS", {n: whole[n] for n in (4, 5, 6)})
    found = rows(lambda share: None)
    assert len(found) == 13 * 3 + 3 * 2 + 3
    assert all(row.ok and row.tolerance == 0 for row in found)
    hard = {row.name[:10]: row for row in found if "{0,2,4}" in row.name}
    assert [hard[f"FRED_{m}(12)"].ours > 1 for m in (2, 3, 4)] == [True, True, False]
    assert len({row.name for row in found}) == len(found)

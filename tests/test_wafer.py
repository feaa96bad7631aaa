"""The wafer: streams over shared links, its fabrics, and its iterations."""

import re
from collections import Counter
from fractions import Fraction

import pytest

from sim_top.reproduce import fred_switches
from sim_top.reproduce.registry import rows_of
from sw_model.congestion.fluid import Stream, run_streams
from sw_model.fred.construction import construct
from sw_model.wafer.collectives import all_reduce_seconds, ring_uses, send_seconds
from sw_model.wafer.fabric import COLUMNS, FABRICS, IO_CONTROLLERS, NPUS, broadcast_uses
from sw_model.wafer.iteration import Strategy, implied_compute, io_share

_GB = 10**9


def test_streams_share_and_follow():
    capacity = {"a": Fraction(10), "b": Fraction(10)}
    streams = [
        Stream(uses={"a": 1}, amount=Fraction(10)),
        Stream(uses={"a": 1, "b": 1}, amount=Fraction(30)),
        Stream(uses={"b": 2}, amount=Fraction(5), after=(0,)),
        Stream(uses={}, amount=Fraction(0), after=(1, 2)),
    ]
    # a is shared by halves until 2; then the second has 10 / 3 of b beside twice that of the third
    # until 3.5; and all of it for the last 15.
    assert run_streams(streams, capacity) == [2, 5, Fraction(7, 2), 5]


def test_a_stream_of_no_bytes_ends_with_what_it_waits_for():
    streams = [
        Stream(uses={"a": 1}, amount=Fraction(4)),
        Stream(uses={"a": 1}, amount=Fraction(0), after=(0,)),
        Stream(uses={"a": 1}, amount=Fraction(4), after=(1,)),
    ]
    assert run_streams(streams, {"a": Fraction(2)}) == [2, 2, 4]


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        (
            [Stream(uses={"a": 1}, amount=Fraction(1), after=(0,))],
            "stream 0 must wait for earlier ones only, not [0]",
        ),
        (
            [Stream(uses={"c": 1}, amount=Fraction(1))],
            "stream 0 must use links that exist, not 'c'",
        ),
        (
            [Stream(uses={}, amount=Fraction(1))],
            "stream 0 must move bytes over links, not 1 bytes over 0 links",
        ),
    ],
)
def test_bad_streams(streams, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        run_streams(streams, {"a": Fraction(1)})


def test_paths():
    assert FABRICS["mesh"].path(0, 9) == [
        ("mesh", (0, 0), (0, 1)),
        ("mesh", (0, 1), (1, 1)),
        ("mesh", (1, 1), (2, 1)),
    ]
    assert FABRICS["A"].path(1, 3) == [("up", 1), ("down", 3)]
    assert FABRICS["A"].path(1, 4) == [("up", 1), ("trunk up", 0), ("trunk down", 1), ("down", 4)]
    assert FABRICS["A"].path(2, 2) == []
    assert len(FABRICS["mesh"].capacity()) == 2 * (5 * 3 + 4 * 4)


def test_a_ring_along_a_line_uses_every_link_once():
    uses = ring_uses(FABRICS["mesh"], (0, 4, 8, 12, 16))
    assert len(uses) == 8
    assert set(uses.values()) == {1}


@pytest.mark.parametrize("size", range(2, 8))
def test_the_hottest_link_of_a_mesh(size):
    assert max(broadcast_uses(size, size).values()) == 2 * size - 1


def test_every_stream_reaches_every_npu():
    # Each stream enters at one NPU and each other is reached over one link.
    for rows, columns in ((5, 4), (3, 3), (2, 6)):
        uses = broadcast_uses(rows, columns)
        assert sum(uses.values()) == 2 * (rows + columns) * (rows * columns - 1)


def test_io_share():
    assert io_share(FABRICS["mesh"]) == Fraction(750, 9 * 128)
    assert io_share(FABRICS["A"]) == 1
    assert IO_CONTROLLERS == 18


@pytest.mark.parametrize(("name", "rate"), [("mesh", 1500), ("C", 3000), ("D", 5700)])
def test_wafer_wide_all_reduce(name, rate):
    """The effective rates of the paper; in-network twice the useful one but for 1 / N."""
    seconds = all_reduce_seconds(FABRICS[name], [tuple(range(NPUS))], _GB)
    assert float(Fraction(19, 10) / seconds) == pytest.approx(rate, rel=1e-3)


def test_wafer_wide_all_reduce_over_a_thin_trunk():
    """What crosses the trunk is 2 * 4 / 5 of the quarter that each NPU has left, for four NPUs."""
    seconds = all_reduce_seconds(FABRICS["A"], [tuple(range(NPUS))], _GB)
    least = Fraction(2 * 4, 5) / 1500
    assert least < seconds < least * Fraction(101, 100)


def test_groups_across_the_rows():
    groups = [tuple(range(column, NPUS, COLUMNS)) for column in range(COLUMNS)]
    assert groups == Strategy(tensor=2, data=5, pipeline=2).data_groups()
    wanted = {
        "mesh": Fraction(8, 5) / 750,
        "A": Fraction(8, 5) / 375,
        "B": Fraction(1, 375),
        "C": Fraction(8, 5) / 3000,
        "D": Fraction(1, 3000),
    }
    for name, seconds in wanted.items():
        assert all_reduce_seconds(FABRICS[name], groups, _GB) == seconds


def test_groups_that_cross_on_the_mesh_share_its_links():
    alone = all_reduce_seconds(FABRICS["mesh"], [(3, 4, 5)], _GB)
    beside = all_reduce_seconds(FABRICS["mesh"], [(0, 1, 2), (3, 4, 5)], _GB)
    assert beside > alone


def test_sends():
    pairs = [(0, 4), (1, 5)]
    assert send_seconds(FABRICS["mesh"], pairs, _GB) == Fraction(1, 750)
    assert send_seconds(FABRICS["A"], pairs, _GB) == Fraction(2, 1500)
    assert send_seconds(FABRICS["A"], [(3, 3)], _GB) == 0


def test_placement():
    strategy = Strategy(tensor=2, data=2, pipeline=3)
    assert strategy.name == "MP(2)-DP(2)-PP(3)"
    assert strategy.tensor_groups()[:2] == [(0, 1), (2, 3)]
    assert strategy.data_groups()[0] == (0, 6)
    assert strategy.stage_pairs()[:2] == [(0, 2), (1, 3)]
    every = Counter(npu for group in strategy.data_groups() for npu in group)
    assert every == Counter(range(12))


def test_bad_groups():
    for groups in ([(0, 1), (1, 2)], [(0, 20)]):
        with pytest.raises(
            ValueError, match=r"^groups must be disjoint sets of NPUs 0\.\.19, not "
        ):
            all_reduce_seconds(FABRICS["mesh"], groups, _GB)
    with pytest.raises(ValueError, match=r"^fabric C must reduce in the network to be used so$"):
        FABRICS["C"].in_network_uses((0, 1))


def test_compute_that_a_gain_implies():
    compute = implied_compute(Fraction(3, 2), Fraction(4), Fraction(2))
    assert (compute + 4) / (compute + 2) == Fraction(3, 2)
    message = "a gain must be above 1 and at most 2.000 to be had by communication, not 3"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        implied_compute(Fraction(3), Fraction(4), Fraction(2))


def test_what_the_wafer_comes_to():
    """Bisections by hand, and chiplets: 18 controllers on five L1 switches are 4, 4, 4, 3, 3."""
    assert fred_switches.bisection("mesh") == 5 * 750 * _GB
    assert fred_switches.bisection("A") == 5 * 1500 * _GB / 2
    assert fred_switches.bisection("D") == 5 * 12000 * _GB / 2
    assert fred_switches.slices() == {4 + 4 + 4: 3 * 5, 4 + 3 + 4: 2 * 5, 2 * 5: 5 * 5 * 4 // 10}
    # FRED_3(4): four edges of four modes, three centres of seven.
    assert fred_switches.minimal_mode_bits(construct(4, 3)) == 4 * 2 + 3 * 3
    # FRED_3(3): an edge on each side, three centres, and the odd port's pair.
    assert fred_switches.minimal_mode_bits(construct(3, 3)) == 2 * 2 + 3 * 3 + 2 * 2


def test_counted_figures():
    rows = fred_switches.rows()
    assert len({row.name for row in rows}) == len(rows)
    far = [row for row in rows if not row.ok]
    assert [row.name for row in far] == [
        f"FRED_3({ports}): bits of the modes, as stored" for ports in (12, 64)
    ]
    assert all("in 4 bits where its four modes take 2" in row.reason for row in far)
    (table,) = fred_switches.tables()
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_published_figures():
    rows = rows_of("fred", lambda _: None)
    assert all(row.explained for row in rows)
    far = [row for row in rows if not row.ok]
    assert [row.name for row in far if "compute at 1000 TFLOPS" not in row.name] == [
        "MP(20) all-reduce, Fred-A, effective bandwidth of an NPU",
        "FRED_3(12): bits of the modes, as stored",
        "FRED_3(64): bits of the modes, as stored",
    ]
    # 2 x 4/5 payloads cross a trunk of 1.5 TB/s while an NPU sends 2 x 19/20.
    assert f"no more than {1.9 / 1.6 * 1500:.5g} GB/s" in far[0].reason
    assert all(row.ok for row in rows if "time over" in row.name or "streams" in row.name)

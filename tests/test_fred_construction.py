"""The construction of FRED_m(P) against the table of the paper's counts, and its wiring."""

import re

import pytest

from sw_model.fred.construction import construct, stages
from sw_model.fred.modes import (
    ADD_0,
    ADD_1,
    BROADCAST_0,
    CROSS,
    STRAIGHT,
    CentreMode,
    Kind,
    mode_bits,
    mode_code,
    mode_from_code,
)


def refused(text, error=ValueError):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


COUNTS = {
    3: (4, 5), 4: (6, 7), 5: (12, 19), 6: (14, 21), 8: (20, 29), 10: (34, 67), 11: (38, 73),
    12: (40, 75), 16: (56, 103), 20: (88, 221),
}  # fmt: skip
STAGES = {2: 1, 3: 3, 4: 3, 5: 5, 6: 5, 8: 5, 10: 7, 11: 7, 12: 7, 16: 7, 20: 9}


@pytest.mark.parametrize("ports", COUNTS)
def test_micro_switch_counts(ports):
    assert (construct(ports, 2).count, construct(ports, 3).count) == COUNTS[ports]


def test_one_pair_at_each_odd_size():
    assert [construct(p, 2).pairs for p in (2, 3, 4, 5, 6)] == [0, 1, 0, 1 + 2, 2]


@pytest.mark.parametrize("ports", STAGES)
def test_stages(ports):
    assert construct(ports, 3).stages == stages(ports) == STAGES[ports]


@pytest.mark.parametrize("copies", [2, 3, 5])
@pytest.mark.parametrize("ports", [*range(2, 18), 31, 33, 64])
def test_every_wire_has_one_driver_and_one_reader_a_stage_later(ports, copies):
    fred = construct(ports, copies)
    driven = dict.fromkeys(fred.inputs, -1)
    read = dict.fromkeys(fred.outputs, fred.stages)
    for switch in fred.switches:
        for wire in switch.outputs:
            assert wire not in driven
            driven[wire] = switch.stage
        for wire in switch.inputs:
            assert wire not in read
            read[wire] = switch.stage
    assert set(driven) == set(read) == set(range(fred.wires))
    assert all(read[wire] == driven[wire] + 1 for wire in driven)


def test_wires_are_driven_before_they_are_read_in_list_order():
    fred = construct(11, 3)
    driven = set(fred.inputs)
    for switch in fred.switches:
        assert set(switch.inputs) <= driven
        driven |= set(switch.outputs)


@pytest.mark.parametrize("ports", [1, 0, -2, 65, 2.0])
def test_ports_are_checked(ports):
    with refused(f"ports must be an integer in 2..64, not {ports!r}"):
        construct(ports, 2)


def test_middle_copies_are_checked():
    with refused("middle_copies must be an integer of at least 2, not 1"):
        construct(4, 1)


def test_modes_of_the_centre_are_the_minimal_ones_and_one_sided_ones():
    assert len(CentreMode) == 12
    assert len({mode.sources for mode in CentreMode}) == 12
    for mode in CentreMode:
        assert CentreMode.from_sources(*mode.sources) is mode
    # A sum in one output and one of its operands in the other is two flows with one input.
    with pytest.raises(ValueError, match="must be one of its modes, not"):
        CentreMode.from_sources((0, 1), (0,))


@pytest.mark.parametrize("copies", [2, 3, 4])
@pytest.mark.parametrize("kind", Kind)
def test_mode_codes_round_trip(kind, copies):
    modes = set()
    for code in range(1 << mode_bits(kind, copies)):
        try:
            mode = mode_from_code(kind, copies, code)
        except ValueError:
            continue
        assert mode_code(kind, copies, mode) == code
        modes.add(mode)
    assert len(modes) == (12 if kind is Kind.REDUCE_DISTRIBUTE else (copies + 1) ** kind.sides)


def test_an_edge_switch_of_two_copies_has_the_modes_of_the_paper():
    assert [mode_code(Kind.REDUCE, 2, m) for m in (STRAIGHT, CROSS, ADD_0, ADD_1)] == [9, 6, 5, 10]
    assert mode_code(Kind.DISTRIBUTE, 2, BROADCAST_0) == 5


@pytest.mark.parametrize(
    ("kind", "mode", "text"),
    [
        (Kind.REDUCE, CentreMode.CROSS, "the mode of a R switch must name 2 ways, not <"),
        (Kind.DEMULTIPLEX, (0, 1), "the mode of a demux switch must name 1 ways, not (0, 1)"),
        (Kind.DISTRIBUTE, (0, 2), "a way must be in 0..1 or None, not 2"),
        (Kind.REDUCE_DISTRIBUTE, (0, 1), "the mode of an RD switch must be a CentreMode, not (0"),
    ],
)
def test_a_mode_that_the_kind_lacks_is_refused(kind, mode, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        mode_code(kind, 2, mode)

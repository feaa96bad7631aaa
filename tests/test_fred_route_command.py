"""``antiphon route``: each thing that can be wrong has its message, and status 2."""

import json

import pytest

from sim_top.cli import main

OVERLAP = "flows of one configuration must not overlap: "


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--ports 1 0", "ports must be an integer in 2..64, not 1"),
        ("--ports 65 0,1", "ports must be an integer in 2..64, not 65"),
        ("--ports 4 --m 1 0,1", "middle_copies must be an integer of at least 2, not 1"),
        ("--ports 4 --m 65 0,1", "middle_copies must be at most 64, not 65"),
        ("--ports 4 0,1 1,2", f"{OVERLAP}0,1 and 1,2 share input port 1"),
        ("--ports 4 0>2 1>2", f"{OVERLAP}0>2 and 1>2 share output port 2"),
        ("--ports 4 0,9", "flow 0,9: a port must be in 0..3, not 9"),
        ("--ports 4 0>4", "flow 0>4: a port must be in 0..3, not 4"),
        ("--ports 4 0,1>", "flow '0,1>': a flow must have at least one output port"),
        ("--ports 4 >1", "flow '>1': a flow must have at least one input port"),
        ("--ports 4 0,0", "flow '0,0': the input ports of a flow must differ, not [0, 0]"),
        ("--ports 4 0>1>2", "a flow must read 0,1,2 or 0,4>1,3, not '0>1>2'"),
        ("--ports 16 1_0,2", "a flow must read 0,1,2 or 0,4>1,3, not '1_0,2'"),
        ("--ports 4 ٣,1", "a flow must read 0,1,2 or 0,4>1,3, not '٣,1'"),
        ("--ports 4 0,-1", "flow -1,0: a port must be in 0..3, not -1"),
        ("--ports 4", "the following arguments are required: FLOW (see 'antiphon route --help')"),
        (
            "--ports four 0,1",
            "argument --ports: invalid int value: 'four' (see 'antiphon route --help')",
        ),
    ],
)
def test_bad_input(arguments, message, capsys):
    assert main(["route", *arguments.split()]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"antiphon: {message}\n"
    assert not captured.out


def test_a_conflict_is_no_error(capsys):
    """The reason in words, and the fewest configurations."""
    groups = ["0,2,4", "1,6,8", "3,7,10", "5,9,11"]
    assert main(["route", "--ports", "12", *groups, "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["routable"], report["configurations"]) == (False, 2)
    assert sorted(len(flows) for flows in report["plan"]) in ([1, 3], [2, 2])
    assert report["reason"]
    assert main(["route", "--ports", "12", "--m", "4", *groups]) == 0
    assert "routable in one configuration: yes" in capsys.readouterr().out

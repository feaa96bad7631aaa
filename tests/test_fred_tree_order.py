"""Collectives whose messages could overtake each other on a tree of FRED switches are refused."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from sim_top.cli import main
from sw_model.collective.plan import Collective, Operation
from sw_model.errors import InputError
from sw_model.fred.tree.order import check_order

EXAMPLE = Path(__file__).parents[1] / "examples" / "wafer_stages.yaml"
CLASSES = ("mp", "pp", "dp")
NPUS = 8


def collective(
    operation: Operation, *groups: tuple[int, ...], of: str = "dp", back: bool = False
) -> Collective:
    rooted = {
        Operation.SEND: {"root": int(back), "target": int(not back)},
        Operation.BROADCAST: {"root": 0},
        Operation.REDUCE: {"root": 0},
    }
    return Collective(operation, 64, groups=groups, traffic_class=of, **rooted.get(operation, {}))


def check(*collectives: Collective, one_channel: bool = False) -> None:
    check_order(collectives, NPUS, (lambda name: 0) if one_channel else CLASSES.index)


def refusal(collectives: Iterable[Collective], **options: bool) -> str:
    with pytest.raises(InputError) as caught:
        check(*collectives, **options)
    return str(caught.value)


HINT = (
    "in one channel of the tree: which comes first is left to chance; give them classes of their "
    "own (engine.classes), or let the sender take part in both"
)


def test_a_stage_between_two_others_hears_both() -> None:
    ahead = collective(Operation.SEND, (0, 2), of="pp")
    further = collective(Operation.SEND, (2, 4), of="pp")
    back = collective(Operation.SEND, (2, 4), of="pp", back=True)
    assert refusal([ahead, further, back]) == (
        "rank 2 hears the send of class PP from rank 0 and the send of class PP of ranks 2, 4, "
        + HINT
    )
    check(ahead, further)


def test_two_stages_hear_each_other_only() -> None:
    ahead = collective(Operation.SEND, (0, 2), (1, 3), of="pp")
    back = collective(Operation.SEND, (0, 2), (1, 3), of="pp", back=True)
    check(ahead, back)
    check(ahead, back, one_channel=True)


def test_a_channel_that_is_shared_with_other_groups() -> None:
    tensor = collective(Operation.ALL_REDUCE, (0, 1), (2, 3), of="mp")
    ahead = collective(Operation.SEND, (0, 2), (1, 3), of="pp")
    check(tensor, ahead)
    assert refusal([tensor, ahead], one_channel=True) == (
        "rank 2 hears the send of class PP from rank 0 and the all-reduce of class MP of "
        f"ranks 2, 3, {HINT}"
    )


@pytest.mark.parametrize("operation", [Operation.ALL_GATHER, Operation.BROADCAST])
def test_what_is_only_heard_needs_a_sender_in_both_groups(operation: Operation) -> None:
    rows = collective(operation, (0, 1), (2, 3))
    assert " of class DP from rank " in refusal(
        [rows, collective(Operation.ALL_REDUCE, (1, 3), (0, 2))]
    )
    check(rows, collective(Operation.ALL_REDUCE, (0, 1, 2, 3)))
    check(rows, collective(Operation.ALL_REDUCE, (4, 5)))


@pytest.mark.parametrize("operation", [Operation.ALL_REDUCE, Operation.REDUCE_SCATTER])
def test_what_a_rank_feeds_cannot_come_too_soon(operation: Operation) -> None:
    check(
        collective(operation, (0, 1), (2, 3)),
        collective(operation, (0, 2), (1, 3)),
        collective(Operation.ALL_REDUCE, tuple(range(NPUS))),
    )


def test_cosim_refuses_before_anything_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim_top.cosim.run.build", lambda model: pytest.fail("was built"))
    document = yaml.safe_load(EXAMPLE.read_text())
    (tmp_path / "wafer_stages.txt").write_text((EXAMPLE.parent / "wafer_stages.txt").read_text())
    document["engine"].pop("classes")
    path = tmp_path / "one_channel.yaml"
    path.write_text(yaml.safe_dump(document))
    assert main(["cosim", str(path)]) == 2
    message = capsys.readouterr().err.strip()
    assert message.startswith("antiphon: rank 0 hears the send of class PP from rank 2 and the ")
    assert message.endswith(HINT)

"""What a replay says where nothing can happen any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sw_model.chakra.messages import NodeKind

if TYPE_CHECKING:
    from sw_model.replay.engine import Replay

__all__ = ["blocked"]

_LINES = 32  # of nodes
_FEW = 16  # ranks that are all named


def blocked(replay: Replay) -> str:
    """A line for every node that a simulated rank cannot end: its rank, the ranks that it stands
    for, and what it waits for."""
    lines = []
    for colour, rank in enumerate(replay.ranks):
        if not rank.left:
            continue
        name = _ranks_of(replay, colour)
        for position in sorted(rank.issued):
            why = _missing(replay, colour, position)
            lines.append(f"{name}, {rank.nodes[position]}: {why}")
        following = replay.held_back(colour)
        if following is not None:
            lines.append(
                f"{name}, {rank.nodes[following]}: waits for the rank's communication under "
                "way, one at a time in this semantics"
            )
    shown, more = lines[:_LINES], len(lines) - _LINES
    end = [f"... and {more} more"] if more > 0 else []
    return "\n".join(["nothing can happen any more:", *shown, *end])


def _ranks_of(replay: Replay, colour: int) -> str:
    """The simulated rank, whose node, peer and members are told, and those that do the same."""
    first = replay.folding.representatives[colour]
    same = [r for r, other in enumerate(replay.folding.colour) if other == colour and r != first]
    if not same:
        return f"rank {first}"
    return f"rank {first} (likewise {'rank' if len(same) == 1 else 'ranks'} {_listed(same)})"


def _listed(ranks: Sequence[int]) -> str:
    """``1``, ``1 and 2``, ``1, 2 and 3``; of many the first and how many more."""
    if len(ranks) > _FEW:
        return f"{', '.join(str(r) for r in ranks[:_FEW])} and {len(ranks) - _FEW} more"
    *most, last = ranks
    return f"{', '.join(str(r) for r in most)} and {last}" if most else str(last)


def _missing(replay: Replay, colour: int, position: int) -> str:
    """What a node under way waits for."""
    node = replay.ranks[colour].nodes[position]
    rank = replay.folding.representatives[colour]
    if node.kind is NodeKind.COMM_RECV:
        match = replay.workload.matches.get((rank, position))
        why = "never sends them"
        if match is not None:
            why = f"has not begun to ({replay.workload.node(match.source, match.send)})"
        return (
            f"waits for {node.size} bytes with tag {node.tag} from rank {node.source}, which {why}"
        )
    if node.kind is NodeKind.COMM_SEND:
        return f"sends {node.size} bytes with tag {node.tag} to rank {node.destination}"
    group = replay.folding.groups[colour][position]
    entry = next(
        entry
        for (number, _), entry in replay.entries.items()
        if number == group.colour and entry.entered.get(colour, (-1, 0))[0] == position
    )
    missing = [r for r in group.members if replay.folding.colour[r] not in entry.entered]
    label = f"group {node.group!r}" if node.group else "all ranks"
    return (
        f"waits for the {entry.request.operation.value} of {node.size} bytes over {label}, "
        f"which these ranks have not entered: {_listed(missing)}"
    )

"""``antiphon collective --group``: groups that are laid on the real links."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from sim_top.cli.frame import Output
from sw_model.collective.plan import Algorithm, Operation
from sw_model.errors import InputError, nearest
from sw_model.topology import Topology

__all__ = ["ends_of", "run_link_by_link"]


def ends_of(
    operation: Operation, ranks: Sequence[int], root: int | None, target: int | None
) -> tuple[int | None, int | None]:
    """Root and target of one group: what was asked for, or its first and its last rank; where the
    other end has that one, the other way round.

    Raises
    ------
    InputError
        where one is asked for that the operation or the group does not have.
    """
    if root is not None and not operation.rooted:
        raise InputError(f"--root is for broadcast, reduce and send, not for {operation.value}")
    if target is not None and operation is not Operation.SEND:
        raise InputError(f"--target is for send, not for {operation.value}")
    for name, rank in (("--root", root), ("--target", target)):
        if rank is not None and rank not in ranks:
            raise InputError(f"{name} must be a rank of the group, not {rank}")
    if not operation.rooted:
        return None, None
    if operation is not Operation.SEND:
        return ranks[0] if root is None else root, None
    if root is None:
        root = ranks[0] if target != ranks[0] else ranks[-1]
    if target is None:
        target = ranks[-1] if root != ranks[-1] else ranks[0]
    return root, target


def run_link_by_link(
    arguments: argparse.Namespace,
    operation: Operation,
    payload: int,
    topology: Topology,
    groups: Sequence[Sequence[int]],
    why: str,
    output: Output,
) -> None:
    """Run the groups and report.

    Parameters
    ----------
    payload : in bytes
    why : they are not networks of their own, for notes and messages

    Raises
    ------
    InputError
        for options that are for networks of their own only, and whatever
        `sw_model.congestion.groups.run_groups` refuses.
    """
    for option, given in (
        ("--semantics", arguments.semantics != "antiphon"),
        ("--endpoint", arguments.endpoint != "ideal"),
        ("--scheduler", arguments.scheduler not in (None, "baseline")),
        ("--latency-model", arguments.latency_model != "overlapped"),
        ("--system", arguments.system is not None),
        ("--intra", arguments.intra is not None),
        ("--chunks", arguments.chunks is not None),
        ("--explain", arguments.explain),
    ):
        if given:
            raise InputError(f"{option} must be left out: {why}")
    from sw_model.congestion.groups import GroupRequest, run_groups
    from sw_model.report.groups import group_table, groups_json, groups_table

    algorithm = _algorithm(arguments.algorithm)
    requests = []
    for ranks in map(tuple, groups):
        root, target = ends_of(operation, ranks, arguments.root, arguments.target)
        requests.append(GroupRequest(operation, payload, ranks, algorithm, root, target))
    run = run_groups(topology, requests)
    notes = [why]
    if not payload:
        notes.append("the collective is empty and takes no time")
    elif not run.seconds:
        notes.append("a group of one rank sends nothing")
    output.data = groups_json(topology, requests, run, notes)
    if output.json_target != "-":
        output.show(group_table(topology, output.data))
        if len(groups) > 1:
            output.show(groups_table(output.data))
        output.show(*(f"note: {note}" for note in notes))


def _algorithm(names: str | None) -> Algorithm | None:
    """The one algorithm of groups that are laid flat."""
    if names is None:
        return None
    known = {a.value: a for a in Algorithm}
    words = [word.strip() for word in names.split(",")]
    for word in words:
        if word not in known:
            raise InputError(f"unknown algorithm {word!r}{nearest(word, known)}")
    if len(words) > 1:
        raise InputError(
            f"--algorithm must name one algorithm for groups on the real links, not {len(words)}"
        )
    return known[words[0]]

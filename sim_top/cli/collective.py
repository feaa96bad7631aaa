"""One collective on the transaction-level model.

OP is all-reduce, reduce-scatter, all-gather, all-to-all, broadcast, reduce or send. SIZE is the
buffer of one rank (for an all-gather the shard of one rank), such as 1048576, 64MiB or 1.5GB.

--group takes some of the ranks; several of them run at once. A group that is all combinations of
some coordinates of each dim, and shares no link with another, is a network of its own. All others,
and every send, are laid flat on the real links, which they share max-min fairly.

The time is that of the default semantics: an op holds its dim for its bytes, and its chunk goes on
a latency later. --semantics astra-sim charges every step as that tool does. ideal is the time in
which all dims together could move the bytes; bound is the linear-program optimum over all orders of
the dims, which no schedule beats.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sim_top.cli.frame import Output, value, whole
from sim_top.cli.group_collective import ends_of, run_link_by_link
from sim_top.cli.warnings import warn, warn_of_keys
from sw_model.collective.cost import algorithms_of
from sw_model.collective.plan import ELEMENT_BYTES, Algorithm, Collective, Operation
from sw_model.endpoint.kinds import KINDS, endpoint_kind
from sw_model.errors import InputError, nearest
from sw_model.network import read_network
from sw_model.schedule.group import folds, group_topology, parse_ranks, share_links
from sw_model.schedule.outcome import SCHEDULER_NAMES, Outcome, evaluate
from sw_model.schedule.single import Instance
from sw_model.topology import Topology
from sw_model.units import parse_size, shown

if TYPE_CHECKING:
    from sw_model.astra.system import SystemConfig
    from sw_model.schedule.endpoints import MemoryUse

EXAMPLE = (
    "antiphon collective all-reduce 64MiB --network examples/four_dims.yml "
    "--scheduler themis --intra scf --explain"
)

SEMANTICS = ("antiphon", "astra-sim", "astra-sim-aware")
DEFAULT_CHUNKS = 64


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    add = parser.add_argument
    add("operation", metavar="OP", help=", ".join(o.value for o in Operation))
    add("size", metavar="SIZE", type=value(parse_size), help="bytes, kB MB GB, KiB MiB GiB")
    add(
        "--network",
        type=Path,
        metavar="N.yml",
        required=True,
        help="an ASTRA-sim network yml, or our own",
    )
    add("--scheduler", metavar="NAME", help=f"{', '.join(SCHEDULER_NAMES)} (default baseline)")
    add("--intra", metavar="NAME", help="order within a dim: fifo, scf (default fifo)")
    add("--chunks", type=whole, metavar="C", help=f"at most so many (default {DEFAULT_CHUNKS})")
    add("--endpoint", default="ideal", metavar="KIND", help=f"{', '.join(KINDS)}")
    add("--semantics", default="antiphon", metavar="NAME", help=f"{', '.join(SEMANTICS)}")
    add("--system", type=Path, metavar="S.json", help="an ASTRA-sim system json")
    add(
        "--algorithm",
        metavar="NAME",
        help=f"for all dims, or a list for each: {', '.join(a.value for a in Algorithm)}",
    )
    add(
        "--group",
        type=value(parse_ranks),
        action="append",
        metavar="RANKS",
        help="such as 0-7 or 0,2,8-11; repeat it for groups that run at once",
    )
    add("--root", type=value(_rank), metavar="RANK", help="who broadcasts, gets the sum, sends")
    add("--target", type=value(_rank), metavar="RANK", help="who gets what is sent")
    add("--dtype", default="fp16", metavar="TYPE", help=", ".join(ELEMENT_BYTES))
    add(
        "--latency-model",
        choices=["overlapped", "serial"],
        default="overlapped",
        help="serial charges step latencies to the dim",
    )
    add("--initial-load", choices=["zero", "latency"], default="zero", help="of Themis")
    add(
        "--plan-seconds",
        type=value(_seconds),
        metavar="S",
        help="processor time that balanced may search",
    )
    add("--explain", action="store_true", help="orders, algorithms side by side, the bound")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise ValueError(f"must be seconds, at least 0, not {text!r}")
    return seconds


def _rank(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise ValueError(f"must be a rank such as 3, not {shown(text)}")
    return int(text)


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Read, simulate, report."""
    names = [o.value for o in Operation]
    operation = Operation(_named("collective", arguments.operation, names))
    endpoint = endpoint_kind(arguments.endpoint).name
    semantics = _named("semantics", arguments.semantics, SEMANTICS)
    topology = read_network(arguments.network)
    elements = _elements(arguments.size, arguments.dtype)
    groups: list[Sequence[int]] = arguments.group or [range(topology.npus)]
    ends = [ends_of(operation, ranks, arguments.root, arguments.target) for ranks in groups]
    flat = _why_flat(operation, topology, arguments.group)
    if topology.dims[0].tree is not None:
        warn(
            f"{arguments.network}: the tree is taken for one switch; `antiphon run` and "
            "`antiphon cosim` model it packet by packet"
        )
    if flat:
        if operation is Operation.SEND:
            groups = [tuple({rank: None for rank in pair if rank is not None}) for pair in ends]
        payload = elements * ELEMENT_BYTES[arguments.dtype]
        run_link_by_link(arguments, operation, payload, topology, groups, flat, output)
        return True
    system = None
    if arguments.system is not None:
        from sw_model.astra.system import read_system

        system = read_system(arguments.system)
        warn_of_keys(system, semantics)
    if semantics != "antiphon":
        if endpoint != "ideal":
            raise InputError("--endpoint is for the semantics antiphon, not for astra-sim")
        if operation.rooted:
            raise InputError(f"a {operation.value} is for the semantics antiphon, not {semantics}")
    runs: list[tuple[Outcome, MemoryUse | None]] = []
    known: dict[Topology, tuple[Outcome, MemoryUse | None]] = {}
    for ranks, (root, _) in zip(groups, ends, strict=True):
        network = group_topology(topology, ranks) if arguments.group else topology
        if network not in known:
            asked = Collective(
                operation,
                elements,
                data_type=arguments.dtype,
                dims=tuple(range(len(network.dims))),
                root=0 if root is None else ranks.index(root),
            )
            known[network] = _timed(arguments, semantics, asked, network, system, output)
        runs.append(known[network])
    _report(arguments, semantics, groups, runs, output)
    return True


def _why_flat(
    operation: Operation, topology: Topology, groups: Sequence[Sequence[int]] | None
) -> str:
    """Why groups are laid on the real links; empty where they are networks of their own."""
    if operation is Operation.SEND:
        return "a send goes over the real links"
    if groups is None:
        return ""
    if not all(folds(topology, ranks) for ranks in groups):
        return (
            "a group that is not all combinations of some coordinates of each dim is laid flat on "
            "the real links"
        )
    if len(groups) > 1 and share_links(topology, groups):
        return "groups that share links are laid flat on the real links"
    return ""


def _timed(
    arguments: argparse.Namespace,
    semantics: str,
    asked: Collective,
    topology: Topology,
    system: SystemConfig | None,
    output: Output,
) -> tuple[Outcome, MemoryUse | None]:
    """A collective on a network of its own."""
    if semantics != "antiphon":
        from sim_top.cli.astra_collective import astra_outcome

        return astra_outcome(arguments, asked, topology, system), None
    return _outcome(arguments, asked, topology, system, output)


def _report(
    arguments: argparse.Namespace,
    semantics: str,
    groups: Sequence[Sequence[int]],
    runs: Sequence[tuple[Outcome, MemoryUse | None]],
    output: Output,
) -> None:
    """The slowest group in full, and all of them side by side."""
    outcome, memory = max(runs, key=lambda pair: pair[0].time)
    if arguments.group:
        sizes = " x ".join(str(dim.size) for dim in outcome.instance.topology.dims)
        note = f"the group is a network of its own, {sizes}"
        if len(groups) > 1:
            note = f"the groups share no link and are networks of their own; the slowest is {sizes}"
        outcome = replace(outcome, notes=(*outcome.notes, note))
    from sw_model.report.collective import (
        collective_json,
        collective_tables,
        explanation_tables,
        memory_json,
        memory_table,
    )

    output.data = collective_json(outcome)
    explanation = None
    if arguments.explain:
        from sw_model.report.phases import explain, explanation_json

        explanation = explain(
            semantics if semantics != "antiphon" else outcome.label,
            outcome.instance.collective,
            outcome.instance.topology,
            turn=outcome.instance.turn,
            algorithms=outcome.instance.algorithms,
        )
        output.data["explanation"] = explanation_json(explanation)
    if memory is not None:
        output.data |= memory_json(outcome, memory)
    if len(groups) > 1:
        from sw_model.report.groups import group_entry, groups_table

        output.data["groups"] = [
            group_entry(ranks, one.time, one.instance.ideal_seconds, one.instance.bound_seconds)
            for ranks, (one, _) in zip(groups, runs, strict=True)
        ]
    if output.json_target != "-":  # the tables' library starts slowly
        output.show(*collective_tables(outcome))
        if memory is not None:
            output.show(memory_table(outcome, memory))
        if explanation is not None:
            from sw_model.report.phases import explanation_tables as phase_tables

            output.show(*phase_tables(explanation))
            output.show(*explanation_tables(outcome))
        if len(groups) > 1:
            output.show(groups_table(output.data))
        output.show(*(f"note: {note}" for note in outcome.notes))


def _named(what: str, name: str, known: tuple[str, ...] | list[str]) -> str:
    if name not in known:
        raise InputError(f"unknown {what} {name!r}{nearest(name, known)}")
    return name


def _elements(size: int, data_type: str) -> int:
    width = ELEMENT_BYTES[_named("data type", data_type, tuple(ELEMENT_BYTES))]
    if size % width:
        raise InputError(
            f"SIZE must be whole elements of {width} bytes ({data_type}), not {size} bytes"
        )
    return size // width


def _outcome(
    arguments: argparse.Namespace,
    asked: Collective,
    topology: Topology,
    system: SystemConfig | None,
    output: Output,
) -> tuple[Outcome, MemoryUse | None]:
    scheduler, intra, chunks = arguments.scheduler, arguments.intra, arguments.chunks
    algorithms = arguments.algorithm
    if system is not None:
        scheduler = scheduler or system.dim_order.name.lower().replace("ascending", "baseline")
        intra = intra or system.op_order.name.lower()
        chunks = chunks or system.splits
        system.check_dims(len(topology.dims))
        if algorithms is None and asked.operation in system.algorithms:
            names = [a.value for a in system.algorithms[asked.operation]]
            algorithms = ",".join(_own_name(name) for name in names)
    instance = Instance(
        asked,
        topology,
        algorithms_of(topology.dims, asked.operation, algorithms),
        serial_latency=arguments.latency_model == "serial",
    )
    options = {
        "scheduler": scheduler or "baseline",
        "intra": intra or "fifo",
        "chunks": chunks or DEFAULT_CHUNKS,
        "initial_latency": arguments.initial_load == "latency",
        "plan_seconds": arguments.plan_seconds,
    }
    if arguments.endpoint != "ideal":
        from sw_model.schedule.endpoints import evaluate_endpoint

        return evaluate_endpoint(instance, KINDS[arguments.endpoint], **options)
    with output.progress("planning") as progress:
        outcome = evaluate(instance, progress=progress, **options)
    return outcome, None


def _own_name(name: str) -> str:
    """ASTRA-sim's name of an algorithm in our words; ``one...`` differs there only in how dims of
    one physical network are joined."""
    plain = name.removeprefix("one")
    return {
        "halvingDoubling": "halving-doubling",
        "HalvingDoubling": "halving-doubling",
        "doubleBinaryTree": "double-binary-tree",
    }.get(plain, plain.lower() if plain != name else plain)

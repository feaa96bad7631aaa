"""One collective on the transaction-level model.

OP is all-reduce, reduce-scatter, all-gather or all-to-all. SIZE is the buffer of one rank (for an
all-gather the shard of one rank), such as 1048576, 64MiB or 1.5GB.

The time is that of the default semantics: an op holds its dim for its bytes, and its chunk goes on
a latency later. --semantics astra-sim charges every step as that tool does. ideal is the time in
which all dims together could move the bytes; bound is the linear-program optimum over all orders of
the dims, which no schedule beats.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sim_top.cli.frame import Output, value, whole
from sim_top.cli.warnings import warn_of_keys
from sw_model.collective.cost import algorithms_of
from sw_model.collective.plan import ELEMENT_BYTES, Collective, Operation
from sw_model.endpoint.kinds import KINDS, endpoint_kind
from sw_model.errors import InputError, nearest
from sw_model.network import read_network
from sw_model.schedule.group import folds, group_topology, parse_ranks
from sw_model.schedule.outcome import SCHEDULER_NAMES, Outcome, evaluate
from sw_model.schedule.single import Instance
from sw_model.topology import Topology
from sw_model.units import parse_size

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
    add("--algorithm", metavar="NAME", help="one for all dims, or a list with one for each")
    add("--group", type=value(parse_ranks), metavar="RANKS", help="such as 0-7 or 0,2,8-11")
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


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Read, simulate, report."""
    operation = _named("collective", arguments.operation, [o.value for o in Operation])
    endpoint = endpoint_kind(arguments.endpoint).name
    semantics = _named("semantics", arguments.semantics, SEMANTICS)
    topology = read_network(arguments.network)
    if arguments.group is not None:
        if not folds(topology, arguments.group):
            return _link_by_link(arguments, Operation(operation), topology, output)
        topology = group_topology(topology, arguments.group)
    system = None
    if arguments.system is not None:
        from sw_model.astra.system import read_system

        system = read_system(arguments.system)
        warn_of_keys(system)
    if endpoint != "ideal" and semantics != "antiphon":
        raise InputError("--endpoint is for the semantics antiphon, not for astra-sim")
    asked = Collective(
        Operation(operation),
        _elements(arguments.size, arguments.dtype),
        data_type=arguments.dtype,
        dims=tuple(range(len(topology.dims))),
    )
    memory = None
    if semantics != "antiphon":
        from sim_top.cli.astra_collective import astra_outcome

        outcome = astra_outcome(arguments, asked, topology, system)
    else:
        outcome, memory = _outcome(arguments, asked, topology, system, output)

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
            asked,
            topology,
            turn=outcome.instance.turn,
            algorithms=outcome.instance.algorithms,
        )
        output.data["explanation"] = explanation_json(explanation)
    if memory is not None:
        output.data |= memory_json(outcome, memory)
    if output.json_target != "-":  # the tables' library starts slowly
        output.show(*collective_tables(outcome))
        if memory is not None:
            output.show(memory_table(outcome, memory))
        if explanation is not None:
            from sw_model.report.phases import explanation_tables as phase_tables

            output.show(*phase_tables(explanation))
            output.show(*explanation_tables(outcome))
        output.show(*(f"note: {note}" for note in outcome.notes))
    return True


def _link_by_link(
    arguments: argparse.Namespace, operation: Operation, topology: Topology, output: Output
) -> bool:
    """A group that is no smaller network: its messages on the real links."""
    for option, given in (
        ("--semantics", arguments.semantics != "antiphon"),
        ("--endpoint", arguments.endpoint != "ideal"),
        ("--scheduler", arguments.scheduler not in (None, "baseline")),
        ("--algorithm", arguments.algorithm not in (None, "ring")),
        ("--latency-model", arguments.latency_model != "overlapped"),
        ("--system", arguments.system is not None),
        ("--intra", arguments.intra is not None),
        ("--chunks", arguments.chunks is not None),
    ):
        if given:
            raise InputError(
                f"{option} must be left out for a group that is not all combinations of some "
                "coordinates of each dim: it is one ring on the real links"
            )
    from sw_model.congestion.groups import GroupRequest, run_groups
    from sw_model.report.groups import group_json, group_table

    width = ELEMENT_BYTES[_named("data type", arguments.dtype, tuple(ELEMENT_BYTES))]
    payload = _elements(arguments.size, arguments.dtype) * width
    request = GroupRequest(operation, payload, arguments.group)
    (result,) = run_groups(topology, [request])
    output.data = group_json(topology, request, result)
    if output.json_target != "-":
        output.show(group_table(topology, request, result))
    return True


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
        "plan_seconds": arguments.plan_seconds,
    }
    if arguments.endpoint != "ideal":
        from sw_model.schedule.endpoints import evaluate_endpoint

        return evaluate_endpoint(instance, KINDS[arguments.endpoint], **options)
    with output.progress("planning") as progress:
        outcome = evaluate(
            instance,
            initial_latency=arguments.initial_load == "latency",
            progress=progress,
            **options,
        )
    return outcome, None


def _own_name(name: str) -> str:
    """ASTRA-sim's name of an algorithm in our words; ``one...`` differs there only in how dims of
    one physical network are joined."""
    plain = name.removeprefix("one")
    return {"halvingDoubling": "halving-doubling", "HalvingDoubling": "halving-doubling"}.get(
        plain, plain.lower() if plain != name else plain
    )

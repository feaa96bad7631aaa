"""``antiphon collective --semantics astra-sim``: that tool's rules, in the figures of ours."""

from __future__ import annotations

import argparse
from dataclasses import replace
from fractions import Fraction

from sw_model.astra.system import AlgorithmName, SystemConfig
from sw_model.collective.cost import algorithm_of
from sw_model.collective.plan import Collective
from sw_model.errors import InputError, nearest
from sw_model.replay.astra_fabric import group_collective
from sw_model.schedule.outcome import Outcome
from sw_model.schedule.single import DimTraffic, Instance
from sw_model.topology import Topology

__all__ = ["algorithms_named", "astra_outcome"]

_NAMES = {"halving-doubling": "halvingDoubling", "double-binary-tree": "doubleBinaryTree"}


def algorithms_named(text: str, dims: int) -> tuple[AlgorithmName, ...]:
    """An algorithm for each dim, from one name for all or one for each, that tool's or ours.

    Raises
    ------
    InputError
        for an unknown name.
    """
    words = [_NAMES.get(word.strip(), word.strip()) for word in text.split(",")]
    known = [name.value for name in AlgorithmName]
    for word in words:
        if word not in known:
            raise InputError(f"unknown algorithm {word!r}{nearest(word, known)}")
    chosen = tuple(AlgorithmName(word) for word in words)
    return chosen * dims if len(chosen) == 1 else chosen


def astra_outcome(
    arguments: argparse.Namespace,
    asked: Collective,
    topology: Topology,
    system: SystemConfig | None,
) -> Outcome:
    """Run it.

    Raises
    ------
    InputError
        for options that these semantics do not have, or algorithms that do not fit.
    """
    for option, given in (
        ("--scheduler", arguments.scheduler not in (None, "baseline")),
        ("--intra", arguments.intra not in (None, "fifo")),
        ("--latency-model", arguments.latency_model != "overlapped"),
    ):
        if given:
            raise InputError(
                f"{option} is for the semantics antiphon, not for {arguments.semantics}"
            )
    config = SystemConfig(splits=64) if system is None else system
    if arguments.chunks is not None:
        config = replace(config, splits=arguments.chunks)
    if arguments.algorithm is not None:
        chosen = algorithms_named(arguments.algorithm, len(topology.dims))
        config = replace(config, algorithms={**config.algorithms, asked.operation: chosen})
    config.check_dims(len(topology.dims))
    size = asked.elements * asked.element_bytes
    result = group_collective(
        asked.operation,
        size,
        tuple(range(topology.npus)),
        topology,
        config,
        custom=config.custom.get(asked.operation),
        aware=arguments.semantics == "astra-sim-aware",
    )
    # The bound and the ideal are of the bytes alone, with each dim's own algorithm.
    own = tuple(algorithm_of(dim, asked.operation) for dim in topology.dims)
    return Outcome(
        instance=Instance(asked, topology, own),
        time=Fraction(result.time_ns, 10**9),
        busy=tuple(Fraction(use.busy_ns, 10**9) for use in result.dims),
        traffic=tuple(DimTraffic(use.bytes_per_npu, use.bytes_per_npu) for use in result.dims),
        orders={},
        chunks=result.chunks,
        label=arguments.semantics,
        notes=result.notes,
    )

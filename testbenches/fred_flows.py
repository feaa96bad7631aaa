"""Sets of flows to try on a FRED switch."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations

from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.routing import route

__all__ = [
    "all_flow_sets",
    "configured",
    "random_classes",
    "random_flow_set",
    "routed",
    "set_partitions",
]


def set_partitions(items: list[int]) -> Iterator[list[tuple[int, ...]]]:
    """All ways to split ``items`` into groups."""
    if not items:
        yield []
        return
    *rest, last = items
    for groups in set_partitions(rest):
        for i in range(len(groups)):
            yield [*groups[:i], (*groups[i], last), *groups[i + 1 :]]
        yield [*groups, (last,)]


def _partial_partitions(ports: int) -> list[tuple[tuple[int, ...], ...]]:
    """All ways to split some of the ports into groups (the group of ``ports`` is left out)."""
    found = []
    for groups in set_partitions(list(range(ports + 1))):
        found.append(tuple(group for group in groups if ports not in group))
    return found


def all_flow_sets(ports: int) -> Iterator[list[Flow]]:
    """Every set of disjoint flows, unequal inputs and outputs included; the empty one is not."""
    sides = _partial_partitions(ports)
    for inputs in sides:
        for outputs in sides:
            if inputs and len(inputs) == len(outputs):
                for order in permutations(outputs):
                    yield [Flow(a, b) for a, b in zip(inputs, order, strict=True)]


def random_flow_set(
    generator: random.Random,
    ports: int,
    *,
    data_types: tuple[str, ...] = ("fp16",),
    operators: tuple[str, ...] = ("sum",),
) -> list[Flow]:
    """A set of disjoint flows: all-reduces, or any inputs and outputs."""
    count = generator.randint(1, ports)
    flows = []
    own = [[generator.randint(-1, count - 1) for _ in range(ports)] for _ in range(2)]
    if generator.random() < 0.5:
        own[1] = own[0]
    for number in range(count):
        inputs, outputs = (tuple(p for p in range(ports) if side[p] == number) for side in own)
        if inputs and outputs:
            kind = generator.choice(data_types)
            operator = generator.choice(operators) if len(operators) > 1 else operators[0]
            flows.append(Flow(inputs, outputs, data_type=kind, operator=operator))
    return flows


def configured(ports: int, middle_copies: int, flows: Iterable[Flow]) -> Configuration:
    """The configuration of flows that must route."""
    outcome = route(ports, middle_copies, flows)
    assert isinstance(outcome, Configuration), str(outcome)
    return outcome


def routed(
    generator: random.Random,
    ports: int,
    middle_copies: int,
    count: int,
    *,
    data_types: tuple[str, ...] = ("fp16",),
    operators: tuple[str, ...] = ("sum",),
) -> list[Configuration]:
    """Configurations of ``count`` random flow sets that route."""
    found: list[Configuration] = []
    while len(found) < count:
        flows = random_flow_set(generator, ports, data_types=data_types, operators=operators)
        outcome = route(ports, middle_copies, flows) if flows else None
        if isinstance(outcome, Configuration):
            found.append(outcome)
    return found


def random_classes(
    generator: random.Random, configuration: Configuration, classes: Sequence[str]
) -> Configuration:
    """The same with a random class for all flows, or for each flow of its own."""
    shared = generator.choice(classes)
    mixed = generator.random() < 0.3
    flows = tuple(
        replace(flow, traffic_class=generator.choice(classes) if mixed else shared)
        for flow in configuration.flows
    )
    return replace(configuration, flows=flows)

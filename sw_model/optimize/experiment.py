"""One file for ``antiphon optimize``: network, workloads, constraints, prices and objective.

The file is YAML; `OPTIMISATION` is its only description. LIBRA's own files may stand in the place
of network, communicators, prices and workloads. ``examples/optimize.yaml`` is a commented example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from math import prod
from os import PathLike, fspath
from typing import Any

from sw_model.document import Document, Node
from sw_model.errors import InputError
from sw_model.optimize.constraint import MINIMUM, Constraint, parse_constraint
from sw_model.optimize.demand import Communicator, split_groups
from sw_model.optimize.entries import (
    MACHINE,
    WORKLOAD,
    FileOr,
    Here,
    MachineSettings,
    WorkloadEntry,
)
from sw_model.optimize.files import (
    NETWORK,
    PRICES,
    GroupSizes,
    network_at,
    prices_at,
    read_workload,
)
from sw_model.optimize.iteration import Iteration, Overlap, TrainingTask, iteration_of_layers
from sw_model.optimize.network import GIGA, OpenNetwork
from sw_model.optimize.prices import Prices
from sw_model.optimize.problem import Objective, Problem
from sw_model.optimize.scheduling import Scheduling
from sw_model.optimize.splits import DividedModel, Division, divisions, fixed_division
from sw_model.schema import (
    Boolean,
    Choice,
    Key,
    ListOf,
    Quantity,
    Record,
    Text,
)
from sw_model.topology import Dim, Topology
from sw_model.units import parse_bandwidth
from sw_model.workload.catalogue import model_named
from sw_model.workload.layers import Pass, Workload
from sw_model.workload.spans import span_dims

__all__ = ["OPTIMISATION", "Choices", "Optimisation", "json_schema", "read_optimisation"]

_MOST = 4096
"""Combinations of divisions that a search may have: a solve takes about 10 ms."""


@dataclass(frozen=True, kw_only=True)
class Optimisation:
    """The whole file, checked. `Optimisation.choices` makes problems of it."""

    network: OpenNetwork
    entries: tuple[WorkloadEntry, ...]
    constraints: tuple[Constraint, ...]
    objective: Objective
    prices: Prices | None
    scheduling: Scheduling
    overlap: Overlap
    minimum: Fraction
    machine: MachineSettings
    path: str = ""
    nodes: Mapping[str, Node] = field(default_factory=dict, compare=False, repr=False)

    def problem(self, tasks: tuple[TrainingTask, ...]) -> Problem:
        """With these workloads."""
        return Problem(
            network=self.network,
            tasks=tasks,
            constraints=self.constraints,
            objective=self.objective,
            prices=self.prices,
            scheduling=self.scheduling,
            minimum=self.minimum,
        )

    def choices(self) -> Choices:
        """All ways to divide the workloads.

        Raises
        ------
        InputError
            for a workload whose groups do not fit the network, or too many combinations.
        """
        places = list(self.nodes["workloads"].elements())
        ways = []
        for entry, node in zip(self.entries, places, strict=True):
            ways.append(self._ways(entry, node))
        if prod(len(way) for way in ways) > _MOST:
            raise self.nodes["workloads"].error(
                f"a search must have at most {_MOST} combinations, not "
                f"{prod(len(way) for way in ways)}: fix tensor and pipeline of some workloads, or "
                "microbatches"
            )
        return Choices(self, tuple(ways))

    def _ways(self, entry: WorkloadEntry, node: Node) -> tuple[tuple[str, TrainingTask], ...]:
        def task(iteration: Iteration) -> TrainingTask:
            return TrainingTask(name=entry.title, iteration=iteration, weight=entry.weight)

        if entry.file is not None:
            return (("", task(self._layers(entry, node))),)
        divided = DividedModel(
            model=model_named(str(entry.model)),
            machine=self.machine.machine(),
            batch=int(entry.batch or 0),
            memory=self.machine.memory,
            overlap=self.overlap,
            forward_comm_count=entry.forward_comm_count,
        )
        found: list[Division]
        if entry.search:
            found = list(divisions(divided, self.network, microbatches=entry.microbatches))
            if not found:
                raise node.error(
                    f"{entry.title} cannot be divided on {self.network.name}: no tensor x pipeline "
                    "x data fits the dims, the batch and the memory"
                )
        else:
            try:
                found = [
                    fixed_division(
                        divided,
                        self.network,
                        entry.tensor or 1,
                        entry.pipeline or 1,
                        entry.microbatches or 1,
                    )
                ]
            except InputError as error:
                raise node.error(f"{node.key}: {error.message}") from None
        return tuple((way.name, task(way.iteration())) for way in found)

    def _layers(self, entry: WorkloadEntry, node: Node) -> Iteration:
        assert entry.file is not None
        workload, header = read_workload(entry.file)
        of = self._communicators(entry, node, workload, header)
        return iteration_of_layers(
            workload,
            of,
            forward_comm_count=entry.forward_comm_count,
            overlap=self.overlap,
        )

    def _communicators(
        self, entry: WorkloadEntry, node: Node, workload: Workload, header: bool
    ) -> Callable[[int, Pass], Communicator]:
        network = self.network
        if entry.communicators is not None:
            place = entry.communicators.node
            sizes: GroupSizes = entry.communicators.value
            try:
                by_pass = sizes.communicators(network)
            except ValueError as error:
                raise _point(place, str(error)) from None
            return lambda _, part: by_pass[part]
        tensor = entry.tensor or (workload.model_parallel_npus if header else None)
        if tensor is not None:
            if network.npus % tensor:
                raise node.error(
                    f"{node.key}: tensor must divide the {network.npus} NPUs of the network, "
                    f"not {tensor}"
                )
            try:
                inner, outer = split_groups(
                    network, (tensor, network.npus // tensor), ("tensor", "data")
                )
            except InputError as error:
                raise node.error(f"{node.key}: {error.message}") from None
            return lambda _, part: outer if part is Pass.WEIGHT_GRADIENT else inner
        if not header:
            raise node.error(
                f"{node.key} must have communicators, or tensor: {entry.file} has no header that "
                "says which dims its collectives span"
            )
        plain = Topology(tuple(Dim(d.kind, d.size, Fraction(1), 0) for d in network.dims))

        def of(layer: int, part: Pass) -> Communicator:
            dims = span_dims(workload.span(layer, part), plain)
            return Communicator(
                tuple(d.size if i in dims else 1 for i, d in enumerate(network.dims))
            )

        return of


def _point(place: Node, message: str) -> InputError:
    """An error about communicators, at the pass that it begins with."""
    names = {"Forward": "forward", "InputGrad": "input_gradient", "WeightGrad": "weight_gradient"}
    for key, value in place.items():
        field_name = names.get(key.text, key.text)
        if message.startswith(field_name + " "):
            return value.error(value.key + message.removeprefix(field_name))
    return place.error(message)


@dataclass(frozen=True)
class Choices:
    """By workload, the ways to divide it: a name, and the task."""

    optimisation: Optimisation
    ways: tuple[tuple[tuple[str, TrainingTask], ...], ...]

    def __len__(self) -> int:
        return prod(len(way) for way in self.ways)

    def __iter__(self) -> Iterator[tuple[str, Problem]]:
        for combination in product(*self.ways):
            names = [
                f"{task.name}: {name}" if len(self.ways) > 1 else name
                for name, task in combination
                if name
            ]
            tasks = tuple(task for _, task in combination)
            yield "; ".join(names), self.optimisation.problem(tasks)


def _optimisation(**values: Any) -> dict[str, Any]:
    return values


#: The file.
OPTIMISATION = Record(
    _optimisation,
    (
        Key(
            "network",
            FileOr(network_at, NETWORK),
            "the dims without bandwidths, or a file of LIBRA's with them",
            required=True,
        ),
        Key("workloads", Here(ListOf(WORKLOAD)), "the group", required=True),
        Key("constraints", Here(ListOf(Here(Text()))), "such as 'B1 + B2 = 50', in GB/s"),
        Key("objective", Choice({o.value: o for o in Objective}), "what is minimised"),
        Key("prices", FileOr(prices_at, PRICES), "$ for a GB/s by tier, or LIBRA's file"),
        Key("shared_links", Boolean(), "two NPUs pay half of a link of a Ring or FullyConnected"),
        Key("scheduling", Choice({s.value: s for s in Scheduling}), "of collectives over dims"),
        Key(
            "overlap",
            Choice({o.value: o for o in Overlap}),
            "what runs beside what in the backward pass",
        ),
        Key("minimum", Quantity(parse_bandwidth, "1 MB/s"), "that every dim has at least"),
        Key("machine", MACHINE, "the NPU, for models"),
    ),
)


def read_optimisation(path: str | PathLike[str], *, text: str | None = None) -> Optimisation:
    """Read and check a file, or ``text`` as if it stood there.

    Raises
    ------
    InputError
        with file, line and column: no YAML, unknown or missing keys, values of the wrong type or
        out of range, constraints on dims that do not exist, prices that are missing.
    """
    root = Document(path, text).root
    values = OPTIMISATION.read(root)
    nodes = {key.text: value for key, value in root.items()}
    network: OpenNetwork = values["network"].value
    prices: Prices | None = values["prices"].value if "prices" in values else None
    if prices is not None and "shared_links" in values:
        prices = replace(prices, shared_links=values["shared_links"])
    if prices is None and "shared_links" in values:
        raise nodes["shared_links"].error("shared_links must stand beside prices")
    rates = None
    if prices is not None:
        try:
            rates = prices.rates(network)
        except ValueError as error:
            raise nodes["prices"].error(str(error)) from None
    objective = values.get("objective", Objective.PERF)
    if objective is Objective.PERF_PER_COST and prices is None:
        raise nodes["objective"].error(f"prices must be given for the objective {objective.value}")
    count = len(network.dims)
    constraints = []
    if network.total is not None:
        place = values["network"].node
        constraints.append(
            parse_constraint(
                f"total = {float(network.total):g}", count, path=place.path, line=place.line
            )
        )
    for written in values["constraints"].value if "constraints" in values else ():
        node = written.node
        constraints.append(
            parse_constraint(
                written.value, count, rates, path=node.path, line=node.line, column=node.column
            )
        )
    if not constraints:
        raise root.error(
            "the document must have the key 'constraints': nothing limits the bandwidths"
        )
    return Optimisation(
        network=network,
        entries=values["workloads"].value,
        constraints=tuple(constraints),
        objective=objective,
        prices=prices,
        scheduling=values.get("scheduling", Scheduling.BASELINE),
        overlap=values.get("overlap", Overlap.NONE),
        minimum=values["minimum"] / GIGA if "minimum" in values else MINIMUM,
        machine=values.get("machine", MachineSettings()),
        path=fspath(path),
        nodes=nodes,
    )


def json_schema() -> dict[str, Any]:
    """The JSON schema of the file (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Antiphon optimisation",
        **OPTIMISATION.schema(),
    }

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
from pathlib import Path
from typing import Any

from sw_model.document import Document, Node
from sw_model.errors import InputError
from sw_model.optimize.constraint import MINIMUM, Constraint, parse_constraint
from sw_model.optimize.demand import Communicator, split_groups
from sw_model.optimize.files import (
    COMMUNICATORS,
    NETWORK,
    PRICES,
    GroupSizes,
    network_at,
    prices_at,
    read_communicators,
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
    Either,
    FilePath,
    Key,
    ListOf,
    Number,
    Quantity,
    Reader,
    Record,
    Text,
    Whole,
)
from sw_model.topology import Dim, Topology
from sw_model.units import parse_bandwidth, parse_size
from sw_model.workload.catalogue import MODELS, model_named
from sw_model.workload.layers import Pass, Workload
from sw_model.workload.machine import Machine
from sw_model.workload.spans import span_dims

__all__ = ["OPTIMISATION", "Choices", "Optimisation", "json_schema", "read_optimisation"]

_MOST = 4096
"""Combinations of divisions that a search may have: a solve takes about 10 ms."""


@dataclass(frozen=True)
class _Located:
    """A value, and the node it was read from, for later messages."""

    value: Any
    node: Node


@dataclass(frozen=True)
class _Here:
    """Reads with ``reader`` and remembers where."""

    reader: Reader

    def read(self, node: Node) -> _Located:
        return _Located(self.reader.read(node), node)

    def schema(self) -> dict[str, Any]:
        return self.reader.schema()


@dataclass(frozen=True)
class _FileOr:
    """``read`` of a node here, or of the file that is named here."""

    read_at: Callable[[Node], Any]
    own: Reader

    def read(self, node: Node) -> _Located:
        place = node
        if node.kind == "scalar":
            place = Document(FilePath().read(node)).root
        return _Located(self.read_at(place), place)

    def schema(self) -> dict[str, Any]:
        return Either(FilePath(), self.own).schema()


@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """An NPU, for models; see `Machine`."""

    peak_tflops: Fraction = Fraction(120)
    efficiency: Fraction = Fraction(1, 2)
    memory_bandwidth: Fraction = Fraction(900 * GIGA)
    memory: int | None = None
    data_type: str = "fp16"

    def machine(self) -> Machine:
        """For the roofline."""
        return Machine(
            peak_tflops=self.peak_tflops,
            efficiency=self.efficiency,
            memory_bandwidth=self.memory_bandwidth,
            data_type=self.data_type,
        )


@dataclass(frozen=True, kw_only=True)
class WorkloadEntry:
    """A workload of the group: a file, or a model.

    Raises
    ------
    ValueError
        where it is neither or both, or has keys of the other.
    """

    file: Path | None = None
    communicators: _Located | None = None
    model: str | None = None
    batch: int | None = None
    tensor: int | None = None
    pipeline: int | None = None
    microbatches: int | None = None
    search: bool = False
    name: str = ""
    weight: Fraction = Fraction(1)
    forward_comm_count: int = 1

    def __post_init__(self) -> None:
        if (self.file is None) == (self.model is None):
            raise ValueError("a workload must have the key 'file' or the key 'model'")
        for key in ("batch", "pipeline", "microbatches"):
            if self.file is not None and getattr(self, key) is not None:
                raise ValueError(f"{key} is for a model, not for a file")
        if self.file is not None and self.search:
            raise ValueError("search is for a model, not for a file")
        if self.file is not None and self.communicators and self.tensor:
            raise ValueError("tensor must not stand beside communicators")
        if self.model is not None and self.communicators is not None:
            raise ValueError("communicators are for a file; a model has tensor and pipeline")
        if self.model is not None and self.batch is None:
            raise ValueError("a model must have the key 'batch': samples of all replicas together")
        if self.search and (self.tensor or self.pipeline):
            raise ValueError("search finds tensor and pipeline itself: leave them out")

    @property
    def title(self) -> str:
        """For people."""
        return self.name or (self.file.stem if self.file is not None else str(self.model))


_MACHINE = Record(
    MachineSettings,
    (
        Key("peak_tflops", Number(), "10^12 operations a second"),
        Key("efficiency", Number(maximum=1), "share of it that is reached"),
        Key("memory_bandwidth", Quantity(parse_bandwidth, "900 GB/s"), "of an NPU"),
        Key("memory", Quantity(parse_size, "80GB"), "for weights, gradients, optimizer states"),
        Key("data_type", Choice({n: n for n in ("fp16", "bf16", "fp32")}), "of every element"),
    ),
)
_WORKLOAD = Record(
    WorkloadEntry,
    (
        Key("file", FilePath(), "an ASTRA-sim 1.0 text, with or without header"),
        Key(
            "communicators",
            _FileOr(read_communicators, COMMUNICATORS),
            "members of a group on every dim, by pass; or LIBRA's file with them",
        ),
        Key("model", Choice({name: name for name in MODELS}), "one of the project's own"),
        Key("batch", Whole(1), "samples of an iteration of the model, of all replicas"),
        Key("tensor", Whole(1), "ranks of a tensor-parallel group, which fills the inner dims"),
        Key("pipeline", Whole(1), "stages of the model"),
        Key("microbatches", Whole(1), "of a replica"),
        Key("search", Boolean(), "find the best tensor, pipeline and microbatches"),
        Key("name", Text(), "for people"),
        Key("weight", Number(), "of its iteration time in the sum"),
        Key("forward_comm_count", Whole(1, 16), "how often a forward collective is done"),
    ),
)


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
            _FileOr(network_at, NETWORK),
            "the dims without bandwidths, or a file of LIBRA's with them",
            required=True,
        ),
        Key("workloads", _Here(ListOf(_WORKLOAD)), "the group", required=True),
        Key("constraints", _Here(ListOf(_Here(Text()))), "such as 'B1 + B2 = 50', in GB/s"),
        Key("objective", Choice({o.value: o for o in Objective}), "what is minimised"),
        Key("prices", _FileOr(prices_at, PRICES), "$ for a GB/s by tier, or LIBRA's file"),
        Key("shared_links", Boolean(), "two NPUs pay half of a link of a Ring or FullyConnected"),
        Key("scheduling", Choice({s.value: s for s in Scheduling}), "of collectives over dims"),
        Key(
            "overlap",
            Choice({o.value: o for o in Overlap}),
            "what runs beside what in the backward pass",
        ),
        Key("minimum", Quantity(parse_bandwidth, "1 MB/s"), "that every dim has at least"),
        Key("machine", _MACHINE, "the NPU, for models"),
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

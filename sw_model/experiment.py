"""One file for a whole experiment: workload, network, platform, schedule and co-simulation.

The file is YAML; `EXPERIMENT` is its only description, from which both the reader and the JSON
schema (docs/experiment.schema.json) come. Unknown keys are refused with file, line and the nearest
known key. ``examples/resnet50.yaml`` is a commented example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sw_model.collective.plan import Algorithm
from sw_model.document import Document, Node
from sw_model.endpoint.kinds import KINDS, LIMITS_OF_PASSES, EndpointSettings
from sw_model.endpoint.presets import ENGINE_PRESETS
from sw_model.errors import InputError
from sw_model.network import NETWORK, check_ranks, read_network, topology_at
from sw_model.platform import (
    DATA_TYPES,
    OPERATORS,
    TRAFFIC_CLASSES,
    EngineParameters,
    MemoryParameters,
    Partition,
    Platform,
)
from sw_model.schedule.options import ScheduleOptions
from sw_model.schema import (
    Choice,
    Either,
    FilePath,
    Key,
    ListOf,
    Number,
    Quantity,
    Record,
    Whole,
)
from sw_model.topology import Topology
from sw_model.units import parse_frequency, parse_size
from sw_model.workload.layers import Workload
from sw_model.workload.loading import load_layers
from sw_model.workload.settings import (
    HEADERLESS_MODES,
    WorkloadSettings,
    check_ranks_named,
)
from sw_model.workload.spans import split_for_group
from sw_model.workload.workload_document import WORKLOAD

__all__ = [
    "EXPERIMENT",
    "HEADERLESS_MODES",
    "CosimSettings",
    "Experiment",
    "WorkloadSettings",
    "json_schema",
    "read_experiment",
]


@dataclass(frozen=True)
class CosimSettings:
    """How the RTL takes part.

    Parameters
    ----------
    scale : factor on payloads and on compute times alike, so that the ratio of the two, and with
        it what is exposed, stays nearly as it is at full size
    """

    scale: Fraction = Fraction(1, 64)


@dataclass(frozen=True)
class Experiment:
    """A whole experiment. Read it with `read_experiment`.

    ``path``, ``lines`` (of its keys) and ``network_at`` (file and line, where the network comes
    from elsewhere) are for messages.
    """

    workload: WorkloadSettings
    network: Topology
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)
    engine: EngineParameters = field(default_factory=EngineParameters)
    memory: MemoryParameters = field(default_factory=MemoryParameters)
    endpoint: EndpointSettings = field(default_factory=EndpointSettings)
    clock_hz: int = 1_250_000_000
    cosim: CosimSettings = CosimSettings()
    output: Path | None = None
    path: str = field(default="", compare=False)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    network_at: tuple[str, int | None] | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """For titles and file names."""
        return Path(self.path).stem

    def load_workload(self) -> Workload:
        """Read the layer workload and check it against data type and network.

        Raises
        ------
        InputError
            with file and line; where the workload is not made of layers.
        """
        return load_layers(self.workload, self.network)

    def topology(self, workload: Workload) -> Topology:
        """The network, with a dim split where the workload's model-parallel group ends in it."""
        return split_for_group(self.network, workload)

    def platform(self) -> Platform:
        """The platform as TLM and RTL are built.

        Raises
        ------
        InputError
            where the RTL cannot be that network: a dim faster than a port, or of another kind.
        """
        engine = self.engine
        if self.workload.priorities and not engine.classes:
            wanted = tuple(one.value for one in self.workload.priorities)
            engine = self._with_classes(wanted)
        types = {*engine.data_types, self.workload.data_type}
        engine = replace(engine, data_types=tuple(name for name in DATA_TYPES if name in types))
        try:
            return Platform.from_topology(
                self.network, clock_hz=self.clock_hz, engine=engine, memory=self.memory
            )
        except ValueError as error:
            path, line = self.network_at or (self.path, self.lines.get("network"))
            raise InputError(str(error), path=path, line=line) from None

    def _with_classes(self, wanted: tuple[str, ...]) -> EngineParameters:
        """The engine with a lane for each class that the workload orders."""
        try:
            return replace(self.engine, classes=wanted)
        except ValueError:
            raise InputError(
                f"workload.priorities must be in the engines' own order, "
                f"{', '.join(TRAFFIC_CLASSES)}, on this platform, not {', '.join(wanted)}",
                path=self.path,
                line=self.lines.get("workload"),
            ) from None

    def with_schedule(self, **changes: Any) -> Experiment:
        """The same with some settings of the schedule changed."""
        return replace(self, schedule=replace(self.schedule, **changes))


@dataclass(frozen=True)
class _NetworkAt:
    """A network, written out or in a file of its own, of either kind."""

    def read(self, node: Node) -> Topology:
        if node.kind == "scalar":
            return read_network(FilePath().read(node))
        return topology_at(node)

    def schema(self) -> dict[str, Any]:
        return Either(FilePath(), NETWORK).schema()


@dataclass(frozen=True)
class _EngineAt:
    """An engine, written out or by the name of a preset."""

    def read(self, node: Node) -> EngineParameters:
        engine = (_PRESET if node.kind == "scalar" else _ENGINE).read(node)
        assert isinstance(engine, EngineParameters)
        return engine

    def schema(self) -> dict[str, Any]:
        return Either(_PRESET, _ENGINE).schema()


_PRESET = Choice(ENGINE_PRESETS)
_SCHEDULE = Record(
    ScheduleOptions,
    (
        Key(
            "scheduler",
            Choice({n: n for n in ("baseline", "themis", "balanced")}),
            "order of the dims",
        ),
        Key("intra", Choice({n: n for n in ("fifo", "scf")}), "order within a dim"),
        Key("chunks", Whole(1), "at most so many chunks for each collective"),
        Key(
            "algorithms",
            ListOf(Choice({algorithm.value: algorithm for algorithm in Algorithm})),
            "one for each dim, in place of those of their kinds",
        ),
    ),
)
_PARTITION = Record(
    Partition,
    (
        Key("buffers", Whole(1), "buffers in the partition", required=True),
        Key("flits", Whole(1), "flits in a buffer", required=True),
    ),
)
_ENGINE = Record(
    EngineParameters,
    (
        Key("flit_bytes", Whole(1), "width of every port and bank"),
        Key("contexts", Whole(1), "ops under way on each dim, of each class"),
        Key(
            "classes",
            ListOf(Choice({name: name for name in TRAFFIC_CLASSES})),
            "classes with contexts, buffers and a channel of their own, in falling priority",
        ),
        Key("partitions", ListOf(_PARTITION, 2), "SRAM buffers by position, the last terminal"),
        Key("sram_banks", Whole(1), "one-read-one-write banks"),
        Key("packet_bytes", Quantity(parse_size, "4KiB"), "largest payload of a packet"),
        Key("program_steps", Whole(1), "steps that a program memory holds"),
        Key("queue_depth", Whole(1), "records in front of each unit"),
        Key(
            "data_types",
            ListOf(Choice({name: name for name in DATA_TYPES})),
            "what reduction units add, beside the workload's own data type",
        ),
        Key(
            "operators",
            ListOf(Choice({name: name for name in OPERATORS})),
            "what reduction units do with them",
        ),
    ),
)
_MEMORY = Record(
    MemoryParameters,
    (
        Key("read_latency", Whole(1), "cycles from request to first beat"),
        Key("write_latency", Whole(1), "cycles from a write to its acknowledgement"),
        Key("words", Whole(1), "flits in the memory of one NPU"),
        Key("read_rate", Number(maximum=1), "flits per cycle that are read, such as 5/8"),
        Key("write_rate", Number(maximum=1), "flits per cycle that are written"),
    ),
)
_ENDPOINT = Record(
    EndpointSettings,
    (
        Key("kind", Choice({name: name for name in KINDS}), "a configuration of the ACE paper"),
        Key(
            "passes",
            Choice({name: name for name in LIMITS_OF_PASSES}),
            "what limits passes whose trace tells only their time",
        ),
    ),
)
_COSIM = Record(
    CosimSettings,
    (Key("scale", Number(maximum=1), "factor on payloads and compute times"),),
)

#: The file.
EXPERIMENT = Record(
    Experiment,
    (
        Key("workload", WORKLOAD, "what is trained", required=True),
        Key("network", _NetworkAt(), "the dims, or a file with them", required=True),
        Key("schedule", _SCHEDULE, "how collectives are cut and ordered"),
        Key("engine", _EngineAt(), "capacity of an endpoint engine, or the name of a preset"),
        Key("memory", _MEMORY, "the memory beside an NPU"),
        Key("endpoint", _ENDPOINT, "endpoints in place of the platform's engines"),
        Key("clock", Quantity(parse_frequency, "1.25 GHz"), "of the RTL", field="clock_hz"),
        Key("cosim", _COSIM, "how the RTL takes part"),
        Key("output", FilePath(), "folder for results"),
    ),
    located=True,
)


def read_experiment(path: str | PathLike[str], *, text: str | None = None) -> Experiment:
    """Read and check an experiment file, or ``text`` as if it stood there. The workload it names
    is read by `Experiment.load_workload`.

    Raises
    ------
    InputError
        with file, line and column: no YAML, unknown or missing keys, values of the wrong type or
        out of range, a network whose sizes do not multiply to the ranks.
    """
    node = Document(path, text).root
    experiment = replace(EXPERIMENT.read(node), path=fspath(path))
    assert isinstance(experiment, Experiment)
    settings = experiment.workload
    line = experiment.lines.get("network")
    if settings.ranks is not None:
        check_ranks(experiment.network, settings.ranks, path=experiment.path, line=line)
    check_ranks_named(settings, experiment.network.npus)
    return experiment


def json_schema() -> dict[str, Any]:
    """The JSON schema of an experiment file (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Antiphon experiment",
        **EXPERIMENT.schema(),
    }

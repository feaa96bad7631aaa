"""Reader of workloads in YAML: a section of an experiment, or a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sw_model.collective.plan import ELEMENT_BYTES
from sw_model.document import Document, Node
from sw_model.schedule.group import parse_ranks
from sw_model.schema import (
    Boolean,
    Choice,
    FilePath,
    Key,
    ListOf,
    Number,
    Quantity,
    Reader,
    Record,
    TableOf,
    Text,
    Whole,
)
from sw_model.units import parse_bandwidth, parse_size
from sw_model.workload.layers import Mode
from sw_model.workload.parallel import PipelineSchedule
from sw_model.workload.pipeline import Pipeline
from sw_model.workload.settings import (
    HEADERLESS_MODES,
    JobSettings,
    ModelSettings,
    WorkloadSettings,
)
from sw_model.workload.traffic import TrafficClass
from sw_model.workload.variation import Variation
from sw_model.workload.written_layers import LAYER, layers_of

__all__ = ["WORKLOAD", "is_workload_file", "read_workload"]

_SOURCES = ("file", "layers", "model", "jobs")
_BELONGS = {
    "model_parallel_npus": "layers",
    "last_bottom_layer": "layers",
    "checkpoints": "layers",
    "checkpoint_initiates": "layers",
    "comm_group": "file",
}
_NOT_OF_JOBS = ("iterations", "data_type", "mode")  # every job has its own
_MODES = {mode.value: mode for mode in Mode}


class _Ranks:
    """Ranks as ``0-7``, ``0,2,8-11`` or a list of such, in whose order they are."""

    def read(self, node: Node) -> tuple[int, ...]:
        parts = list(node.elements()) if node.kind == "list" else [node]
        for part in parts:
            if part.kind != "scalar":
                raise part.error(f"{part.key} must be ranks such as 0-7, not {part.describe()}")
        ranks: list[int] = []
        for part in parts:
            try:
                ranks += parse_ranks(part.text)
            except ValueError as error:
                raise part.error(f"{part.key}: {error}") from None
        for rank in set(ranks):
            if ranks.count(rank) > 1:
                raise node.error(f"{node.key} must name each rank once, not {rank} twice")
        return tuple(ranks)

    def schema(self) -> dict[str, Any]:
        one = {"type": ["string", "integer"], "examples": ["0-7"]}
        return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}


_MODEL = Record(
    ModelSettings,
    (
        Key("name", Text(), "such as transformer-17b", required=True),
        Key("tp", Whole(1), "ranks of a tensor-parallel group"),
        Key("pp", Whole(1), "stages of the pipeline"),
        Key("dp", Whole(1), "data-parallel replicas"),
        Key("microbatches", Whole(1), "in a batch; as many as stages by default"),
        Key("zero", Whole(0, 3), "stage of ZeRO over the replicas"),
        Key("schedule", Choice({n: n for n in ("gpipe", "1f1b")}), "of the stages"),
        Key("recompute", Boolean(), "forward passes of layers again, backward"),
        Key("batch", Whole(1), "samples of a replica"),
        Key("peak_tflops", Number(), "of an NPU"),
        Key("efficiency", Number(maximum=1), "the share of it that is reached"),
        Key("memory_bandwidth", Quantity(parse_bandwidth, "900 GB/s"), "of an NPU's memory"),
        Key("roofline", Boolean(), "false: as if memory were never too slow"),
    ),
)


_PIPELINE = Record(
    Pipeline,
    (
        Key("stages", Whole(2), "of consecutive layers", required=True),
        Key("microbatches", Whole(1), "in a batch; the layers are those of one", required=True),
        Key(
            "boundary",
            Quantity(parse_size, "8MiB"),
            "bytes that a rank hands to the next stage for a microbatch",
            required=True,
        ),
        Key("schedule", Choice({one.value: one for one in PipelineSchedule}), "of the stages"),
    ),
)


class _Classes:
    """Classes of communication by the name of a communicator."""

    def read(self, node: Node) -> dict[str, TrafficClass]:
        if node.kind != "mapping":
            raise node.error(
                f"{node.key} must be a mapping from communicators to classes, not {node.describe()}"
            )
        return {key.text: _CLASS.read(value) for key, value in node.items()}

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": _CLASS.schema()}


_CLASS = Choice({one.value: one for one in TrafficClass})
_JOB_KEYS = (
    Key("name", Text(), "for reports", required=True),
    Key("ranks", _Ranks(), "of the network, in the order of the job's own", required=True),
    Key("priority", Whole(0), "its communication goes before that of jobs with less"),
)


def _keys() -> tuple[Key, ...]:
    return (
        Key("file", FilePath(), "an ASTRA-sim 1.0 text, or the prefix of Chakra traces"),
        Key("layers", ListOf(LAYER), "layers written out, in forward order"),
        Key("model", _MODEL, "a model of antiphon workload"),
        Key("iterations", Whole(1), "iterations of the training loop"),
        Key("data_type", Choice({name: name for name in ELEMENT_BYTES}), "of every element"),
        Key("ranks", Whole(1), "ranks the workload is for; checked against the network"),
        Key("mode", Choice(_MODES), "of layers, or of a text without header lines"),
        Key("model_parallel_npus", Whole(1), "group of the modes HYBRID_TRANSFORMER*"),
        Key("last_bottom_layer", Whole(0), "of the bottom MLP, in the modes HYBRID_DLRM*"),
        Key("checkpoints", ListOf(Whole(0)), "layers whose output is kept"),
        Key("checkpoint_initiates", ListOf(Whole(0)), "layers that compute forward again"),
        Key("pipeline", _PIPELINE, "stages of the layers, on a tree of FRED switches"),
        Key("comm_group", FilePath(), "communicators of Chakra traces"),
        Key(
            "compute_scale",
            TableOf(Number(maximum=1000)),
            "factor on the compute times of single ranks, by rank",
        ),
        Key("jitter", Number(above=None, maximum=1), "largest relative deviation of compute times"),
        Key("seed", Whole(0), "of the deviations"),
        Key("priorities", ListOf(_CLASS), "classes of communication, the first before the others"),
        Key("classes", _Classes(), "of collectives, by the name of their communicator"),
    )


def _settings(**values: Any) -> WorkloadSettings:
    if "layers" in values:
        values["layers"] = layers_of(values)
    elif "mode" in values and values["mode"] not in HEADERLESS_MODES.values():
        names = ", ".join(HEADERLESS_MODES)
        raise ValueError(
            f"mode must be one of {names} for a text without header lines, "
            f"not {values['mode'].value!r}"
        )
    order = values.get("priorities", ())
    if len(set(order)) < len(order):
        raise ValueError("priorities must name each class once")
    Variation(jitter=values.get("jitter", Fraction(0)))
    return WorkloadSettings(**values)


class _Workload:
    """A workload: keys, or the path of a file: a YAML workload, a text, or a prefix of traces."""

    def __init__(self, *, jobs: bool) -> None:
        self.sources = _SOURCES if jobs else _SOURCES[:3]
        keys = _keys()
        if jobs:
            workload = Key("workload", _Workload(jobs=False), "of the job", required=True)
            record = Record(JobSettings, (*_JOB_KEYS, workload))
            keys += (Key("jobs", ListOf(record), "several workloads on one network"),)
        self.record = Record(_settings, keys, located=True)

    def read(self, node: Node) -> WorkloadSettings:
        if node.kind == "scalar":
            path = FilePath().read(node)
            if not is_workload_file(path):
                return WorkloadSettings(file=path, path=node.path, lines={"file": node.line})
            node = Document(path).root
        names: dict[str, Node] = {}
        if node.kind == "mapping":
            names = {key.text: key for key, _ in node.items()}
            self._check(node, names)
        settings = self.record.read(node)
        assert isinstance(settings, WorkloadSettings)
        workload = settings.layers
        if workload is not None:
            settings = replace(settings, layers=replace(workload, path=node.path))
        return replace(settings, path=node.path)

    def _check(self, node: Node, names: Mapping[str, Node]) -> None:
        """Refuse keys that do not go together; unknown ones are the record's business."""
        known = {key.name for key in self.record.keys}
        if not names.keys() <= known:
            return
        found = [name for name in self.sources if name in names]
        if len(found) != 1:
            *some, last = (repr(name) for name in self.sources)
            choice = f"{', '.join(some)} and {last}"
            which = "none" if not found else " and ".join(repr(name) for name in found)
            what = node.key or "a workload"
            raise node.error(f"{what} must have one of the keys {choice}, not {which}")
        source = found[0]
        for name, belongs in _BELONGS.items():
            if name in names and belongs != source:
                raise names[name].error(
                    f"{names[name].key} goes with {belongs!r}, not with {source!r}"
                )
        if "pipeline" in names and source in ("model", "jobs"):
            raise names["pipeline"].error(
                f"pipeline goes with 'file' or 'layers', not with {source!r}"
            )
        for name in _NOT_OF_JOBS:
            if name in names and source == "jobs":
                raise names[name].error(f"{names[name].key} belongs to each of the jobs")

    def schema(self) -> dict[str, Any]:
        path = {"type": "string", "description": "a path, relative to this file"}
        one = [{"required": [name]} for name in self.sources]
        return {"anyOf": [path, {**self.record.schema(), "oneOf": one}]}


#: A workload inside another document.
WORKLOAD: Reader = _Workload(jobs=True)


def is_workload_file(path: str | PathLike[str]) -> bool:
    """Whether a path is to be read as a YAML workload: by its ending."""
    return Path(path).suffix in (".yaml", ".yml")


def read_workload(path: str | PathLike[str]) -> WorkloadSettings:
    """Read a YAML workload.

    Raises
    ------
    InputError
        with file, line and column.
    """
    settings = WORKLOAD.read(Document(fspath(path)).root)
    assert isinstance(settings, WorkloadSettings)
    return settings

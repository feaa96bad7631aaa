"""What stands in an optimisation file below its first level: a workload, and the NPU of models.

Readers here remember where a value stood, also in a file that is named in its place, so that what
turns out wrong later is reported there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sw_model.document import Document, Node
from sw_model.optimize.files import COMMUNICATORS, read_communicators
from sw_model.optimize.network import GIGA
from sw_model.schema import (
    Boolean,
    Choice,
    Either,
    FilePath,
    Key,
    Number,
    Quantity,
    Reader,
    Record,
    Text,
    Whole,
)
from sw_model.units import parse_bandwidth, parse_size
from sw_model.workload.catalogue import MODELS
from sw_model.workload.machine import Machine

__all__ = ["MACHINE", "WORKLOAD", "FileOr", "Here", "Located", "MachineSettings", "WorkloadEntry"]


@dataclass(frozen=True)
class Located:
    """A value, and the node it was read from, for later messages."""

    value: Any
    node: Node


@dataclass(frozen=True)
class Here:
    """Reads with ``reader`` and remembers where."""

    reader: Reader

    def read(self, node: Node) -> Located:
        return Located(self.reader.read(node), node)

    def schema(self) -> dict[str, Any]:
        return self.reader.schema()


@dataclass(frozen=True)
class FileOr:
    """``read`` of a node here, or of the file that is named here."""

    read_at: Callable[[Node], Any]
    own: Reader

    def read(self, node: Node) -> Located:
        place = node
        if node.kind == "scalar":
            place = Document(FilePath().read(node)).root
        return Located(self.read_at(place), place)

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
    communicators: Located | None = None
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


MACHINE = Record(
    MachineSettings,
    (
        Key("peak_tflops", Number(), "10^12 operations a second"),
        Key("efficiency", Number(maximum=1), "share of it that is reached"),
        Key("memory_bandwidth", Quantity(parse_bandwidth, "900 GB/s"), "of an NPU"),
        Key("memory", Quantity(parse_size, "80GB"), "for weights, gradients, optimizer states"),
        Key("data_type", Choice({n: n for n in ("fp16", "bf16", "fp32")}), "of every element"),
    ),
)
WORKLOAD = Record(
    WorkloadEntry,
    (
        Key("file", FilePath(), "an ASTRA-sim 1.0 text, with or without header"),
        Key(
            "communicators",
            FileOr(read_communicators, COMMUNICATORS),
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

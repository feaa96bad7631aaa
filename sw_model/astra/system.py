"""Reader of ASTRA-sim's system json.

Every key of ASTRA-sim 2.0, and the scheduling keys of 1.0, is known. A key that has no effect here
is told by `SystemConfig.without_effect`; an unknown key is refused with the nearest known one.

``baseline`` stands for three things in these files; here they have three names: the full
all-reduce on every dim (`AllReduceShape.FULL_PER_DIM`, key ``collective-optimization``), the
ascending order of the dims (`DimOrder.ASCENDING`, key ``inter-dimension-scheduling``) and,
elsewhere in this project, the endpoint kinds that begin with it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sw_model.collective.plan import SYMMETRIC, Operation
from sw_model.document import Document, Node
from sw_model.errors import InputError
from sw_model.schema import Choice, Key, ListOf, Number, Reader, Record, TableOf, Text, Whole

__all__ = [
    "AlgorithmName",
    "AllReduceShape",
    "CollectivePolicy",
    "DimOrder",
    "OpOrder",
    "SystemConfig",
    "read_system",
]


class AlgorithmName(enum.Enum):
    """How a collective is carried out on a dim, by ASTRA-sim's names."""

    RING = "ring"
    DIRECT = "direct"
    HALVING_DOUBLING = "halvingDoubling"
    DOUBLE_BINARY_TREE = "doubleBinaryTree"
    ONE_RING = "oneRing"
    ONE_DIRECT = "oneDirect"
    ONE_HALVING_DOUBLING = "oneHalvingDoubling"


class CollectivePolicy(enum.Enum):
    """Which of several waiting collectives goes first."""

    LIFO = "LIFO"
    FIFO = "FIFO"
    EXPLICIT = "EXPLICIT"  # by the priority in the trace


class AllReduceShape(enum.Enum):
    """What an all-reduce over several dims is made of."""

    FULL_PER_DIM = "baseline"  # a full all-reduce on each dim in turn, the size not shrunk
    SCATTER_GATHER = "localBWAware"  # reduce-scatters inwards, all-gathers back


class DimOrder(enum.Enum):
    """In which order a chunk visits the dims."""

    ASCENDING = "baseline"
    THEMIS = "themis"


class OpOrder(enum.Enum):
    """Which of the chunks that wait for a dim goes first."""

    FIFO = "FIFO"
    SCF = "SCF"


@dataclass(frozen=True)
class SystemConfig:
    """A system file; the defaults are ASTRA-sim's.

    Parameters
    ----------
    policy : over collectives
    endpoint_delay : ns before every message, and once at the end of a phase
    active_chunks : ops at a time on one dim
    splits : chunks that a collective is cut into
    algorithms : per operation, one for each dim; an operation that is not there uses what suits the
        kind of each dim
    shape : of an all-reduce over several dims
    local_memory_bandwidth : 10^9 bytes per second; None where reductions cost nothing
    roofline : compute nodes take the time of `peak_performance` and the memory bandwidth
    peak_performance : 10^12 operations per second
    replay_only : every node takes the duration in the trace, communication too
    dim_order, op_order : scheduling within a collective
    custom : per operation, prefix of the traces that are its algorithm
    custom_of_node : the same for single nodes, by number
    lines : of the keys of the file
    path : for messages
    """

    policy: CollectivePolicy = CollectivePolicy.FIFO
    endpoint_delay: int = 10
    active_chunks: int = 1
    splits: int = 1
    algorithms: Mapping[Operation, tuple[AlgorithmName, ...]] = field(default_factory=dict)
    shape: AllReduceShape = AllReduceShape.SCATTER_GATHER
    local_memory_bandwidth: Fraction | None = None
    roofline: bool = False
    peak_performance: Fraction | None = None
    replay_only: bool = False
    dim_order: DimOrder = DimOrder.ASCENDING
    op_order: OpOrder = OpOrder.FIFO
    custom: Mapping[Operation, Path] = field(default_factory=dict)
    custom_of_node: Mapping[int, Path] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    path: str = ""

    def without_effect(self, semantics: str) -> tuple[str, ...]:
        """The keys of the file that change nothing here, by the name of whose rules are followed:
        antiphon, astra-sim or astra-sim-aware."""
        idle = _IDLE_IN_OURS if semantics == "antiphon" else _IDLE_IN_ASTRA_SIM
        return tuple(key for key in self.lines if key in _WITHOUT_EFFECT or key in idle)

    def check_dims(self, dims: int) -> None:
        """Refuse lists of algorithms that are not one for each dim of the network.

        Raises
        ------
        InputError
            with the file.
        """
        for operation, names in self.algorithms.items():
            if len(names) != dims:
                raise InputError(
                    f"{operation.value}-implementation must have {dims} "
                    f"entr{'y' if dims == 1 else 'ies'}, one for each dim of the network, "
                    f"not {len(names)}",
                    path=self.path or None,
                )

    def custom_algorithm(self, operation: Operation, node: int) -> Path | None:
        """The prefix of the traces that carry out a collective, if there are any: those of its
        node in the trace come before those of its operation."""
        return self.custom_of_node.get(node, self.custom.get(operation))

    def with_algorithm(self, name: AlgorithmName, dims: int) -> SystemConfig:
        """The same with one algorithm for every operation on every dim."""
        return replace(self, algorithms=dict.fromkeys(Operation, (name,) * dims))


_FLAG = Choice({"0": False, "1": True, "false": False, "true": True})
_OPERATIONS = {f"{operation.value}-implementation": operation for operation in SYMMETRIC}
_ALGORITHMS = {name.value: name for name in AlgorithmName}


class _Algorithm:
    """An algorithm's name. ``direct8`` and ``oneDirect8`` say how many messages are under way at a
    time; the messages of one NPU share its links here, so that the number changes nothing."""

    def read(self, node: Node) -> AlgorithmName:
        if node.kind == "scalar":
            for name in ("oneDirect", "direct"):
                if node.text.startswith(name) and node.text[len(name) :].isdigit():
                    return _ALGORITHMS[name]
        result = Choice(_ALGORITHMS).read(node)
        assert isinstance(result, AlgorithmName)
        return result

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


class _Prefix:
    """The prefix of the traces of a custom algorithm; a list has one entry."""

    def read(self, node: Node) -> Path:
        if node.kind == "list":
            elements = list(node.elements())
            if len(elements) != 1:
                raise node.error(
                    f"{node.key} must name one trace, for the whole collective, not {len(elements)}"
                )
            node = elements[0]
        return Path(Text().read(node))

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "array"]}


class _NodeTable:
    """Node numbers with prefixes: a mapping, or the path of a YAML file with one."""

    def read(self, node: Node) -> dict[int, Path]:
        if node.kind == "scalar":
            path = Path(node.text)
            if not path.exists():
                path = Path(node.path).parent / node.text
            node = Document(path).root
        return TableOf(_Prefix()).read(node)

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "object"]}


#: Keys that are known and change nothing here, with what their value must be.
_WITHOUT_EFFECT: dict[str, Reader] = {
    "boost-mode": _FLAG,
    "trace-enabled": _FLAG,
    "track-local-mem": _FLAG,
    "local-mem-trace-filename": Text(),
    "local-reduction-delay": Number(above=None),
    "model-shared-bus": _FLAG,
    "L": Number(above=None),
    "o": Number(above=None),
    "g": Number(above=None),
    "G": Number(above=None),
}

#: Keys that only the other rules know (docs/semantics.md).
_IDLE_IN_OURS = ("endpoint-delay", "active-chunks-per-dimension", "collective-optimization")
_IDLE_IN_ASTRA_SIM = ("inter-dimension-scheduling", "intra-dimension-scheduling")

_KEYS = (
    Key("scheduling-policy", Choice({p.value: p for p in CollectivePolicy}), "", field="policy"),
    Key("endpoint-delay", Whole(0), "ns", field="endpoint_delay"),
    Key("active-chunks-per-dimension", Whole(1), "", field="active_chunks"),
    Key("preferred-dataset-splits", Whole(1), "", field="splits"),
    Key("collective-optimization", Choice({s.value: s for s in AllReduceShape}), "", field="shape"),
    Key("local-mem-bw", Number(), "10^9 B/s", field="local_memory_bandwidth"),
    Key("roofline-enabled", _FLAG, ""),
    Key("peak-perf", Number(), "TFLOPS", field="peak_performance"),
    Key("replay-only", _FLAG, "", field="replay_only"),
    Key(
        "inter-dimension-scheduling",
        Choice(
            {"baseline": DimOrder.ASCENDING, "ascending": DimOrder.ASCENDING}
            | {"themis": DimOrder.THEMIS}
        ),
        "",
        field="dim_order",
    ),
    Key("intra-dimension-scheduling", Choice({o.value: o for o in OpOrder}), "", field="op_order"),
    *(Key(name, ListOf(_Algorithm()), "", field=name) for name in _OPERATIONS),
    *(Key(f"{name}-custom", _Prefix(), "", field=f"{name}-custom") for name in _OPERATIONS),
    Key("per-node-custom-implementation", _NodeTable(), "", field="custom_of_node"),
    *(Key(name, reader, "", field=name) for name, reader in _WITHOUT_EFFECT.items()),
)


def _build(**values: Any) -> SystemConfig:
    ignored = [name for name in values if name in _WITHOUT_EFFECT]
    algorithms = {op: values.pop(name) for name, op in _OPERATIONS.items() if name in values}
    custom = {
        op: values.pop(f"{name}-custom")
        for name, op in _OPERATIONS.items()
        if f"{name}-custom" in values
    }
    for name in ignored:
        del values[name]
    roofline = values.pop("roofline-enabled", False)
    if roofline and not ("peak_performance" in values and "local_memory_bandwidth" in values):
        raise ValueError("roofline-enabled needs peak-perf and local-mem-bw")
    return SystemConfig(algorithms=algorithms, custom=custom, roofline=roofline, **values)


SYSTEM = Record(_build, _KEYS, located=True)


def read_system(path: str | PathLike[str], text: str | None = None) -> SystemConfig:
    """Read a system json.

    Paths of custom algorithms are relative to the working directory, as in ASTRA-sim, or else to
    the file.

    Raises
    ------
    InputError
        with file, line and column.
    """
    if text is None:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from None
        except UnicodeDecodeError:
            raise InputError("must be text in UTF-8", path=path) from None
    # A tab may separate values in JSON but not in YAML; inside a string JSON has none.
    config = SYSTEM.read(Document(path, text.replace("\t", " ")).root)
    assert isinstance(config, SystemConfig)
    return replace(config, path=fspath(path))

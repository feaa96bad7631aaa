"""Layers written out in a document, each pass with its compute time and its collective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sw_model.collective.plan import SYMMETRIC, Operation
from sw_model.document import Node
from sw_model.schema import Choice, Key, Quantity, Record, Text, Whole
from sw_model.units import parse_size, parse_time_ps, shown
from sw_model.workload.layers import Communication, Layer, Mode, Workload
from sw_model.workload.settings import HEADERLESS_MODES

__all__ = ["LAYER", "layers_of"]


class _Nanoseconds:
    """A time that is a whole number of nanoseconds, as a 1.0 text has them."""

    def read(self, node: Node) -> int:
        picoseconds = Quantity(parse_time_ps, "10 us").read(node)
        if picoseconds % 1000:
            raise node.error(
                f"{node.key} must be a whole number of nanoseconds, not {shown(node.text)}"
            )
        return int(picoseconds // 1000)

    def schema(self) -> dict[str, Any]:
        return Quantity(parse_time_ps, "10 us").schema()


def _pass(
    compute: int = 0, operation: Operation | None = None, size: int = 0
) -> tuple[int, Communication]:
    if size and operation is None:
        raise ValueError("operation must be given where there is a size")
    return compute, Communication(operation, size)


_PASS = Record(
    _pass,
    (
        Key("compute", _Nanoseconds(), "of the pass"),
        Key(
            "operation",
            Choice({operation.value: operation for operation in SYMMETRIC}),
            "the collective that follows the pass",
        ),
        Key("size", Quantity(parse_size, "64MiB"), "its bytes on one rank; a shard to gather"),
    ),
)
_NOTHING = (0, Communication())


@dataclass(frozen=True)
class _Repeated:
    layer: Layer
    times: int


def _repeated(
    *,
    name: str,
    forward: tuple[int, Communication] = _NOTHING,
    input_gradient: tuple[int, Communication] = _NOTHING,
    weight_gradient: tuple[int, Communication] = _NOTHING,
    update: int = 0,
    parallelism: Mode | None = None,
    repeat: int = 1,
    lines: Mapping[str, int],
) -> _Repeated:
    if not name or len(name.split()) != 1:
        raise ValueError(f"name must be one word, as in a 1.0 text, not {name!r}")
    layer = Layer(
        name, *forward, *input_gradient, *weight_gradient, update, parallelism, line=lines["name"]
    )
    return _Repeated(layer, repeat)


#: One layer, or several that are alike; for `layers_of`.
LAYER = Record(
    _repeated,
    (
        Key("name", Text(), "of the layer, one word", required=True),
        Key("forward", _PASS, "forward pass"),
        Key("input_gradient", _PASS, "backward pass of the inputs"),
        Key("weight_gradient", _PASS, "backward pass of the weights"),
        Key("update", _Nanoseconds(), "of the weights, after their gradients are reduced"),
        Key(
            "parallelism",
            Choice({n: m for n, m in HEADERLESS_MODES.items() if m is not Mode.HYBRID_CUSTOMIZED}),
            "the layer's own, in mode HYBRID_CUSTOMIZED",
        ),
        Key("repeat", Whole(1, 100_000), "so many layers like this, numbered from 0"),
    ),
    located=True,
)


def layers_of(values: dict[str, Any]) -> Workload:
    """The workload of ``layers`` and of the keys that belong to them, which are taken out of
    ``values``.

    Raises
    ------
    ValueError
        where they do not go together; begins with the name of a key.
    """
    mode = values.pop("mode", Mode.DATA)
    layers: list[Layer] = []
    for repeated in values.pop("layers"):
        layer, times = repeated.layer, repeated.times
        names = [layer.name] if times == 1 else [f"{layer.name}.{n}" for n in range(times)]
        layers += [replace(layer, name=name) for name in names]
    for layer in layers:
        if (layer.parallelism is None) is (mode is Mode.HYBRID_CUSTOMIZED):
            raise ValueError(
                "layers must each have a parallelism in mode HYBRID_CUSTOMIZED, and only there: "
                f"see {layer.name!r}"
            )
    count = len(layers)
    header: dict[str, Any] = {
        key: values.pop(key)
        for key in ("model_parallel_npus", "last_bottom_layer", "checkpoints",
                    "checkpoint_initiates")
        if key in values
    }  # fmt: skip
    for key, needed in (
        ("model_parallel_npus", mode.is_transformer),
        ("last_bottom_layer", mode.is_dlrm),
    ):
        if needed and key not in header:
            raise ValueError(f"mode {mode.value} needs the key {key!r}")
        if key in header and not needed:
            raise ValueError(f"{key} is not for mode {mode.value}")
    for key in ("last_bottom_layer", "checkpoints", "checkpoint_initiates"):
        numbers = header.get(key, ())
        for number in (numbers,) if isinstance(numbers, int) else numbers:
            if number >= count:
                raise ValueError(f"{key} must be in 0..{count - 1}, not {number}")
        if key != "last_bottom_layer" and numbers and mode.is_dlrm | (mode is Mode.DATA):
            raise ValueError(f"{key} is not for mode {mode.value}")
    for number in header.get("checkpoint_initiates", ()):
        if not any(kept <= number for kept in header.get("checkpoints", ())):
            raise ValueError(
                f"checkpoint_initiates must have a checkpoint at or before each: see {number}"
            )
    return Workload(mode=mode, layers=tuple(layers), **header)

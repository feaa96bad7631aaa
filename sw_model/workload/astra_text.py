"""Reader and writer of the ASTRA-sim 1.0 workload text.

The first line names the mode and, for some modes, more: ``HYBRID_DLRM 4`` the last bottom-MLP
layer; ``HYBRID_TRANSFORMER model_parallel_NPU_group: 4``; ``HYBRID_TRANSFORMER_FWD_IN_BCKWD`` also
``checkpoints: n l1 ... ln`` and ``checkpoint_initiates: n l1 ... ln``. The second line is the
number of layers. Then one layer a line, its fields separated by any tabs and spaces (`FIELDS`).
Times are nanoseconds and sizes bytes. LIBRA's variant has neither header line.

Source: the inputs and the reader of the public astra-sim repository, branch ASTRA-sim-1.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path

from sw_model.collective.plan import Operation
from sw_model.errors import InputError, nearest
from sw_model.units import LARGEST_COUNT, LARGEST_SIZE, LARGEST_TIME_NS, shown
from sw_model.workload.layers import Communication, Layer, Mode, Workload

__all__ = ["FIELDS", "format_text", "parse", "read", "write"]

#: The fields of a layer's line, in order. The last only in HYBRID_CUSTOMIZED.
FIELDS = (
    "name",
    "reserved",
    "forward compute time",
    "forward communication type",
    "forward communication bytes",
    "input-gradient compute time",
    "input-gradient communication type",
    "input-gradient communication bytes",
    "weight-gradient compute time",
    "weight-gradient communication type",
    "weight-gradient communication bytes",
    "update time",
    "parallelism",
)
_TYPE_FIELDS = (3, 6, 9)
_COLLECTIVES = {
    "NONE": None,
    "ALLREDUCE": Operation.ALL_REDUCE,
    "REDUCESCATTER": Operation.REDUCE_SCATTER,
    "ALLGATHER": Operation.ALL_GATHER,
    "ALLTOALL": Operation.ALL_TO_ALL,
}
_COLLECTIVE_NAMES = {operation: name for name, operation in _COLLECTIVES.items()}
_MODES = {mode.value: mode for mode in Mode}
#: Modes that a single layer may have.
_LAYER_MODES = {name: mode for name, mode in _MODES.items() if mode is not Mode.HYBRID_CUSTOMIZED}
_WHOLE = re.compile(r"[+-]?\d+")
_DIGITS = 30  # more than any number of the format has; far more are slow to convert


class _Lines:
    """The words of each line that has any, with its number, and errors that point there."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self.last_line = max(1, len(text.splitlines()))
        self._lines = [
            (number, words)
            for number, line in enumerate(text.splitlines(), start=1)
            if (words := line.split())
        ]
        self._next = 0

    def peek(self) -> tuple[int, list[str]] | None:
        return self._lines[self._next] if self._next < len(self._lines) else None

    def take(self) -> tuple[int, list[str]] | None:
        line = self.peek()
        self._next += line is not None
        return line

    def error(self, line: int, message: str) -> InputError:
        return InputError(message, path=self.path, line=line)

    def whole(
        self, line: int, what: str, word: str, unit: str = "", largest: int = LARGEST_COUNT
    ) -> int:
        """``word`` as a whole number that is not negative, and at most ``largest``."""
        if not _WHOLE.fullmatch(word):
            raise self.error(line, f"{what} must be a whole number{unit}, not {shown(word)}")
        long = len(word) > _DIGITS
        if long and not word.startswith("-"):
            raise self.error(line, f"{what} must be at most {largest}, not {shown(word)}")
        if long or int(word) < 0:
            value = shown(word) if long else int(word)
            raise self.error(line, f"{what} must not be negative, not {value}")
        if int(word) > largest:
            raise self.error(line, f"{what} must be at most {largest}, not {int(word)}")
        return int(word)


def read(path: str | PathLike[str], *, headerless_mode: Mode | None = None) -> Workload:
    """Read a file.

    Parameters
    ----------
    path : the text
    headerless_mode : for a file without the two header lines (LIBRA): its mode, one of those
        whose header says nothing more

    Raises
    ------
    InputError
        with file, line, field and what would be right.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors begin with a mark
    except OSError as error:
        reason = error.strerror
        if isinstance(error, FileNotFoundError) and not Path(path).suffix:
            reason = f"there is no such file, and no trace of rank 0, {Path(path).name}.0.et"
        raise InputError(f"cannot be read: {reason}", path=path) from None
    except UnicodeDecodeError as error:
        found = error.object[error.start : error.start + 4]
        raise InputError(f"must be text in UTF-8, not bytes like {found!r}", path=path) from None
    return parse(text, fspath(path), headerless_mode=headerless_mode)


def parse(text: str, path: str = "<text>", *, headerless_mode: Mode | None = None) -> Workload:
    """Like `read`, on a string; ``path`` is for messages."""
    if headerless_mode is not None and (headerless_mode.is_dlrm or headerless_mode.is_transformer):
        mode_name = headerless_mode.value
        raise ValueError(
            f"headerless_mode must be a mode whose header is one word, not {mode_name!r}"
        )
    lines = _Lines(text, path)
    first = lines.peek()
    if first is None:
        raise InputError("must have a mode, a layer count and layers, but is empty", path=path)
    count: int | None = None
    header: dict[str, object] = {}
    if headerless_mode is None:
        if _looks_like_layer(first[1]):
            raise lines.error(
                first[0],
                "must begin with a mode such as DATA and a layer count, not with a layer; "
                "a file without header needs its mode given",
            )
        header = _header(lines)
        count = _layer_count(lines, first[0])
        mode = header.pop("mode")
    else:
        if first[1][0] in _MODES:
            raise lines.error(first[0], f"has a header of its own ({first[1][0]}): give no mode")
        mode = headerless_mode
    assert isinstance(mode, Mode)

    layers: list[Layer] = []
    while (line := lines.take()) is not None:
        number, words = line
        if count is not None and len(layers) == count:
            more = 1
            while lines.take():
                more += 1
            raise lines.error(
                number, f"the header says {count} layers, but {count + more} lines of them follow"
            )
        layers.append(_layer(lines, number, words, mode))
    if count is not None and len(layers) < count:
        raise lines.error(
            lines.last_line,
            f"the header says {count} layers, but the file ends after {len(layers)}",
        )
    workload = Workload(mode=mode, layers=tuple(layers), path=path, **header)  # type: ignore[arg-type]
    _check_layer_numbers(lines, first[0], workload)
    return workload


def _looks_like_layer(words: list[str]) -> bool:
    return len(words) >= 11 and words[0] not in _MODES


def _header(lines: _Lines) -> dict[str, object]:
    taken = lines.take()
    assert taken is not None
    number, words = taken
    mode = _MODES.get(words[0])
    if mode is None:
        raise lines.error(number, f"unknown mode {words[0]!r}{nearest(words[0], _MODES)}")
    out: dict[str, object] = {"mode": mode}
    rest = words[1:]
    if mode.is_dlrm:
        if not rest:
            raise lines.error(number, f"{mode.value} must be followed by its last bottom-MLP layer")
        out["last_bottom_layer"] = lines.whole(number, "the last bottom-MLP layer", rest.pop(0))
    elif mode.is_transformer:
        out |= _transformer_header(lines, number, mode, rest)
    if rest:
        raise lines.error(
            number, f"{mode.value} takes nothing more, but {' '.join(rest)!r} follows"
        )
    return out


def _transformer_header(
    lines: _Lines, number: int, mode: Mode, rest: list[str]
) -> dict[str, object]:
    """Consume ``rest``: the keys of a transformer mode, in any order."""
    names = {"model_parallel_NPU_group:": "model_parallel_npus"}
    if mode is Mode.HYBRID_TRANSFORMER_FWD_IN_BCKWD:
        names["checkpoints:"] = "checkpoints"
        names["checkpoint_initiates:"] = "checkpoint_initiates"
    out: dict[str, object] = {}
    while rest:
        key = rest.pop(0)
        if key not in names:
            raise lines.error(number, f"unknown header key {key!r}{nearest(key, names)}")
        if names[key] in out:
            raise lines.error(number, f"{key} must stand once, not twice")
        if not rest:
            raise lines.error(number, f"{key} must be followed by a number")
        value = lines.whole(number, key.rstrip(":"), rest.pop(0))
        if key == "model_parallel_NPU_group:":
            if value < 1:
                raise lines.error(
                    number, f"model_parallel_NPU_group must be at least 1, not {value}"
                )
            out[names[key]] = value
            continue
        if len(rest) < value:
            raise lines.error(
                number, f"{key} must be followed by {value} layer numbers, not {len(rest)}"
            )
        out[names[key]] = tuple(
            lines.whole(number, f"a layer of {key.rstrip(':')}", rest.pop(0)) for _ in range(value)
        )
    if "model_parallel_npus" not in out:
        raise lines.error(number, f"{mode.value} must be followed by model_parallel_NPU_group: N")
    return out


def _layer_count(lines: _Lines, after: int) -> int:
    taken = lines.take()
    if taken is None:
        raise lines.error(after, "must be followed by a line with the number of layers")
    number, words = taken
    if len(words) > 1:
        raise lines.error(
            number,
            f"the second line must be the number of layers alone, not {len(words)} fields",
        )
    count = lines.whole(number, "the number of layers", words[0])
    if count < 1:
        raise lines.error(number, f"the number of layers must be at least 1, not {count}")
    return count


def _layer(lines: _Lines, number: int, words: list[str], mode: Mode) -> Layer:
    needed = 13 if mode is Mode.HYBRID_CUSTOMIZED else 12
    if len(words) != needed:
        raise lines.error(number, _wrong_count(words, needed, mode))

    def what(index: int) -> str:
        return f"field {index + 1} ({FIELDS[index]}) of layer {words[0]!r}"

    def time(index: int) -> int:
        return lines.whole(number, what(index), words[index], " of nanoseconds", LARGEST_TIME_NS)

    def communication(index: int) -> Communication:
        kind = words[index]
        if kind not in _COLLECTIVES:
            raise lines.error(
                number, f"{what(index)}: unknown collective {kind!r}{nearest(kind, _COLLECTIVES)}"
            )
        size = lines.whole(number, what(index + 1), words[index + 1], " of bytes", LARGEST_SIZE)
        return Communication(_COLLECTIVES[kind], size)

    if not _WHOLE.fullmatch(words[1]) or len(words[1]) > _DIGITS:
        raise lines.error(number, f"{what(1)} must be a whole number, not {shown(words[1])}")
    parallelism = None
    if mode is Mode.HYBRID_CUSTOMIZED:
        parallelism = _LAYER_MODES.get(words[12])
        if parallelism is None or parallelism.is_transformer:
            allowed = [n for n, m in _LAYER_MODES.items() if not m.is_transformer]
            raise lines.error(
                number, f"{what(12)}: unknown mode {words[12]!r}{nearest(words[12], allowed)}"
            )
    return Layer(
        name=words[0],
        reserved=int(words[1]),
        forward_ns=time(2),
        forward=communication(3),
        input_gradient_ns=time(5),
        input_gradient=communication(6),
        weight_gradient_ns=time(8),
        weight_gradient=communication(9),
        update_ns=time(11),
        parallelism=parallelism,
        line=number,
    )


def _wrong_count(words: list[str], needed: int, mode: Mode) -> str:
    """Say how many fields are wrong, and where the line first departs from the pattern."""
    message = f"a layer of {mode.value} must have {needed} fields, not {len(words)}"
    if len(words) == 12 and needed == 13:
        return f"{message}: field 13 ({FIELDS[12]}) is missing"
    if len(words) == 13 and needed == 12:
        return f"{message}: only a layer of HYBRID_CUSTOMIZED has field 13 ({FIELDS[12]})"
    fits: Callable[[int, str], bool] = lambda index, word: (  # noqa: E731
        index == 0
        or (word in _COLLECTIVES if index in _TYPE_FIELDS else bool(_WHOLE.fullmatch(word)))
    )
    for index, word in enumerate(words[:12]):
        if not fits(index, word):
            return f"{message}: field {index + 1} ({FIELDS[index]}) is {word!r}"
    if len(words) < needed:
        return f"{message}: field {len(words) + 1} ({FIELDS[len(words)]}) is missing"
    return f"{message}: nothing belongs after field {needed} ({FIELDS[needed - 1]})"


def _check_layer_numbers(lines: _Lines, number: int, workload: Workload) -> None:
    """Layers that the header names must exist; a checkpoint must precede what starts from it."""
    count = len(workload.layers)
    named = [("the last bottom-MLP layer", workload.last_bottom_layer)]
    named += [("a layer of checkpoints", layer) for layer in workload.checkpoints]
    named += [("a layer of checkpoint_initiates", layer) for layer in workload.checkpoint_initiates]
    for what, layer in named:
        if layer is not None and layer >= count:
            raise lines.error(number, f"{what} must be in 0..{count - 1}, not {layer}")
    for layer in workload.checkpoint_initiates:
        if not any(checkpoint <= layer for checkpoint in workload.checkpoints):
            raise lines.error(
                number,
                f"layer {layer} of checkpoint_initiates must have a checkpoint at or before it, "
                f"not only {list(workload.checkpoints)}",
            )


def format_text(workload: Workload) -> str:
    """The text of a workload, tab separated, one final newline; `parse` gives it back unchanged.

    Raises
    ------
    ValueError
        where a time is no whole number of nanoseconds: the format has no other.
    """
    header = workload.mode.value
    if workload.mode.is_dlrm:
        header += f"\t{workload.last_bottom_layer}"
    if workload.mode.is_transformer:
        header += f"\tmodel_parallel_NPU_group: {workload.model_parallel_npus}"
    if workload.mode is Mode.HYBRID_TRANSFORMER_FWD_IN_BCKWD:
        for key, numbers in (
            ("checkpoints:", workload.checkpoints),
            ("checkpoint_initiates:", workload.checkpoint_initiates),
        ):
            header += " " + " ".join(str(word) for word in (key, len(numbers), *numbers))
    lines = [header, str(len(workload.layers))]
    for layer in workload.layers:
        words: list[object] = [layer.name, layer.reserved]
        for nanoseconds, communication in (
            (layer.forward_ns, layer.forward),
            (layer.input_gradient_ns, layer.input_gradient),
            (layer.weight_gradient_ns, layer.weight_gradient),
        ):
            words += [
                _whole_ns(layer, nanoseconds),
                _collective_name(layer, communication),
                communication.bytes,
            ]
        words.append(_whole_ns(layer, layer.update_ns))
        if layer.parallelism is not None:
            words.append(layer.parallelism.value)
        lines.append("\t".join(str(word) for word in words))
    return "\n".join(lines) + "\n"


def _collective_name(layer: Layer, communication: Communication) -> str:
    name = _COLLECTIVE_NAMES.get(communication.operation)
    if name is None:
        assert communication.operation is not None
        raise ValueError(
            f"collectives of layer {layer.name!r} must be of {', '.join(_COLLECTIVES)} to be "
            f"written, not {communication.operation.value}"
        )
    return name


def _whole_ns(layer: Layer, nanoseconds: object) -> int:
    whole = int(nanoseconds)  # type: ignore[call-overload]
    if whole != nanoseconds:
        raise ValueError(
            f"times of layer {layer.name!r} must be whole nanoseconds to be written, "
            f"not {nanoseconds}"
        )
    return whole


def write(workload: Workload, path: str | PathLike[str]) -> None:
    """Write `format_text` to a file."""
    Path(path).write_text(format_text(workload), encoding="utf-8", newline="\n")

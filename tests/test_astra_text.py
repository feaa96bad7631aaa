"""The ASTRA-sim 1.0 text: every mode, every way of being wrong."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.units import LARGEST_SIZE, LARGEST_TIME_NS
from sw_model.workload import astra_text
from sw_model.workload.layers import Communication, Layer, Mode, Pass, Span, Workload

LAYER = "conv1 -1 10 NONE 0 11 NONE 0 12 ALLREDUCE 64 3"


def text(*lines: str, header: str = "DATA", count: int | None = None) -> str:
    return "\n".join([header, str(len(lines) if count is None else count), *lines])


def test_fields() -> None:
    (layer,) = astra_text.parse(text("fc -1 1 ALLGATHER 2 3 REDUCESCATTER 4 5 ALLTOALL 6 7")).layers
    assert layer == Layer(
        name="fc",
        reserved=-1,
        forward_ns=1,
        forward=Communication(Operation.ALL_GATHER, 2),
        input_gradient_ns=3,
        input_gradient=Communication(Operation.REDUCE_SCATTER, 4),
        weight_gradient_ns=5,
        weight_gradient=Communication(Operation.ALL_TO_ALL, 6),
        update_ns=7,
    )
    assert layer.line == 3


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\t\t\n", "\n\n  \n"])
@pytest.mark.parametrize("gap", ["\t", " ", "\t \t", "   "])
def test_white_space_does_not_matter(gap, ending) -> None:
    written = gap.join(LAYER.split())
    source = f"DATA{gap}\r\n1\t\t\t\n{gap}{written}{ending}"
    assert astra_text.parse(source) == astra_text.parse(text(LAYER))


def test_blank_lines_keep_line_numbers_right() -> None:
    source = f"DATA\n\n2\n{LAYER}\n\n{LAYER.replace('64', 'x')}"
    with pytest.raises(InputError, match=r"^<text>:6: field 11 "):
        astra_text.parse(source)


def test_dlrm_header() -> None:
    workload = astra_text.parse(text(LAYER, LAYER, header="HYBRID_DLRM\t1\t\t"))
    assert workload.last_bottom_layer == 1
    assert [workload.span(i, Pass.FORWARD) for i in (0, 1)] == [Span.ALL, Span.NONE]
    assert [workload.span(i, Pass.WEIGHT_GRADIENT) for i in (0, 1)] == [Span.ALL, Span.ALL]


def test_transformer_header() -> None:
    header = (
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 "
        "checkpoints: 2 0 1 checkpoint_initiates: 1 2"
    )
    workload = astra_text.parse(text(LAYER, LAYER, LAYER, header=header))
    assert workload.model_parallel_npus == 4
    assert workload.checkpoints == (0, 1)
    assert workload.checkpoint_initiates == (2,)
    plain = astra_text.parse(text(LAYER, header="HYBRID_TRANSFORMER model_parallel_NPU_group: 2"))
    assert plain.span(0, Pass.INPUT_GRADIENT) is Span.INNER
    assert plain.span(0, Pass.WEIGHT_GRADIENT) is Span.OUTER


@pytest.mark.parametrize(
    ("mode", "activations", "weights"),
    [
        (Mode.DATA, Span.NONE, Span.ALL),
        (Mode.MODEL, Span.ALL, Span.NONE),
        (Mode.HYBRID_DATA_MODEL, Span.FIRST, Span.REST),
        (Mode.HYBRID_MODEL_DATA, Span.REST, Span.FIRST),
        (Mode.MICRO, Span.ALL, Span.ALL),
    ],
)
def test_spans(mode, activations, weights) -> None:
    workload = astra_text.parse(text(LAYER, header=mode.value))
    assert workload.span(0, Pass.FORWARD) is activations
    assert workload.span(0, Pass.INPUT_GRADIENT) is activations
    assert workload.span(0, Pass.WEIGHT_GRADIENT) is weights
    # The same as a layer's own mode.
    own = astra_text.parse(text(f"{LAYER} {mode.value}", header="HYBRID_CUSTOMIZED"))
    assert own.layers[0].parallelism is mode
    assert own.span(0, Pass.FORWARD) is activations
    assert own.span(0, Pass.WEIGHT_GRADIENT) is weights


def test_headerless() -> None:
    workload = astra_text.parse(f"{LAYER}\n{LAYER}", headerless_mode=Mode.HYBRID_DATA_MODEL)
    assert workload.mode is Mode.HYBRID_DATA_MODEL
    assert [layer.line for layer in workload.layers] == [1, 2]


def test_headerless_mode_of_many_words() -> None:
    message = "headerless_mode must be a mode whose header is one word, not 'HYBRID_DLRM'"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        astra_text.parse(LAYER, headerless_mode=Mode.HYBRID_DLRM)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "<text>: must have a mode, a layer count and layers, but is empty"),
        (
            text(LAYER, header="DATTA"),
            "<text>:1: unknown mode 'DATTA' (did you mean 'DATA'?)",
        ),
        (
            LAYER,
            "<text>:1: must begin with a mode such as DATA and a layer count, not with a layer; "
            "a file without header needs its mode given",
        ),
        ("DATA", "<text>:1: must be followed by a line with the number of layers"),
        (
            f"DATA\n{LAYER}",
            "<text>:2: the second line must be the number of layers alone, not 12 fields",
        ),
        (
            text(LAYER, count=0),
            "<text>:2: the number of layers must be at least 1, not 0",
        ),
        (
            f"DATA\nmany\n{LAYER}",
            "<text>:2: the number of layers must be a whole number, not 'many'",
        ),
        (
            text(LAYER, count=3),
            "<text>:3: the header says 3 layers, but the file ends after 1",
        ),
        (
            text(LAYER, LAYER, LAYER, count=1),
            "<text>:4: the header says 1 layers, but 3 lines of them follow",
        ),
        (
            text("conv1 -1 10 NONE 0 11 NONE 12 ALLREDUCE 64 3"),
            "<text>:3: a layer of DATA must have 12 fields, not 11: "
            "field 9 (weight-gradient compute time) is 'ALLREDUCE'",
        ),
        (
            text("conv1 -1 10 NONE 0 11 NONE 0 12 ALLREDUCE 64"),
            "<text>:3: a layer of DATA must have 12 fields, not 11: field 12 (update time) is "
            "missing",
        ),
        (
            text(f"{LAYER} DATA"),
            "<text>:3: a layer of DATA must have 12 fields, not 13: "
            "only a layer of HYBRID_CUSTOMIZED has field 13 (parallelism)",
        ),
        (
            text(f"{LAYER} 5 6"),
            "<text>:3: a layer of DATA must have 12 fields, not 14: "
            "nothing belongs after field 12 (update time)",
        ),
        (
            text(LAYER, header="HYBRID_CUSTOMIZED"),
            "<text>:3: a layer of HYBRID_CUSTOMIZED must have 13 fields, not 12: "
            "field 13 (parallelism) is missing",
        ),
        (
            text(f"{LAYER} DTA", header="HYBRID_CUSTOMIZED"),
            "<text>:3: field 13 (parallelism) of layer 'conv1': unknown mode 'DTA' "
            "(did you mean 'DATA'?)",
        ),
        (
            text(LAYER.replace("64", "-64")),
            "<text>:3: field 11 (weight-gradient communication bytes) of layer 'conv1' "
            "must not be negative, not -64",
        ),
        (
            text(LAYER.replace("64", "6.4")),
            "<text>:3: field 11 (weight-gradient communication bytes) of layer 'conv1' "
            "must be a whole number of bytes, not '6.4'",
        ),
        (
            text(LAYER.replace(" 11 ", " eleven ")),
            "<text>:3: field 6 (input-gradient compute time) of layer 'conv1' "
            "must be a whole number of nanoseconds, not 'eleven'",
        ),
        (
            text(LAYER.replace("-1", "no")),
            "<text>:3: field 2 (reserved) of layer 'conv1' must be a whole number, not 'no'",
        ),
        (
            text(LAYER.replace("ALLREDUCE", "ALLREDUCT")),
            "<text>:3: field 10 (weight-gradient communication type) of layer 'conv1': "
            "unknown collective 'ALLREDUCT' (did you mean 'ALLREDUCE'?)",
        ),
        (
            text(LAYER, header="DATA 4"),
            "<text>:1: DATA takes nothing more, but '4' follows",
        ),
        (
            text(LAYER, header="HYBRID_DLRM"),
            "<text>:1: HYBRID_DLRM must be followed by its last bottom-MLP layer",
        ),
        (
            text(LAYER, header="HYBRID_DLRM 1"),
            "<text>:1: the last bottom-MLP layer must be in 0..0, not 1",
        ),
        (
            text(LAYER, header="HYBRID_TRANSFORMER"),
            "<text>:1: HYBRID_TRANSFORMER must be followed by model_parallel_NPU_group: N",
        ),
        (
            text(LAYER, header="HYBRID_TRANSFORMER model_parallel_npu_group: 4"),
            "<text>:1: unknown header key 'model_parallel_npu_group:' "
            "(did you mean 'model_parallel_NPU_group:'?)",
        ),
        (
            text(LAYER, header="HYBRID_TRANSFORMER model_parallel_NPU_group: 0"),
            "<text>:1: model_parallel_NPU_group must be at least 1, not 0",
        ),
        (
            text(LAYER, header="HYBRID_TRANSFORMER model_parallel_NPU_group:"),
            "<text>:1: model_parallel_NPU_group: must be followed by a number",
        ),
        (
            text(
                LAYER,
                header="HYBRID_TRANSFORMER model_parallel_NPU_group: 2 model_parallel_NPU_group: 2",
            ),
            "<text>:1: model_parallel_NPU_group: must stand once, not twice",
        ),
        (
            text(
                LAYER,
                header="HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 "
                "checkpoints: 3 0 1",
            ),
            "<text>:1: checkpoints: must be followed by 3 layer numbers, not 2",
        ),
        (
            text(
                LAYER,
                header="HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 "
                "checkpoints: 1 5 checkpoint_initiates: 0",
            ),
            "<text>:1: a layer of checkpoints must be in 0..0, not 5",
        ),
        (
            text(
                LAYER,
                LAYER,
                header="HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 "
                "checkpoints: 1 1 checkpoint_initiates: 1 0",
            ),
            "<text>:1: layer 0 of checkpoint_initiates must have a checkpoint at or before it, "
            "not only [1]",
        ),
    ],
)
def test_messages(source, message) -> None:
    with pytest.raises(InputError) as caught:
        astra_text.parse(source)
    assert str(caught.value) == message


def test_mode_given_to_a_file_with_a_header() -> None:
    message = "<text>:1: has a header of its own (DATA): give no mode"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        astra_text.parse(text(LAYER), headerless_mode=Mode.DATA)


def test_files(tmp_path) -> None:
    path = tmp_path / "w.txt"
    with pytest.raises(InputError, match=r"w\.txt: cannot be read: No such file or directory$"):
        astra_text.read(path)
    path.write_bytes(b"DATA\n\xff\xfe")
    with pytest.raises(InputError, match=r"w\.txt: must be text in UTF-8, not bytes like b'\\xff"):
        astra_text.read(path)
    workload = astra_text.parse(text(LAYER))
    astra_text.write(workload, path)
    assert astra_text.read(path) == workload
    assert path.read_bytes().endswith(b"\t3\n")


def test_fractions_of_a_nanosecond_cannot_be_written() -> None:
    from fractions import Fraction

    scaled = astra_text.parse(text(LAYER)).scaled(Fraction(1, 3), "fp16")
    message = "times of layer 'conv1' must be whole nanoseconds to be written, not 10/3"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        astra_text.format_text(scaled)


def test_a_collective_that_the_format_does_not_have():
    workload = astra_text.parse(text(LAYER))
    (layer,) = workload.layers
    layer = replace(layer, forward=Communication(Operation.BROADCAST, 8))
    message = (
        "collectives of layer 'conv1' must be of NONE, ALLREDUCE, REDUCESCATTER, ALLGATHER, "
        "ALLTOALL to be written, not broadcast"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        astra_text.format_text(replace(workload, layers=(layer,)))


_counts = st.integers(0, LARGEST_TIME_NS)
#: All that the format has.
_COLLECTIVES = (
    None,
    Operation.ALL_REDUCE,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_TO_ALL,
)
_communications = st.builds(
    Communication, st.sampled_from(_COLLECTIVES), st.integers(0, LARGEST_SIZE)
)
_names = st.text("abcXYZ019_.-", min_size=1, max_size=8).filter(
    lambda name: name not in Mode.__members__
)


@st.composite
def workloads(draw) -> Workload:
    mode = draw(st.sampled_from(Mode))
    own = st.sampled_from([m for m in Mode if not m.is_transformer and m.name[-1] != "Z"])
    own = own.filter(lambda m: m is not Mode.HYBRID_CUSTOMIZED)
    layers = draw(
        st.lists(
            st.builds(
                Layer,
                name=_names,
                reserved=st.integers(-5, 5),
                forward_ns=_counts,
                forward=_communications,
                input_gradient_ns=_counts,
                input_gradient=_communications,
                weight_gradient_ns=_counts,
                weight_gradient=_communications,
                update_ns=_counts,
                parallelism=own if mode is Mode.HYBRID_CUSTOMIZED else st.none(),
            ),
            min_size=1,
            max_size=4,
        )
    )
    index = st.integers(0, len(layers) - 1)
    checkpoints: tuple[int, ...] = ()
    initiates: tuple[int, ...] = ()
    if mode is Mode.HYBRID_TRANSFORMER_FWD_IN_BCKWD:
        checkpoints = tuple(draw(st.lists(index, max_size=3)))
        initiates = tuple(
            layer
            for layer in draw(st.lists(index, max_size=3))
            if any(kept <= layer for kept in checkpoints)
        )
    return Workload(
        mode=mode,
        layers=tuple(layers),
        model_parallel_npus=draw(st.integers(1, 9)) if mode.is_transformer else None,
        last_bottom_layer=draw(index) if mode.is_dlrm else None,
        checkpoints=checkpoints,
        checkpoint_initiates=initiates,
    )


@given(workloads())
def test_round_trip_is_lossless(workload) -> None:
    assert astra_text.parse(astra_text.format_text(workload)) == workload


@given(st.text("DATA12 \t\n-.NOEALRUC", max_size=60))
def test_nothing_but_an_input_error_is_raised(source) -> None:
    with contextlib.suppress(InputError):
        astra_text.parse(source)

"""Chakra trace files: what is read is written again, and broken files are refused."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sw_model.chakra.files import encode_trace, parse_trace, read_trace
from sw_model.chakra.messages import VALUE_KINDS, NodeKind, message
from sw_model.errors import InputError
from tests.chakra_traces import TRACES, compute, needs_shared, node, trace

VALUES = {
    "double": 0.1, "float": 0.5, "bool": True, "string": "é", "bytes": b"\0\xff",
    "int32": -(2**31), "int64": -(2**63), "uint32": 2**32 - 1, "uint64": 2**64 - 1,
    "sint32": -5, "sint64": -(2**40), "fixed32": 7, "fixed64": 2**63,
    "sfixed32": -7, "sfixed64": -(2**62),
}  # fmt: skip


@needs_shared
def test_real_traces_come_back_byte_for_byte():
    files = sorted(TRACES.glob("**/*.et"))
    assert len(files) > 60
    for path in files:
        assert encode_trace(read_trace(path)) == path.read_bytes(), path


def test_every_kind_of_attribute():
    made = compute(0, 1)
    for kind in VALUE_KINDS:
        setattr(made.attr.add(name=f"{kind} value"), f"{kind}_val", VALUES[kind])
        getattr(made.attr.add(name=f"{kind} list"), f"{kind}_list").values.append(VALUES[kind])
    again = parse_trace(encode_trace(trace([made])), "t.et").nodes[0]
    assert again == made
    kinds = [attribute.WhichOneof("value") for attribute in again.attr]
    assert kinds == [f"{kind}_{form}" for kind in VALUE_KINDS for form in ("val", "list")]


def test_the_wire_is_chakras():
    """Bytes worked out by hand from the field numbers of et_def.proto."""
    made = node(1, NodeKind.COMM_COLL, name="a", data=[0], comm_type=2)
    assert encode_trace(trace([made])) == bytes.fromhex(
        "07" "0a05" + b"0.0.4".hex() + "19" "0801" "120161" "1807" "2a0100"
        "520d" "0a09" + b"comm_type".hex() + "4802"
    )  # fmt: skip


def test_fields_of_later_versions_are_kept():
    # Field 11 of a later Node, a message of two bytes.
    record = compute(3, 1).SerializeToString() + bytes.fromhex("5a020801")
    data = b"\x00" + bytes([len(record)]) + record
    assert encode_trace(parse_trace(data, "t.et")) == data


def test_an_empty_version_is_fine():
    assert parse_trace(encode_trace(trace([compute(0, 1)], version="")), "t").metadata.version == ""


@pytest.mark.parametrize("compress", [False, True])
def test_compressed_or_not(tmp_path, compress):
    path = tmp_path / "t.et"
    path.write_bytes(encode_trace(trace([compute(0, 5)]), compress=compress))
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == compress
    assert read_trace(path).nodes[0].duration_micros == 5


def test_compressed_traces_are_the_same_every_time():
    made = trace([compute(0, 5)])
    assert encode_trace(made, compress=True) == encode_trace(made, compress=True)


@given(
    st.lists(
        st.tuples(st.integers(0, 2**64 - 1), st.text(max_size=5), st.integers(0, 2**64 - 1)),
        min_size=1,
        max_size=5,
    )
)
def test_round_trip(rows):
    made = trace([node(n, NodeKind.COMP, name=name, micros=m) for n, name, m in rows])
    again = parse_trace(encode_trace(made), "t.et")
    assert again.nodes == made.nodes
    assert again.metadata == made.metadata


def broken(tmp_path, data: bytes) -> str:
    path = tmp_path / "t.et"
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        read_trace(path)
    return str(error.value).removeprefix(f"{path}: ")


def test_broken_files(tmp_path):
    whole = encode_trace(trace([compute(0, 5), compute(1, 5)]))
    assert broken(tmp_path, b"") == "must be a Chakra trace, not an empty file"
    assert broken(tmp_path, whole[:-1]) == (
        "ends inside record 2 of the nodes: 10 bytes are announced, 9 are there"
    )
    assert broken(tmp_path, whole[:3]) == (
        "ends inside the metadata: 7 bytes are announced, 2 are there"
    )
    assert broken(tmp_path, whole + b"\x80") == (
        "ends in the length of record 3 of the nodes: the trace is cut off"
    )
    assert broken(tmp_path, whole[:8]) == "must have at least one node, not only metadata"
    assert broken(tmp_path, b"\x02\xff\xff") == (
        "the metadata must be a Chakra message in protobuf"
    )
    assert broken(tmp_path, whole + b"\x02\xff\xff") == (
        "record 3 of the nodes must be a Chakra message in protobuf"
    )
    assert broken(tmp_path, encode_trace(trace([compute(0, 1)], version="0.0.3"))) == (
        "the schema version must be '0.0.4' or empty, not '0.0.3'"
    )
    assert broken(tmp_path, gzip.compress(whole)[:-9]).startswith("must be whole gzip data: ")


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"t.et: cannot be read: No such file or directory"):
        read_trace(tmp_path / "t.et")


def test_messages_are_built_once():
    assert message("Node") is message("Node")

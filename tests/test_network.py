"""Network descriptions of both kinds: units, and every message word for word."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sw_model.document import Document
from sw_model.errors import InputError
from sw_model.network import check_ranks, read_network, topology_at
from sw_model.topology import Dim, DimKind, Topology

ASTRA = """\
# astra-network-analytical
topology: [ Ring, FullyConnected, Switch ]
npus_count: [ 4, 8, 2 ]
bandwidth: [ 200.0, 100.0, 0.1 ]
latency: [ 500.0, 936.25, 0 ]
"""
OURS = """\
dims:
  - {kind: Ring, size: 4, bandwidth_per_npu: 20 GB/s, latency: 16 ns}
  - kind: Fred
    size: 4
    bandwidth_per_npu: 120 Gb/s
    latency: 0.024 us
    middle_copies: 2
"""


def parse(text: str) -> Topology:
    return topology_at(Document("n.yml", text).root)


def test_astra_units() -> None:
    """Per link in 2^30 B/s: a Ring and a Switch have one, a FullyConnected dim of P has P - 1."""
    assert parse(ASTRA) == Topology(
        (
            Dim(DimKind.RING, 4, Fraction(200 * 2**30), 500_000),
            Dim(DimKind.FULLY_CONNECTED, 8, Fraction(700 * 2**30), 936_250),
            Dim(DimKind.SWITCH, 2, Fraction(2**30, 10), 0),
        )
    )


def test_a_fully_connected_dim_of_one_has_a_bandwidth() -> None:
    text = "topology: [FullyConnected]\nnpus_count: [1]\nbandwidth: [2]\nlatency: [1]"
    assert parse(text).dims[0].bandwidth == 2 * 2**30


def test_our_units() -> None:
    assert parse(OURS) == Topology(
        (
            Dim(DimKind.RING, 4, Fraction(20 * 10**9), 16_000),
            Dim(DimKind.FRED, 4, Fraction(15 * 10**9), 24_000, middle_copies=2),
        )
    )


def test_json_is_yaml() -> None:
    text = '{"topology": ["Ring"], "npus_count": [2], "bandwidth": [50.0], "latency": [1]}'
    assert parse(text).npus == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "nodes: 4",
            "n.yml:1:1: a network must have the key 'dims' (our own description) or 'topology' "
            "(ASTRA-sim's)",
        ),
        ("[1, 2]", "n.yml:1:1: the document must be a mapping with keys, not a list"),
        (
            ASTRA.replace("Switch", "Swich"),
            "n.yml:2:35: topology[2] must be one of Ring, FullyConnected, Switch, not 'Swich' "
            "(did you mean 'Switch'?)",
        ),
        (
            ASTRA.replace("[ 4, 8, 2 ]", "[ 4, 8 ]"),
            "n.yml:3:13: npus_count must have 3 entries, one for each dim of topology, not 2",
        ),
        (
            ASTRA.replace("[ 4, 8, 2 ]", "[ 4, 0, 2 ]"),
            "n.yml:3:18: npus_count[1] must be a whole number of at least 1, not '0'",
        ),
        (
            ASTRA.replace("200.0", "-200.0"),
            "n.yml:4:14: bandwidth[0] must be a number above 0, not '-200.0'",
        ),
        (
            ASTRA.replace("200.0", "fast"),
            "n.yml:4:14: bandwidth[0] must be a number above 0, not 'fast'",
        ),
        (
            ASTRA.replace("500.0", "-1"),
            "n.yml:5:10: latency must be whole picoseconds, at least 0, not -1 ns",
        ),
        (
            ASTRA.replace("latency", "latencies"),
            "n.yml:5:1: unknown key 'latencies' (did you mean 'latency'?)",
        ),
        (
            "topology: [Ring]\nnpus_count: [2]\nbandwidth: [1]",
            "n.yml:1:1: the document must have the key 'latency'",
        ),
        (
            ASTRA + "topology: [Ring]\n",
            "n.yml:6:1: topology must stand once; it stands in line 2 too",
        ),
        ("dims: []", "n.yml:1:7: dims must have at least 1 element, not 0"),
        (
            OURS.replace("bandwidth_per_npu: 20 GB/s", "bandwidth: 20 GB/s"),
            "n.yml:2:27: unknown key 'dims[0].bandwidth' (did you mean 'bandwidth_per_npu'?)",
        ),
        (
            OURS.replace("20 GB/s", "20"),
            "n.yml:2:46: dims[0].bandwidth_per_npu: bandwidth must have a unit, such as "
            "'150 GB/s', not '20'",
        ),
        (
            OURS.replace("0.024 us", "-1 us"),
            "n.yml:6:14: dims[1].latency: time must not be negative, not '-1 us'",
        ),
        (
            OURS.replace("Fred", "Ring"),
            "n.yml:7:20: dims[1].middle_copies is for a Fred dim only",
        ),
        (
            OURS.replace("    size: 4\n", ""),
            "n.yml:3:5: dims[1] must have the key 'size'",
        ),
        (
            OURS.replace("size: 4, ", "size: [4], "),
            "n.yml:2:24: dims[0].size must be a whole number of at least 1, not a list",
        ),
    ],
)
def test_messages(text, message) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_sizes_that_do_not_multiply_to_the_ranks() -> None:
    check_ranks(parse(OURS), 16, path="e.yaml", line=3)
    with pytest.raises(InputError) as caught:
        check_ranks(parse(OURS), 8, path="e.yaml", line=3)
    assert str(caught.value) == (
        "e.yaml:3: the sizes of the network must multiply to the 8 ranks of the workload, "
        "not 4 x 4 = 16"
    )


def test_files(tmp_path) -> None:
    path = tmp_path / "n.yml"
    with pytest.raises(InputError, match=r"n\.yml: cannot be read: No such file or directory$"):
        read_network(path)
    path.write_text("")
    with pytest.raises(InputError, match=r"n\.yml: must not be empty$"):
        read_network(path)
    path.write_text("dims: [\n  {kind: Ring\n")
    with pytest.raises(InputError, match=r"n\.yml:3:1: must be YAML: "):
        read_network(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"n\.yml: must be text in UTF-8$"):
        read_network(path)
    path.write_text(OURS)
    assert read_network(path).npus == 16

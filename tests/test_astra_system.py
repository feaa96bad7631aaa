"""ASTRA-sim's system json and communicator groups: every key, and every way to be wrong."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from sw_model.astra.groups import read_groups
from sw_model.astra.system import (
    AlgorithmName,
    AllReduceShape,
    CollectivePolicy,
    DimOrder,
    OpOrder,
    SystemConfig,
    read_system,
)
from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from tests.chakra_traces import TRACES, needs_shared

EVERY_KEY = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 2,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring", "halvingDoubling"],
    "all-gather-implementation": ["direct", "oneDirect"],
    "reduce-scatter-implementation": ["oneRing", "direct8"],
    "all-to-all-implementation": ["doubleBinaryTree", "oneHalvingDoubling"],
    "all-reduce-implementation-custom": ["algorithms/ring"],
    "per-node-custom-implementation": {"7": "algorithms/seven"},
    "collective-optimization": "baseline",
    "local-mem-bw": 1600.5,
    "boost-mode": 1,
    "roofline-enabled": 1,
    "peak-perf": 900,
    "trace-enabled": 0,
    "replay-only": 1,
    "track-local-mem": 0,
    "local-mem-trace-filename": "m",
    "local-reduction-delay": 1,
    "model-shared-bus": 0,
    "L": 1,
    "o": 2,
    "g": 3,
    "G": 0.5,
    "intra-dimension-scheduling": "SCF",
    "inter-dimension-scheduling": "themis",
}


def read(contents: object) -> SystemConfig:
    return read_system("s.json", json.dumps(contents, indent=1))


def test_every_key():
    system = read(EVERY_KEY)
    assert system.policy is CollectivePolicy.LIFO
    assert (system.endpoint_delay, system.active_chunks, system.splits) == (10, 2, 4)
    assert system.algorithms == {
        Operation.ALL_REDUCE: (AlgorithmName.RING, AlgorithmName.HALVING_DOUBLING),
        Operation.ALL_GATHER: (AlgorithmName.DIRECT, AlgorithmName.ONE_DIRECT),
        Operation.REDUCE_SCATTER: (AlgorithmName.ONE_RING, AlgorithmName.DIRECT),
        Operation.ALL_TO_ALL: (
            AlgorithmName.DOUBLE_BINARY_TREE,
            AlgorithmName.ONE_HALVING_DOUBLING,
        ),
    }
    assert system.custom == {Operation.ALL_REDUCE: Path("algorithms/ring")}
    assert system.custom_of_node == {7: Path("algorithms/seven")}
    assert system.shape is AllReduceShape.FULL_PER_DIM
    assert system.local_memory_bandwidth == Fraction("1600.5")
    assert system.roofline
    assert system.replay_only
    assert system.peak_performance == 900
    assert system.op_order is OpOrder.SCF
    assert system.dim_order is DimOrder.THEMIS
    assert system.path == "s.json"


def test_keys_without_effect_are_named():
    nowhere = {
        "boost-mode", "trace-enabled", "track-local-mem", "local-mem-trace-filename",
        "local-reduction-delay", "model-shared-bus", "L", "o", "g", "G",
    }  # fmt: skip
    ours = {"endpoint-delay", "active-chunks-per-dimension", "collective-optimization"}
    theirs = {"inter-dimension-scheduling", "intra-dimension-scheduling"}
    every = read(EVERY_KEY)
    assert set(every.without_effect("antiphon")) == nowhere | ours
    assert set(every.without_effect("astra-sim")) == nowhere | theirs
    assert set(every.without_effect("astra-sim-aware")) == nowhere | theirs
    assert read({"endpoint-delay": 1}).without_effect("astra-sim") == ()


def test_the_three_baselines():
    system = read({"collective-optimization": "baseline", "inter-dimension-scheduling": "baseline"})
    assert system.shape is AllReduceShape.FULL_PER_DIM
    assert system.dim_order is DimOrder.ASCENDING


def test_nodes_with_an_algorithm_of_their_own_may_stand_in_a_file(tmp_path):
    (tmp_path / "nodes.yml").write_text("3: a\n5: b\n")
    path = tmp_path / "s.json"
    path.write_text('{"per-node-custom-implementation": "nodes.yml"}')
    assert read_system(path).custom_of_node == {3: Path("a"), 5: Path("b")}


def test_tabs_between_values():
    assert read_system("s.json", '{\n\t"endpoint-delay":\t7\n}').endpoint_delay == 7


@needs_shared
@pytest.mark.parametrize("path", sorted(TRACES.glob("**/*.json")), ids=lambda p: p.stem)
def test_real_files(path):
    if "scheduling-policy" in path.read_text():
        assert read_system(path).splits in (2, 4)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (
            {"endpoint-dealy": 10},
            "s.json:2:2: unknown key 'endpoint-dealy' (did you mean 'endpoint-delay'?)",
        ),
        (
            {"endpoint-delay": "ten"},
            "s.json:2:20: endpoint-delay must be a whole number of at least 0, not 'ten'",
        ),
        (
            {"endpoint-delay": "10"},
            "s.json:2:20: endpoint-delay must be a whole number of at least 0, not the text '10'",
        ),
        (
            {"local-mem-bw": "50"},
            "s.json:2:18: local-mem-bw must be a number above 0, not the text '50'",
        ),
        (
            {"endpoint-delay": 1.5},
            "s.json:2:20: endpoint-delay must be a whole number of at least 0, not '1.5'",
        ),
        (
            {"preferred-dataset-splits": 0},
            "s.json:2:30: preferred-dataset-splits must be a whole number of at least 1, not '0'",
        ),
        (
            {"active-chunks-per-dimension": []},
            "s.json:2:33: active-chunks-per-dimension must be a whole number of at least 1, "
            "not a list",
        ),
        (
            {"scheduling-policy": "lifo"},
            "s.json:2:23: scheduling-policy must be one of LIFO, FIFO, EXPLICIT, not 'lifo' "
            "(did you mean 'LIFO'?)",
        ),
        (
            {"all-reduce-implementation": "ring"},
            "s.json:2:31: all-reduce-implementation must be a list, not 'ring'",
        ),
        (
            {"local-mem-bw": 0},
            "s.json:2:18: local-mem-bw must be a number above 0, not '0'",
        ),
        (
            {"boost-mode": 2},
            "s.json:2:16: boost-mode must be one of 0, 1, false, true, not '2'",
        ),
        (
            {"all-gather-implementation-custom": ["a", "b"]},
            "s.json:2:38: all-gather-implementation-custom must name one trace, for the whole "
            "collective, not 2",
        ),
        (
            {"roofline-enabled": 1, "peak-perf": 9},
            "s.json:2:22: roofline-enabled needs peak-perf and local-mem-bw",
        ),
        ([1], "s.json:1:1: the document must be a mapping with keys, not a list"),
    ],
)  # fmt: skip
def test_wrong_systems(contents, message):
    with pytest.raises(InputError) as error:
        read(contents)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"endpoint-delay": 10', "s.json:1:22: must be JSON: Expecting ',' delimiter"),
        ('{\n "endpoint-delay": [}', "s.json:2:21: must be JSON: Expecting value"),
    ],
)
def test_a_broken_json_is_told_so(text, message):
    with pytest.raises(InputError) as error:
        read_system("s.json", text)
    assert str(error.value) == message


def test_an_unknown_algorithm_names_the_nearest():
    with pytest.raises(InputError, match=r"not 'rnig' \(did you mean 'ring'\?\)"):
        read({"all-reduce-implementation": ["rnig"]})


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"s.json: cannot be read: No such file or directory"):
        read_system(tmp_path / "s.json")


def test_one_algorithm_for_each_dim():
    system = read({"all-gather-implementation": ["ring"]})
    system.check_dims(1)
    with pytest.raises(InputError) as error:
        system.check_dims(3)
    assert str(error.value) == (
        "s.json: all-gather-implementation must have 3 entries, one for each dim of the network, "
        "not 1"
    )


def groups(tmp_path, text: str) -> dict[str, tuple[int, ...]]:
    path = tmp_path / "g.json"
    path.write_text(text)
    return read_groups(path, 8)


def test_groups(tmp_path):
    assert groups(tmp_path, '{"1": [0, 1], "two": [7, 3]}') == {"1": (0, 1), "two": (7, 3)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "g.json:1:1: communicator groups must be a mapping from names to lists of ranks, "
         "not a list"),
        ('{"1": 3}', "g.json:1:7: 1 must be a list, not '3'"),
        ('{"1": []}', "g.json:1:7: 1 must have at least 1 element, not 0"),
        ('{"1": [8]}', "g.json:1:7: the ranks of group '1' must be in 0..7, not 8"),
        ('{"1": ["x"]}', "g.json:1:8: 1[0] must be a whole number of at least 0, not 'x'"),
        ('{"1": ["1"]}',
         "g.json:1:8: 1[0] must be a whole number of at least 0, not the text '1'"),
        ('{"1": [1, 2', "g.json:1:12: must be JSON: Expecting ',' delimiter"),
        ('{"1": [2, 2]}', "g.json:1:7: group '1' must have every rank once; 2 stands twice"),
    ],
)  # fmt: skip
def test_wrong_groups(tmp_path, text, message):
    with pytest.raises(InputError) as error:
        groups(tmp_path, text)
    assert str(error.value) == f"{tmp_path}/{message}"


def test_missing_groups(tmp_path):
    with pytest.raises(InputError, match=r"g.json: cannot be read: No such file or directory"):
        read_groups(tmp_path / "g.json", 8)

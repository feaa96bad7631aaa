"""Traces of all ranks together: files, groups, messages."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sw_model.chakra.files import encode_trace
from sw_model.chakra.workload import is_chakra, load_workload, rank_files
from sw_model.errors import InputError
from sw_model.topology import Dim, DimKind, Topology
from tests.chakra_traces import all_reduce, compute, receive, send, trace, write


def network(*sizes: int) -> Topology:
    return Topology(tuple(Dim(DimKind.RING, size, Fraction(10**9), 1000) for size in sizes))


def wrong(folder, *ranks, groups=None) -> str:
    prefix = write(folder, *ranks)
    with pytest.raises(InputError) as error:
        load_workload(prefix, network(len(ranks)), groups)
    return str(error.value).replace(f"{folder}/", "")


def test_files_of_a_prefix(tmp_path):
    write(tmp_path, [compute(0, 1)], [compute(0, 1)])
    write(tmp_path, [compute(0, 1)], name="w.x")
    (tmp_path / "w.10.et.gz").write_bytes(encode_trace(trace([compute(0, 1)]), compress=True))
    (tmp_path / "w.a.et").write_bytes(b"")
    assert list(rank_files(tmp_path / "w")) == [0, 1, 10]
    assert is_chakra(tmp_path / "w")
    assert not is_chakra(tmp_path / "v")
    assert not is_chakra(tmp_path / "w.0.et")
    assert not is_chakra(tmp_path / "nowhere" / "w")


def test_equal_files_share_a_graph(tmp_path):
    prefix = write(tmp_path, [compute(0, 1)], [compute(0, 2)], [compute(0, 1)])
    workload = load_workload(prefix, network(3))
    assert workload.graphs[0] is workload.graphs[2]
    assert workload.graphs[0] is not workload.graphs[1]
    assert workload.nodes == 3


def test_a_missing_rank(tmp_path):
    prefix = write(tmp_path, [compute(0, 1)], [compute(0, 1)])
    (tmp_path / "w.0.et").unlink()
    with pytest.raises(InputError) as error:
        load_workload(prefix, network(2))
    assert str(error.value) == (
        f"{tmp_path}/w.0.et: is missing: the network has 2 NPUs, each of which needs its trace"
    )


def test_a_rank_too_many(tmp_path):
    prefix = write(tmp_path, *[[compute(0, 1)]] * 3)
    with pytest.raises(InputError) as error:
        load_workload(prefix, network(2))
    assert str(error.value) == (
        f"{tmp_path}/w.2.et: must be the trace of one of the network's 2 NPUs, 0..1, not of rank 2"
    )


def test_members_of_groups(tmp_path):
    nodes = [
        all_reduce(0, 8),
        all_reduce(1, 8, pg_name="0"),
        all_reduce(2, 8, pg_name="b"),
        all_reduce(3, 8, involved_dim=[True, False]),
        all_reduce(4, 8, involved_dim=[False, True, True]),
    ]
    prefix = write(tmp_path, *[nodes] * 6)
    workload = load_workload(prefix, network(2, 3), {"b": tuple(range(5, -1, -1))})

    def members(rank: int, position: int) -> tuple[int, ...]:
        return workload.members(rank, workload.node(rank, position))

    assert members(3, 0) == members(3, 1) == members(3, 2) == (0, 1, 2, 3, 4, 5)
    assert [members(rank, 3) for rank in (0, 3)] == [(0, 1), (2, 3)]
    assert [members(rank, 4) for rank in (0, 3)] == [(0, 2, 4), (1, 3, 5)]


def test_wrong_groups(tmp_path):
    nodes = [all_reduce(0, 8, pg_name="tp")]
    assert wrong(tmp_path, nodes, nodes) == (
        "w.0.et: node 0 'n0': its group must be defined, not 'tp' "
        "(no groups are given: see --comm-group)"
    )
    assert wrong(tmp_path, nodes, nodes, groups={"tp1": (0, 1)}) == (
        "w.0.et: node 0 'n0': its group must be defined, not 'tp' (did you mean 'tp1'?)"
    )
    assert wrong(tmp_path, nodes, nodes, groups={"tp": (0, 1, 7)}) == (
        "w.0.et: node 0 'n0': the ranks of group 'tp' must be in 0..1, not 7"
    )
    assert wrong(tmp_path, nodes, nodes, groups={"tp": (0,)}) == (
        "w.1.et: node 0 'n0': rank 1 must be in group 'tp', which has only the ranks 0"
    )


def test_dims_of_a_smaller_network(tmp_path):
    nodes = [all_reduce(0, 8, involved_dim=[True])]
    prefix = write(tmp_path, *[nodes] * 4)
    with pytest.raises(InputError) as error:
        load_workload(prefix, network(2, 2))
    assert str(error.value) == (
        f"{prefix}.0.et: node 0 'n0': involved_dim must have 2 entries, one for each dim of the "
        "network, not 1"
    )


def test_messages_match_by_source_destination_and_tag(tmp_path):
    prefix = write(
        tmp_path,
        [send(0, 1, 8, 1), send(1, 1, 16, 2), send(2, 1, 32, 1)],
        [receive(0, 0, 16, 2), receive(1, 0, 8, 1), receive(2, 0, 32, 1), receive(3, 0, 1, 9)],
    )
    workload = load_workload(prefix, network(2))
    ends = {(m.send, m.receive) for m in workload.matches.values()}
    assert ends == {(0, 1), (1, 0), (2, 2)}
    assert workload.unmatched == ()


def test_a_message_that_nobody_receives(tmp_path):
    workload = load_workload(write(tmp_path, [send(0, 1, 8)], [compute(0, 1)]), network(2))
    assert workload.unmatched == ((0, 0),)


def test_wrong_messages(tmp_path):
    assert wrong(tmp_path, [send(4, 1, 8, 3)], [receive(5, 0, 16, 3)]) == (
        "w.1.et: node 5 'n5': rank 1 must receive the 8 bytes that rank 0 sends with tag 3 "
        "(node 4 'n4', w.0.et), not 16"
    )
    assert wrong(tmp_path, [send(0, 2, 8)], [compute(0, 1)]) == (
        "w.0.et: node 0 'n0': comm_dst must be another rank in 0..1, not 2"
    )
    assert wrong(tmp_path, [compute(0, 1)], [receive(0, 1, 8)]) == (
        "w.1.et: node 0 'n0': comm_src must be another rank in 0..1, not 1"
    )
    assert wrong(tmp_path, [send(0, 1, 8, comm_src=1)], [compute(0, 1)]) == (
        "w.0.et: node 0 'n0': comm_src of a send must be its own rank 0, not 1"
    )
    assert wrong(tmp_path, [receive(0, 1, 8, comm_dst=1)], [compute(0, 1)]) == (
        "w.0.et: node 0 'n0': comm_dst of a receive must be its own rank 0, not 1"
    )

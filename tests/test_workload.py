"""Scaling, spans and splitting of dims."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from sw_model.errors import InputError
from sw_model.topology import Dim, DimKind, Topology
from sw_model.workload import astra_text
from sw_model.workload.layers import Span
from sw_model.workload.spans import span_dims, split_for_group


def topology(*sizes: int, kind: DimKind = DimKind.SWITCH) -> Topology:
    return Topology(tuple(Dim(kind, size, Fraction(10**9), 0) for size in sizes))


def transformer(group: int):
    header = f"HYBRID_TRANSFORMER model_parallel_NPU_group: {group}"
    return astra_text.parse(f"{header}\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 1", "w.txt")


def test_scaling_is_exact_in_time_and_whole_in_elements() -> None:
    work = astra_text.parse("DATA\n1\na -1 10 NONE 0 11 NONE 4 12 ALLREDUCE 100 3")
    (layer,) = work.scaled(Fraction(1, 64), "fp16").layers
    assert layer.forward_ns == Fraction(10, 64)
    assert layer.update_ns == Fraction(3, 64)
    # 50 elements / 64 is 0.78: the nearest is one.
    assert layer.weight_gradient.bytes == 2
    (layer,) = work.scaled(Fraction(1, 4), "fp16").layers
    assert layer.weight_gradient.bytes == 26  # 12.5 elements, a half goes up
    assert work.scaled(Fraction(1), "fp16") is work


def test_scaling_never_loses_a_collective() -> None:
    work = astra_text.parse("DATA\n1\na -1 10 NONE 0 11 NONE 0 12 ALLREDUCE 4 3")
    assert work.scaled(Fraction(1, 10**6), "fp32").layers[0].weight_gradient.bytes == 4
    empty = astra_text.parse("DATA\n1\na -1 10 NONE 0 11 NONE 0 12 ALLREDUCE 0 3")
    assert empty.scaled(Fraction(1, 2), "fp32").layers[0].weight_gradient.bytes == 0


def test_scale_must_be_positive() -> None:
    work = astra_text.parse("DATA\n1\na -1 10 NONE 0 11 NONE 0 12 ALLREDUCE 4 3")
    with pytest.raises(ValueError, match=r"^scale must be positive, not Fraction\(0, 1\)$"):
        work.scaled(Fraction(0), "fp16")


@pytest.mark.parametrize(
    ("span", "dims"),
    [
        (Span.NONE, ()),
        (Span.ALL, (0, 1, 2)),
        (Span.FIRST, (0,)),
        (Span.REST, (1, 2)),
        (Span.INNER, (0, 1)),
        (Span.OUTER, (2,)),
    ],
)
def test_span_dims(span, dims) -> None:
    assert span_dims(span, topology(2, 3, 4), 6) == dims


def test_group_of_one_and_of_all() -> None:
    assert span_dims(Span.INNER, topology(2, 3), 1) == ()
    assert span_dims(Span.OUTER, topology(2, 3), 1) == (0, 1)
    assert span_dims(Span.INNER, topology(2, 3), 6) == (0, 1)
    assert span_dims(Span.OUTER, topology(2, 3), 6) == ()


def test_group_that_ends_inside_a_dim() -> None:
    with pytest.raises(InputError, match=r"product of the inner sizes of the network \(4 x 4\)"):
        span_dims(Span.INNER, topology(4, 4), 2)
    split = split_for_group(topology(4, 8), transformer(8))
    assert [dim.size for dim in split.dims] == [4, 2, 4]
    assert span_dims(Span.INNER, split, 8) == (0, 1)


@pytest.mark.parametrize(("sizes", "group"), [((4, 8), 4), ((4, 8), 1), ((4, 8), 32), ((1, 4), 4)])
def test_nothing_to_split(sizes, group) -> None:
    assert split_for_group(topology(*sizes), transformer(group)) == topology(*sizes)


@pytest.mark.parametrize(
    ("network", "group", "message"),
    [
        (
            topology(4, 8),
            12,
            "w.txt:1: model_parallel_NPU_group must be a product of inner sizes of the network, "
            "or divide the size of the dim in which it ends: 12 leaves 3 for dim 2 of 8 NPUs",
        ),
        (
            topology(4, 8, kind=DimKind.RING),
            8,
            "w.txt:1: model_parallel_NPU_group 8 ends inside dim 2, and only a Switch or "
            "FullyConnected dim can be split, not a Ring",
        ),
        (
            topology(4, 8),
            64,
            "w.txt:1: model_parallel_NPU_group must be at most the 32 NPUs of the network, not 64",
        ),
    ],
)
def test_groups_that_do_not_fit(network, group, message) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        split_for_group(network, transformer(group))

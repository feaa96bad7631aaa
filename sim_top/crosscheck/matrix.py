"""What is cross-checked: platforms, schedules, and the collectives on each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, log, prod

from sim_top.crosscheck.tree import tree_collectives, tree_platform, tree_shards
from sw_model.collective.plan import ELEMENT_BYTES, Collective, Operation
from sw_model.platform import (
    DATA_TYPES,
    OPERATORS,
    TRAFFIC_CLASSES,
    EngineParameters,
    MemoryParameters,
    Partition,
    Platform,
)
from sw_model.schedule.options import ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology

__all__ = ["ONE_CHUNK", "Case", "Setting", "matrix"]

ONE_CHUNK = "one chunk"
"""Ends the names of settings in which a collective is one chunk, and its cycles are exact wherever
no bank of SRAM refuses a request."""

_GB_PER_S = 10**9
_WORDS = 1 << 21
"""Flits of each memory inside the simulation: 32 MiB, for sources and results of 4 MiB."""


@dataclass(frozen=True)
class Setting:
    """A platform and how the cases on it run; one simulation.

    Parameters
    ----------
    name : for reports
    platform : what is built
    schedule : how collectives are planned
    stalls : of 256 cycles, how many the memories refuse at random. The TLM does not know when, so
        cycles are not compared then
    """

    name: str
    platform: Platform
    schedule: ScheduleOptions
    stalls: int = 0


@dataclass(frozen=True)
class Case:
    """The collectives of one setting, one after another."""

    setting: Setting
    collectives: tuple[Collective, ...]


def _platform(*dims: tuple[DimKind, int, int, int], banks: int = 32) -> Platform:
    """Dims as (kind, size, GB/s, ns), with a partition for every position of an all-reduce. The
    first of the matrix is that of ``examples/resnet50.yaml``, so that one build serves both."""
    topology = Topology(
        tuple(Dim(k, p, Fraction(bw * _GB_PER_S), ns * 1000) for k, p, bw, ns in dims)
    )
    smallest = min(p for _, p, _, _ in dims)
    middle = Partition(8, 256 // min(smallest, 4))
    positions = 2 * len(dims)
    engine = EngineParameters(
        partitions=(Partition(8, 256), *([middle] * max(0, positions - 2)), Partition(8, 256)),
        sram_banks=banks,
    )
    memory = MemoryParameters(words=1 << 18)
    return Platform.from_topology(topology, engine=engine, memory=memory)


_OPERATIONS = (Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER)


def _collective(
    platform: Platform,
    operation: Operation,
    elements: int,
    data_type: str,
    dims: tuple[int, ...],
    operator: str = "sum",
    *,
    odd: bool = False,
) -> Collective:
    """One of about ``elements``: the block of a rank is whole flits, unless it is to be ``odd``."""
    if operation is not Operation.ALL_REDUCE:
        group = prod(platform.topology.dims[dim].size for dim in dims)
        flit = 1 if odd else platform.engine.flit_bytes // ELEMENT_BYTES[data_type]
        block = max(1, elements // group // flit) * flit
        elements = block if operation is Operation.ALL_GATHER else block * group
    done = "" if operator == "sum" else f" {operator}"
    on = "".join(f" dim {dim + 1}" for dim in dims)
    part = f" on{on}" if len(dims) < len(platform.topology.dims) else ""
    return Collective(
        operation=operation,
        elements=elements,
        data_type=data_type,
        operator=operator,
        dims=dims,
        name=f"{operation.value} {data_type}{done} x {elements}{part}",
    )


def _corners(platform: Platform, seed: int, count: int) -> tuple[Collective, ...]:
    """All three operations on one element, odd sizes and whole chunks; both data types; blocks that
    end within a flit where about 1,000 elements are asked for."""
    generator = random.Random(seed)
    dims = tuple(range(len(platform.topology.dims)))
    group = prod(dim.size for dim in platform.topology.dims)
    sizes = [1, group * 8, 1000, 4096, generator.randrange(1, 20_000), 24_576]
    return tuple(
        _collective(
            platform,
            _OPERATIONS[number % 3],
            sizes[number // 3 % len(sizes)],
            ("fp16", "int32")[number // 3 % 2],
            dims,
            odd=number // 3 % len(sizes) == 2,
        )
        for number in range(count)
    )


def _exchanges(platform: Platform, seed: int) -> tuple[Collective, ...]:
    """All-to-alls of one element a pair and of two odd sizes, both data types; a send."""
    generator = random.Random(seed)
    dims = tuple(range(len(platform.topology.dims)))
    sizes = (1, generator.randrange(100, 2_000), generator.randrange(2_000, 40_000))
    out = [
        replace(
            _collective(platform, Operation.ALL_TO_ALL, size, data_type, dims, odd=True),
            traffic_class=name,  # which all share one channel here
        )
        for size, data_type, name in zip(
            sizes, ("fp16", "int32", "fp16"), ("mp", "pp", "dp"), strict=True
        )
    ]
    root, target = generator.sample(range(platform.topology.npus), 2)
    elements = generator.randrange(1, 8_000)
    name = f"send fp16 x {elements} from {root} to {target}"
    out.append(Collective(Operation.SEND, elements, dims=dims, name=name, root=root, target=target))
    return tuple(out)


def _arithmetic(platform: Platform, seed: int) -> tuple[Collective, ...]:
    """An all-reduce and a reduce-scatter of odd sizes for every data type and operator."""
    generator = random.Random(seed)
    dims = tuple(range(len(platform.topology.dims)))
    return tuple(
        _collective(
            platform, operation, generator.randrange(1, 4_000), data_type, dims, operator, odd=True
        )
        for data_type in platform.engine.data_types
        for operator in platform.engine.operators
        for operation in (Operation.ALL_REDUCE, Operation.REDUCE_SCATTER)
    )


def _drawn(platform: Platform, seed: int, count: int) -> tuple[Collective, ...]:
    """Operations, sizes (1 to 60,000 elements, log-uniform), data types and dims at random; all
    dims and any subset of them in turn; every fourth has blocks that end within a flit."""
    generator = random.Random(seed)
    every = tuple(range(len(platform.topology.dims)))
    out = []
    for number in range(count):
        some = tuple(sorted(generator.sample(every, generator.randint(1, len(every)))))
        out.append(
            _collective(
                platform,
                generator.choice(_OPERATIONS),
                round(exp(generator.uniform(0, log(60_000)))),
                generator.choice(("fp16", "int32")),
                some if number % 2 else every,
                odd=number % 4 == 3,
            )
        )
    return tuple(out)


def _large(platform: Platform) -> tuple[Collective, ...]:
    """An all-reduce of 1 MiB; one, a reduce-scatter and an all-gather of 4 MiB."""
    dims = tuple(range(len(platform.topology.dims)))
    return tuple(
        _collective(platform, operation, size, data_type, dims)
        for operation, size, data_type in (
            (Operation.ALL_REDUCE, 1 << 19, "fp16"),
            (Operation.ALL_REDUCE, 1 << 20, "int32"),
            (Operation.REDUCE_SCATTER, 1 << 21, "fp16"),
            (Operation.ALL_GATHER, 1 << 20, "int32"),
        )
    )


_BANKS_64 = "fully connected 3 at rate 3/4, 64 banks"
"""Memory moves a flit in every cycle beside the streams of four slower ports. It passes each of
them once in so many flits as there are banks, and then loses a cycle or two; with 32 banks that is
4 % of all cycles (docs/tlm.md)."""
_RING, _FRED, _FULL_MESH = DimKind.RING, DimKind.FRED, DimKind.FULLY_CONNECTED
_MAIN = ("ring 4 x fred 4", ((_RING, 4, 20, 16), (_FRED, 4, 15, 24)))
_OTHERS = (
    ("ring 4", ((_RING, 4, 20, 16),)),
    ("ring 4 at rate 3/4", ((_RING, 4, 15, 16),)),
    ("fred 4", ((_FRED, 4, 20, 24),)),
    ("fred 4 x ring 2", ((_FRED, 4, 20, 24), (_RING, 2, 10, 100))),
    ("ring 3 x fred 5", ((_RING, 3, 12, 50), (_FRED, 5, 20, 16))),
    ("fred 3 x fred 2", ((_FRED, 3, 20, 16), (_FRED, 2, 5, 16))),
    ("ring 2 x ring 2 x fred 2", ((_RING, 2, 20, 8), (_RING, 2, 15, 16), (_FRED, 2, 10, 24))),
    ("ring 4 x ring 2 x ring 2", ((_RING, 4, 20, 16), (_RING, 2, 10, 80), (_RING, 2, 10, 80))),
    ("ring 4 x fred 4, far", ((_RING, 4, 20, 200), (_FRED, 4, 15, 400))),
    ("fred 12", ((_FRED, 12, 20, 24),)),
    ("fully connected 4", ((_FULL_MESH, 4, 60, 16),)),
    (_BANKS_64, ((_FULL_MESH, 3, 30, 16),)),
    ("ring 2 x fully connected 3", ((_RING, 2, 20, 16), (_FULL_MESH, 3, 40, 24))),
)
_LARGE = ("ring 4", "fred 4", "ring 4 x fred 4")
_ARITHMETIC = (
    ("ring 2 x fred 3", ((_RING, 2, 20, 16), (_FRED, 3, 20, 24))),
    ("fully connected 3", ((_FULL_MESH, 3, 40, 16),)),
)
_SCHEDULES = {
    "baseline": ScheduleOptions("baseline", "fifo", 8),
    "themis fifo": ScheduleOptions("themis", "fifo", 4),
    "themis scf": ScheduleOptions("themis", "scf", 16),
    "balanced": ScheduleOptions("balanced", "scf", 8),
    ONE_CHUNK: ScheduleOptions("baseline", "fifo", 1),
}
_STALLED = (("themis scf", 64), ("balanced", 128))
"""Schedules that run under random stalls too, and of 256 cycles those in which memories refuse."""


def matrix(name: str) -> Iterator[Case]:
    """The cases of ``quick`` or ``full``; the first is a part of the second.

    Raises
    ------
    ValueError
        for another name.
    """
    if name not in ("quick", "full"):
        raise ValueError(f"the matrix must be 'quick' or 'full', not {name!r}")
    full = name == "full"
    for place, (label, dims) in enumerate((_MAIN, *_OTHERS) if full else (_MAIN,)):
        platform = _platform(*dims, banks=64 if label == _BANKS_64 else 32)
        seed = 100 * place
        for number, (schedule_name, schedule) in enumerate(_SCHEDULES.items()):
            setting = Setting(f"{label}, {schedule_name}", platform, schedule)
            collectives = _corners(platform, seed + number, 12)
            if full:
                collectives += _drawn(platform, seed + number, 8)
            if full or schedule_name in ("baseline", ONE_CHUNK):
                collectives += _exchanges(platform, seed + number)
            yield Case(setting, collectives)
        for number, (schedule_name, stalls) in enumerate(_STALLED if full else _STALLED[:1]):
            title = f"{label}, {schedule_name}, memory stalls"
            stalled = Setting(title, platform, _SCHEDULES[schedule_name], stalls)
            collectives = _corners(platform, seed + 99 - number, 9)
            collectives += _exchanges(platform, seed + 99 - number)
            if full:
                collectives += _drawn(platform, seed + 99 - number, 8)
            yield Case(stalled, collectives)
        if full and label in _LARGE:
            large = replace(platform, memory=replace(platform.memory, words=_WORDS))
            scf = _SCHEDULES["themis scf"]
            yield Case(Setting(f"{label}, themis scf, large", large, scf), _large(large))
    for label, dims in _ARITHMETIC if full else _ARITHMETIC[:1]:
        platform = _platform(*dims)
        engine = replace(platform.engine, data_types=DATA_TYPES, operators=OPERATORS)
        platform = replace(platform, engine=engine)
        title = f"{label}, all arithmetic, {ONE_CHUNK}"
        setting = Setting(title, platform, _SCHEDULES[ONE_CHUNK])
        yield Case(setting, _arithmetic(platform, 1))
    if full:
        yield from _trees()


def _trees() -> Iterator[Case]:
    """A tree of switches, with one channel for all and with one for each class."""
    baseline = _SCHEDULES["baseline"]
    for label, classes in (("a tree of fred", ()), ("a tree of fred, classes", TRAFFIC_CLASSES)):
        platform = tree_platform(classes)
        for schedule_name in ("baseline", ONE_CHUNK):
            setting = Setting(f"{label}, {schedule_name}", platform, _SCHEDULES[schedule_name])
            yield Case(setting, tree_collectives())
        yield Case(Setting(f"{label}, shards", platform, baseline), tree_shards())
        stalled = Setting(f"{label}, memory stalls", platform, baseline, stalls=64)
        yield Case(stalled, tree_collectives())

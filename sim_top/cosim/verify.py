"""What the RTL did, against the plan's replay in NumPy and against the TLM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sim_top.cosim.memory_map import payload
from sim_top.cosim.outcome import Issued, Outcome
from sw_model.collective.plan import Collective, CollectivePlan
from sw_model.collective.replay import replay
from sw_model.collective.replay_groups import replay_groups
from sw_model.endpoint.counters import RankCounters, difference
from sw_model.fabric.backend import TlmBackend
from sw_model.fred.tree.table import TreeTable
from sw_model.platform import Platform
from sw_model.results import CrosscheckCase

__all__ = [
    "beside_others",
    "compare",
    "counter_differences",
    "expected_results",
    "first_difference",
    "moving_from",
]


def expected_results(
    plan: CollectivePlan, *, seed: int, number: int, flows: TreeTable | None = None
) -> list[NDArray[np.generic]]:
    """What must stand in the result region of every rank; ``flows`` : on a tree of FRED switches,
    their configurations."""
    ranks = range(plan.topology.npus)
    sources = [payload(plan.collective, seed=seed, number=number, rank=r) for r in ranks]
    return replay(plan, sources) if flows is None else replay_groups(plan, sources, flows)


def first_difference(
    issued: Issued,
    results: Sequence[NDArray[np.uint8]],
    *,
    seed: int,
    number: int,
    flows: TreeTable | None = None,
) -> str | None:
    """Where the memory of a rank first differs from what it must hold; None if nowhere.

    Bits are compared, not values, up to the end of the payload: what lies behind it in the last
    flit of the region must not have been written, and is zero.
    """
    expected = expected_results(issued.plan, seed=seed, number=number, flows=flows)
    for rank, (right, bits) in enumerate(zip(expected, results, strict=True)):
        wanted = np.zeros(bits.size, dtype=np.uint8)
        wanted[: right.nbytes] = right.view(np.uint8)
        if np.array_equal(wanted, bits):
            continue
        byte = int(np.flatnonzero(wanted != bits)[0])
        size = right.itemsize
        element = byte // size
        got = bits[element * size : (element + 1) * size].tobytes()[::-1].hex()
        want = wanted[element * size : (element + 1) * size].tobytes()[::-1].hex()
        return (
            f"rank {rank}, element {element} of {right.size}: 0x{got} in memory, "
            f"0x{want} by the plan"
        )
    return None


def beside_others(ran: Sequence[tuple[int, Mapping[int, int], Mapping[int, int]]]) -> list[bool]:
    """Of every collective, whether one of another lane ran at the same time on some rank.

    Parameters
    ----------
    ran : the lane of each, and the cycles from which it moved at the ranks (:func:`moving_from`),
        and in which they left it
    """
    ranks = sorted(ran[0][1]) if ran else []
    begin = np.array([[issued[rank] for rank in ranks] for _, issued, _ in ran])
    end = np.array([[ended[rank] for rank in ranks] for _, _, ended in ran])
    lanes = np.array([lane for lane, _, _ in ran])
    return [
        bool(np.any((begin < last) & (end > first), axis=1)[lanes != lane].any())
        for lane, first, last in zip(lanes, begin, end, strict=True)
    ]


def moving_from(
    collective: Collective, issued: Mapping[int, int], ended: Mapping[int, int]
) -> dict[int, int]:
    """By rank, the cycle from which flits of a collective may be on its link: where it enters; of
    what is sent, where the sender does; where it leaves, if it has no part."""
    begin = dict(issued)
    if not collective.groups:
        return begin
    for rank in begin.keys() - {rank for group in collective.groups for rank in group}:
        begin[rank] = ended[rank]
    if collective.target is not None:
        for group in collective.groups:
            sender, receiver = group[collective.root], group[collective.target]
            begin[receiver] = max(begin[sender], begin[receiver])
    return begin


def _packet_cycles(platform: Platform) -> int:
    """Cycles of a full packet on the slowest link."""
    flits = platform.engine.packet_bytes // platform.engine.flit_bytes + 1
    return ceil(flits / min(link.rate for link in platform.links))


def compare(
    label: str, outcome: Outcome, backend: TlmBackend, *, seed: int
) -> list[CrosscheckCase]:
    """One case for each collective, and one for the whole run.

    Both executors ran the same sequence of collectives, and simulated all ranks. Where collectives
    ran one by one, each is judged on its own counters; where they overlapped, the counters of the
    whole run judge all of them.

    Parameters
    ----------
    label : of the run
    outcome : of the RTL
    backend : of the TLM, after its run
    seed : of the payloads
    """
    whole = counter_differences(outcome.counters, backend.counters())
    lane_of, packet = backend.platform.engine.lane_of, _packet_cycles(backend.platform)
    beside = beside_others(
        [
            (
                lane_of(i.plan.collective.traffic_class),
                moving_from(i.plan.collective, i.issued, i.ended),
                i.ended,
            )
            for i in outcome.issued
        ]
    )
    cases = []
    for number, (issued, results) in enumerate(zip(outcome.issued, outcome.results, strict=True)):
        entry = backend.entries[number]
        if entry.plan != issued.plan:
            raise ValueError(f"collective {number} must have one plan on both")
        wrong = first_difference(
            issued, results, seed=seed, number=number, flows=backend.book.flows
        )
        differences: list[str] = []
        collisions = None
        if outcome.single_counters:
            before = outcome.single_counters[number - 1] if number else None
            mine = difference(outcome.single_counters[number], before)
            theirs = [entry.counters[rank] for rank in range(len(mine))]
            differences = counter_differences(mine, theirs)
            now = outcome.single_collisions[number]
            earlier = outcome.single_collisions[number - 1] if number else [0] * len(now)
            collisions = max(b - a for a, b in zip(earlier, now, strict=True))
        cases.append(
            CrosscheckCase(
                name=f"{label}: {number} {issued.plan.collective.name}",
                data_ok=wrong is None,
                counters_ok=not (differences if outcome.single_counters else whole),
                rtl_cycles=issued.cycles,
                tlm_cycles=max(entry.ended.values()) - max(entry.issued.values()),
                notes=(*([wrong] if wrong else []), *differences[:4]),
                bank_collisions=collisions,
                packet_cycles=packet if beside[number] else 0,
                one_chunk=len(issued.plan.chunks) == 1,
            )
        )
    if not outcome.single_counters:
        cases.append(
            CrosscheckCase(
                name=f"{label}: whole run",
                data_ok=all(case.data_ok for case in cases),
                counters_ok=not whole,
                rtl_cycles=max((max(i.ended.values()) for i in outcome.issued), default=0),
                tlm_cycles=max((max(e.ended.values()) for e in backend.entries), default=0),
                notes=tuple(whole[:8]),
            )
        )
    return cases


def counter_differences(rtl: Sequence[RankCounters], tlm: Sequence[RankCounters]) -> list[str]:
    """Every traffic counter that is not the same on both, in words."""
    out = []
    for rank, (ours, theirs) in enumerate(zip(rtl, tlm, strict=True)):
        for lane, (a_dims, b_dims) in enumerate(zip(ours.by_class, theirs.by_class, strict=False)):
            for dim, (a_dim, b_dim) in enumerate(zip(a_dims, b_dims, strict=True), start=1):
                if a_dim != b_dim:
                    out.append(
                        f"rank {rank}, dim {dim}, class number {lane}: {a_dim} on the RTL and "
                        f"{b_dim} on the TLM"
                    )
        for name in ("memory_read_bytes", "memory_written_bytes", "descriptor_bytes"):
            a, b = getattr(ours, name), getattr(theirs, name)
            if a != b:
                out.append(f"rank {rank}: {name} is {a:,} on the RTL and {b:,} on the TLM")
        for dim, (a_dim, b_dim) in enumerate(zip(ours.dims, theirs.dims, strict=True), start=1):
            for name in ("flits_sent", "flits_received", "headers_sent", "reductions"):
                a, b = getattr(a_dim, name), getattr(b_dim, name)
                if a != b:
                    out.append(
                        f"rank {rank}, dim {dim}: {name} is {a:,} on the RTL and {b:,} on the TLM"
                    )
    return out

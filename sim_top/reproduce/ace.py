"""The figures of ACE (ISCA 2021): memory traffic, memory bandwidth, SRAM and state machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import prod
from pathlib import Path
from statistics import mean

from sim_top.reproduce import ace_rules, ace_training
from sim_top.reproduce.ace_platform import TORI, sent_per_payload, torus
from sim_top.reproduce.registry import Row, Table
from sw_model.collective.cost import algorithms_of
from sw_model.collective.memory_traffic import baseline_phase, steady_reads
from sw_model.collective.plan import Algorithm, Collective, Operation
from sw_model.endpoint.design_space import (
    Design,
    TorusPlatform,
    knee,
    machines_needed,
    simulate,
    study,
)
from sw_model.endpoint.kinds import KINDS
from sw_model.schedule.endpoints import evaluate_endpoint
from sw_model.schedule.phases import Turn
from sw_model.schedule.single import Instance

__all__ = ["draw", "network_rate", "rows", "tables"]

_GB = 10**9
_MIB = 2**20
_PAYLOAD = 16 * _MIB
_CHUNKS = _PAYLOAD // (64 * 2**10)
_DERIVED = "derived from the paper's platform"
#: Sent and read bytes per payload byte and the engine's gain, by torus.
_TRAFFIC = {
    (4, 2, 2): (2.0, 3.0, 3.0),
    (4, 4, 2): (2.125, 3.1875, 3.19),
    (4, 4, 4): (2.25, 3.375, 3.38),
    (4, 8, 4): (2.3125, 3.4688, 3.47),
}
#: GB/s that the baselines may read: 128 or 450 beside computing, or all of it after that.
_BASELINE_MEMORY = (128, 450, 900)
_MIDDLE = (4, 4, 4)
_SRAM = tuple(n * _MIB // 4 for n in (1, 2, 3, 4, 6, 8, 16))
_MACHINES = (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32)
#: Of the network rate with all of the memory, what counts as reached.
_REACHED = Fraction(95, 100)


@lru_cache(maxsize=1024)
def network_rate(sizes: tuple[int, int, int], engine: bool, memory: int) -> float:
    """GB/s that an NPU sends in an all-reduce of 16 MiB.

    Parameters
    ----------
    sizes : of the torus
    engine : ACE, else the baseline
    memory : GB/s that it may read, and write
    """
    network = torus(sizes)
    collective = Collective(Operation.ALL_REDUCE, _PAYLOAD // 2, dims=(0, 1, 2))
    instance = Instance(
        collective,
        network,
        algorithms_of(network.dims, Operation.ALL_REDUCE, None),
        turn=Turn.SPLIT,
    )
    kind = KINDS["ace" if engine else "baseline-comm-opt"]
    kind = replace(kind, memory_bandwidth=Fraction(memory * _GB))
    outcome, _ = evaluate_endpoint(instance, kind, chunks=_CHUNKS)
    return float(sent_per_payload(sizes) * _PAYLOAD / outcome.time) / _GB


def _needed(sizes: tuple[int, int, int], engine: bool) -> int:
    """GB/s of memory with which the network reaches nearly what it can."""
    goal = float(_REACHED) * network_rate(sizes, engine, 900)
    low, high = 0, 900
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if network_rate(sizes, engine, middle) >= goal else (middle, high)
    return high


@lru_cache(maxsize=1)
def _designs() -> tuple[Design, ...]:
    return study(TorusPlatform(torus=_MIDDLE), _SRAM, _MACHINES)


def rows(progress: Callable[[float], object]) -> list[Row]:
    """All figures."""
    out = _traffic()
    out += ace_rules.rows()
    out += _bandwidth()
    progress(0.2)
    out += _contexts()
    progress(0.3)
    out += ace_training.rows(lambda share: progress(0.3 + 0.7 * share))
    return out


def tables() -> list[Table]:
    """The iterations of all workloads, tori and endpoints, and the engines that were tried."""
    designs = Table(
        title=f"Engines on {' x '.join(map(str, _MIDDLE))}: share of the busiest ring's rate, %",
        columns=("SRAM, MiB", *(f"{count} state machines" for count in _MACHINES)),
        rows=tuple(
            (
                size / _MIB,
                *(
                    round(100 * design.utilisation, 1)
                    for design in _designs()
                    if design.sram_bytes == size
                ),
            )
            for size in _SRAM
        ),
    )
    return [designs, ace_training.table(), ace_rules.table()]


def _traffic() -> list[Row]:
    out = []
    for sizes, (sent, reads, ratio) in _TRAFFIC.items():
        name = " x ".join(map(str, sizes))
        ours = sent_per_payload(sizes)
        baseline = steady_reads(ours)
        unit = "bytes per payload byte"
        out += [
            Row(f"sent, {name}", float(ours), sent, _DERIVED, 0.00005, unit),
            Row(f"read by the baseline, {name}", float(baseline), reads, _DERIVED, 0.00005, unit),
            Row(f"baseline's reads over ACE's, {name}", float(baseline), ratio, _DERIVED, 0.0051),
        ]
        assert prod(sizes) in (16, 32, 64, 128)
    return out


def _bandwidth() -> list[Row]:
    name = " x ".join(map(str, _MIDDLE))
    platform = TorusPlatform(torus=_MIDDLE)
    sent = sent_per_payload(_MIDDLE)
    payload = platform.payload_rate / _GB
    network = payload * sent
    reads = steady_reads(sent) * payload
    baseline, engine = _needed(_MIDDLE, engine=False), _needed(_MIDDLE, engine=True)
    without, with_engine = (network_rate(_MIDDLE, engine, 128) for engine in (False, True))
    exact = _exact_reads(_MIDDLE)
    return [
        Row(f"ideal network rate, {name}", float(network), 300, _DERIVED, 0.001, "GB/s"),
        Row(
            f"memory reads that the baseline needs for it, {name}",
            float(reads),
            450,
            "printed budget",
            0.001,
            "GB/s",
        ),
        Row(
            f"memory reads that ACE needs for it, {name}",
            float(payload),
            128,
            "printed budget, for links of 94 % efficiency",
            8,
            "GB/s",
        ),
        Row(
            f"memory bandwidth, baseline over ACE, by these rules, {name}",
            float(reads / payload),
            3.5,
            "printed, abstract",
            0.2,
            "x",
        ),
        Row(
            f"memory bandwidth for 95 % of the rate, baseline over ACE, simulated, {name}",
            baseline / engine,
            3.5,
            "printed, abstract",
            0.2,
            "x",
        ),
        Row(
            f"network rate with 128 GB/s of memory, ACE over the baseline, simulated, {name}",
            with_engine / without,
            2.67,
            "printed, abstract: the largest",
            0.15,
            "x",
            reason=(
                f"cores that read {float(exact):.3g} bytes for a payload byte get no more than "
                f"{float(128 * sent / exact):.3g} GB/s out of 128, here {without:.3g}, and the "
                f"engine {with_engine:.3g} of the {float(network) * 0.94:.3g} that the links give; "
                "of what the printed figure is the largest could not be read"
            ),
        ),
        Row(
            "network rate, ACE over the baselines, mean of three on each of the tori, simulated",
            mean(
                network_rate(sizes, True, 128) / network_rate(sizes, False, memory)
                for sizes in TORI
                for memory in _BASELINE_MEMORY
            ),
            1.44,
            "printed, abstract: the average; of what could not be read: all-reduces of 16 MiB here",
            0.15 * 1.44,
            "x",
        ),
    ]


def _exact_reads(sizes: tuple[int, int, int]) -> Fraction:
    """Bytes that the baseline reads for a payload byte, by exact count: ring by ring, out and
    back."""
    reads, left = Fraction(0), Fraction(1)
    for size in sizes:
        for operation in (Operation.REDUCE_SCATTER, Operation.ALL_GATHER):
            reads += baseline_phase(operation, Algorithm.RING, size, left).reads
        left /= size
    return reads


def _contexts() -> list[Row]:
    out = []
    for sizes, needed in (((4, 4, 4), 15.7), ((4, 8, 4), 19.3)):
        out.append(
            Row(
                f"state machines at work, {' x '.join(map(str, sizes))}",
                float(machines_needed(TorusPlatform(torus=sizes))),
                needed,
                "derived: Little's law",
                0.05,
            )
        )
    best = max(design.utilisation for design in _designs())
    chosen = simulate(TorusPlatform(torus=_MIDDLE), sram_bytes=4 * _MIB, machines=16)
    out.append(
        Row(
            "network rate with 4 MiB and 16 state machines, over the best of any engine",
            100 * chosen.utilisation / best,
            95,
            "the paper's choice is at the knee; 95 % decided here",
            0,
            "%",
            at_least=True,
        )
    )
    found = knee(_designs())
    out.append(
        Row(
            "state machines at the knee",
            found.machines,
            16,
            "recalled: the paper's choice",
            4,
        )
    )
    return out


def draw(path: Path) -> None:
    """Network rate over memory bandwidth; rate over SRAM and state machines; training."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.5))
    memory = (32, 64, 96, 128, 160, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800, 900)
    for engine, label in ((False, "baseline"), (True, "ACE")):
        left.plot(
            memory, [network_rate(_MIDDLE, engine, m) for m in memory], marker=".", label=label
        )
    for budget in (128, 450):
        left.axvline(budget, linestyle=":", linewidth=0.8, color="#888888")
    left.set_xlabel("memory bandwidth for communication, GB/s (dotted: the paper's)")
    left.set_ylabel("sent by an NPU, GB/s")
    left.set_title("all-reduce of 16 MiB on 4 x 4 x 4", fontsize=10)
    left.legend()
    by_sram: dict[int, list[Design]] = {}
    for design in _designs():
        by_sram.setdefault(design.sram_bytes, []).append(design)
    for size, designs in by_sram.items():
        middle.plot(
            [d.machines for d in designs],
            [100 * d.utilisation for d in designs],
            marker=".",
            label=f"{size / _MIB:g} MiB",
        )
    middle.set_xlabel("state machines")
    middle.set_ylabel("of the busiest ring's rate, %")
    middle.set_title("engines on 4 x 4 x 4", fontsize=10)
    middle.legend(title="SRAM", fontsize=8)
    ace_training.draw(right)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)

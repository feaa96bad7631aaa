"""One collective phase by phase: what each dim carries, how long that takes, and why another
algorithm would be slower or faster there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sw_model.collective.cost import ALGORITHMS, PhaseCost, algorithm_of, phase_cost
from sw_model.collective.plan import Algorithm, AnyAlgorithm, Collective, Operation, Phase
from sw_model.errors import InputError
from sw_model.schedule.baseline import baseline_phases
from sw_model.schedule.outcome import order_name
from sw_model.schedule.phases import Turn
from sw_model.topology import Dim, DimKind, Topology
from sw_model.units import format_size

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Explanation", "PhaseLine", "explain", "explanation_json", "explanation_tables"]


@dataclass(frozen=True)
class PhaseLine:
    """A phase of the whole payload in one piece.

    Attributes
    ----------
    phase : operation, dim and algorithm
    payload : bytes on an NPU before it; after it for an all-gather
    cost : of the NPU that has most
    transfer : seconds that it holds the dim
    latency : seconds in which data waits for the steps, one after another
    """

    phase: Phase
    payload: Fraction
    cost: PhaseCost
    transfer: Fraction
    latency: Fraction

    @property
    def time(self) -> Fraction:
        """Both, in seconds."""
        return self.transfer + self.latency


@dataclass(frozen=True)
class Explanation:
    """A collective in one piece, through the dims in the order of the baseline.

    Attributes
    ----------
    name : of the collective
    collective, topology : what and where
    lines : its phases
    """

    name: str
    collective: Collective
    topology: Topology
    lines: tuple[PhaseLine, ...]


def explain(
    name: str,
    collective: Collective,
    topology: Topology,
    *,
    turn: Turn,
    algorithms: Sequence[Algorithm] | None = None,
) -> Explanation:
    """Explain ``collective``.

    Parameters
    ----------
    turn : whether the turning point of an all-reduce is one phase
    algorithms : by dim; those of the platform's engines by default
    """
    phases = baseline_phases(
        collective.operation, topology, collective.dims, turn, algorithms=algorithms
    )
    return Explanation(name, collective, topology, _lines(collective, topology, phases))


def _line(phase: Phase, dim: Dim, payload: Fraction) -> PhaseLine:
    cost = phase_cost(dim, phase.operation, phase.algorithm, payload)
    return PhaseLine(
        phase,
        payload,
        cost,
        cost.port / dim.bandwidth,
        Fraction(cost.steps * dim.latency_ps, 10**12),
    )


def _lines(
    collective: Collective, topology: Topology, phases: Sequence[Phase]
) -> tuple[PhaseLine, ...]:
    """What each of ``phases`` costs where the collective goes through them in one piece."""
    payload = Fraction(collective.elements * collective.element_bytes)
    lines = []
    for phase in phases:
        dim = topology.dims[phase.dim]
        if phase.operation is Operation.ALL_GATHER:
            payload *= dim.size
        lines.append(_line(phase, dim, payload))
        if phase.operation is Operation.REDUCE_SCATTER:
            payload /= dim.size
    return tuple(lines)


def _reasons(lines: Sequence[PhaseLine], topology: Topology) -> list[str]:
    """For each dim, at the first phase on it, why the fastest algorithm that it could run beats
    each of the others."""
    out = []
    first: dict[int, PhaseLine] = {}
    for line in lines:
        first.setdefault(line.phase.dim, line)
    for number, line in first.items():
        dim, operation = topology.dims[number], line.phase.operation
        known = [line]
        for algorithm in ALGORITHMS[dim.kind]:
            try:
                runs = algorithm_of(dim, operation, algorithm)
            except InputError:
                continue
            if runs is algorithm and algorithm is not line.phase.algorithm:
                known.append(_line(Phase(operation, number, algorithm), dim, line.payload))
        fastest, *others = sorted(known, key=lambda one: one.time)
        used = line.phase.algorithm
        out += [_reason(fastest, other, dim, used) for other in others]
    return out


def _reason(fast: PhaseLine, slow: PhaseLine, dim: Dim, used: AnyAlgorithm) -> str:
    a, b = fast.phase.algorithm.value, slow.phase.algorithm.value
    place = (
        f"dim {fast.phase.dim + 1} ({dim.kind.value} of {dim.size}, {used.value} is used), "
        f"{fast.phase.operation.value}"
    )
    if fast.time == slow.time:
        verdict = f"{a} and {b} take the same time"
    else:
        verdict = f"{a} beats {b} by {_us(slow.time - fast.time)} us"
    if fast.transfer == slow.transfer:
        port = f"both hold the port for {_us(fast.transfer)} us"
    else:
        port = (
            f"{a} holds the port for {_us(fast.transfer)} us, {b} for {_us(slow.transfer)} us"
            f"{_bytes_reason(fast, slow, dim)}"
        )
    if fast.cost.steps == slow.cost.steps:
        steps = f"both wait for {_steps(fast.cost.steps)}"
    else:
        steps = f"{a} waits for {_steps(fast.cost.steps)}, {b} for {_steps(slow.cost.steps)}"
    steps += f" of {dim.latency_ps / 1000:,.0f} ns"
    if Algorithm.DIRECT in (fast.phase.algorithm, slow.phase.algorithm) and dim.kind in (
        DimKind.SWITCH,
        DimKind.FRED,
    ):
        steps += " (direct sends to all peers at once, which a switch lets through side by side)"
    return f"{place}: {verdict}: {port}; {steps}"


def _bytes_reason(fast: PhaseLine, slow: PhaseLine, dim: Dim) -> str:
    if fast.cost.share != slow.cost.share:
        least = min(fast.cost.share, slow.cost.share)
        return f" (one of the two can use only {least} of the NPU's links)"
    if Algorithm.IN_NETWORK in (fast.phase.algorithm, slow.phase.algorithm):
        return " (in-network, the switch itself reduces and copies)"
    if dim.kind is DimKind.RING:
        return " (direct messages go round the ring over several links)"
    return ""


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"


def _us(seconds: Fraction) -> str:
    return f"{float(seconds * 10**6):,.3f}"


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """For the key ``explanation``."""
    collective, topology = explanation.collective, explanation.topology
    return {
        "collective": explanation.name,
        "operation": collective.operation.value,
        "size_bytes": collective.elements * collective.element_bytes,
        "phases": [
            {
                "operation": line.phase.operation.value,
                "dim": f"dim {line.phase.dim + 1}",
                "algorithm": line.phase.algorithm.value,
                "payload_bytes": float(line.payload),
                "sent_bytes": float(line.cost.sent),
                "received_bytes": float(line.cost.received),
                "usable_gb_per_s": _usable(line, topology),
                "transfer_ns": float(line.transfer * 10**9),
                "steps": line.cost.steps,
                "latency_ns": float(line.latency * 10**9),
                "time_ns": float(line.time * 10**9),
            }
            for line in explanation.lines
        ],
        "reasons": _reasons(explanation.lines, topology),
    }


def _usable(line: PhaseLine, topology: Topology) -> float:
    return float(topology.dims[line.phase.dim].bandwidth * line.cost.share / 10**9)


def explanation_tables(explanation: Explanation) -> list[Table]:
    """A row for each phase, with their sum; and the reasons."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    lines, topology = explanation.lines, explanation.topology
    size = format_size(explanation.collective.elements * explanation.collective.element_bytes)
    style: dict[str, Any] = {
        "box": box.SIMPLE_HEAD, "title_justify": "left", "title_style": "bold",
    }  # fmt: skip
    table = Table(
        title=escape(
            f"{explanation.name}, {explanation.collective.operation.value} of {size}: phase by "
            "phase, in one piece (chunks overlap)"
        ),
        collapse_padding=True,
        **style,
    )
    columns = (
        "phase", "algorithm", "payload", "sent", "GB/s", "transfer us", "steps", "latency us",
        "both us",
    )  # fmt: skip
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < 2 else "right", no_wrap=True)
    for line in lines:
        table.add_row(
            order_name((line.phase,)),
            line.phase.algorithm.value,
            format_size(round(line.payload)),
            format_size(round(line.cost.sent)),
            f"{_usable(line, topology):,.1f}",
            _us(line.transfer),
            str(line.cost.steps),
            _us(line.latency),
            _us(line.time),
        )
    table.add_section()
    transfer = sum((line.transfer for line in lines), Fraction(0))
    latency = sum((line.latency for line in lines), Fraction(0))
    steps = str(sum(line.cost.steps for line in lines))
    table.add_row(
        "all", "in sequence", "", "", "",
        _us(transfer), steps, _us(latency), _us(transfer + latency),
    )  # fmt: skip
    why = Table(title="Why these algorithms, and what others would cost", **style)
    why.show_header = False
    why.add_column("")
    for reason in _reasons(lines, topology):
        why.add_row(escape(reason))
    return [table, why] if why.row_count else [table]

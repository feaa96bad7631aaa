"""Results as JSON: units in the names of keys, bandwidths in 10^9 bytes per second."""

from __future__ import annotations

from math import isfinite
from statistics import fmean
from typing import Any

from sw_model.results import CosimResult, Crosscheck, CrosscheckCase, RunResult, to_ns
from sw_model.schedule.joint_bound import NO_BOUND

__all__ = ["cosim_json", "crosscheck_json", "run_json"]


def run_json(run: RunResult) -> dict[str, Any]:
    """Of a training run. ``compute_ns`` and ``exposed_comm_ns`` are of the rank that finishes
    last; ``ranks`` has the minimum, mean and maximum over the simulated ranks.
    ``interrupted_packets`` and ``overtaken_packets`` have numbers by class and higher class, on a
    tree of FRED switches with classes; else, and where they were not counted, null."""
    training, clock = run.training, run.clock_hz

    def ns(cycles: int) -> float:
        return to_ns(cycles, clock)

    bounds = run.layer_bounds or (NO_BOUND,) * len(training.layers)
    spreads = {}
    for key, name in (
        ("finish_ns", "finish"),
        ("compute_ns", "compute"),
        ("exposed_comm_ns", "exposed"),
        ("update_wait_ns", "update"),
    ):
        values = [ns(getattr(rank, name)) for rank in training.ranks]
        spreads[key] = {"min": min(values), "mean": round(fmean(values), 3), "max": max(values)}
    return {
        "total_ns": ns(training.total),
        "iterations_ns": [ns(cycles) for cycles in training.iterations],
        "compute_ns": ns(training.latest.compute),
        "exposed_comm_ns": ns(training.latest.exposed),
        "update_wait_ns": ns(training.latest.update),
        "latest_rank": training.latest.rank,
        "ranks": spreads,
        "ranks_simulated": len(training.ranks),
        "npus": run.npus,
        "endpoint": "platform",
        "bound_ns": run.bound.ns,
        "bound_dims": run.bound.named,
        "interrupted_packets": run.interrupted_packets,
        "overtaken_packets": run.overtaken_packets,
        "dims": [
            {
                "name": dim.name,
                "kind": dim.kind,
                "size": dim.size,
                "gb_per_s": float(dim.bandwidth / 10**9),
                "busy_ns": ns(dim.busy),
                "utilisation": dim.utilisation(training.total, clock),
                "bytes_per_npu": dim.bytes_per_npu,
            }
            for dim in run.dims
        ],
        "layers": [
            {
                "name": layer.name,
                "compute_ns": ns(layer.compute),
                "comm_ns": ns(layer.communication),
                "exposed_ns": ns(layer.exposed),
                "update_wait_ns": ns(layer.update),
                "bytes": layer.bytes,
                "bound_ns": bound.ns,
            }
            for layer, bound in zip(training.layers, bounds, strict=True)
        ],
    }


def crosscheck_json(crosscheck: Crosscheck) -> dict[str, Any]:
    """Of the cross-check; ``error`` is relative and signed, negative where the TLM is faster, and
    null where the RTL took no time at all and the TLM did. ``stalled`` are the cases in which
    memories refuse at random: right in data and counters, but their durations are not compared.
    ``packet_cycles`` is what a case beside other classes may also be off by, else 0;
    ``cases_beside`` are so many, of which ``cases_by_packet`` needed it. ``uncontended`` cases ran
    alone in one chunk, and no bank of SRAM refused them anything: equal to the cycle."""
    return {
        "ok": crosscheck.ok,
        "bound": crosscheck.bound,
        "slack_cycles": crosscheck.slack,
        "mean_bound": crosscheck.mean_bound,
        "max_error": _finite(crosscheck.max_error),
        "mean_error": _finite(crosscheck.mean_error),
        "cases_beside": sum(case.packet_cycles > 0 for case in crosscheck.timed),
        "cases_by_packet": len(crosscheck.by_packet),
        "cases": [{**_case(case), "error": _finite(case.error)} for case in crosscheck.timed],
        "stalled": [_case(case) for case in crosscheck.cases if not case.timed],
    }


def _case(case: CrosscheckCase) -> dict[str, Any]:
    return {
        "name": case.name,
        "data_ok": case.data_ok,
        "counters_ok": case.counters_ok,
        "rtl_cycles": case.rtl_cycles,
        "tlm_cycles": case.tlm_cycles,
        "bank_collisions": case.bank_collisions,
        "packet_cycles": case.packet_cycles,
        "one_chunk": case.one_chunk,
        "uncontended": case.uncontended,
        "notes": list(case.notes),
    }


def _finite(error: float) -> float | None:
    return error if isfinite(error) else None


def cosim_json(result: CosimResult) -> dict[str, Any]:
    """Of a co-simulation: the keys of the RTL's run, and beside them the TLM's runs."""
    return {
        **run_json(result.rtl[-1]),
        "scale": str(result.scale),
        "rtl_cycles": result.rtl[-1].training.total,
        "rtl_cycles_simulated": result.cycles_simulated,
        "rtl_seconds": round(result.seconds, 3),
        "rtl": {run.label: run_json(run) for run in result.rtl},
        "tlm": {run.label: run_json(run) for run in result.tlm},
        "full_size": {run.label: run_json(run) for run in result.full_size},
        "crosscheck": crosscheck_json(result.crosscheck),
    }

"""How near the schedules come to full use of the network: means over the six evaluation networks.

An all-reduce of 1000 MiB without step latencies, where 100 % is possible; default planning time.
"""

from __future__ import annotations

from statistics import mean

from sim_top.bench.registry import Result
from sw_model.schedule.balanced import balance
from sw_model.schedule.evaluation import NETWORKS, evaluation_instance
from sw_model.schedule.single import Candidate, Instance

__all__ = ["measure"]

_SIZE = 1000 * 2**20


def measure() -> list[Result]:
    """Utilisation in shares of one."""
    instances = [evaluation_instance(name, _SIZE) for name in NETWORKS]
    out = [_mean("themis_scf_64", instances, [i.themis(64) for i in instances])]
    for chunks in (64, 16, 8):
        candidates = [balance(instance, chunks=chunks) for instance in instances]
        out.append(_mean(f"balanced_{chunks}", instances, candidates))
    return out


def _mean(name: str, instances: list[Instance], candidates: list[Candidate]) -> Result:
    shares = [
        float(instance.ideal_seconds / instance.seconds(instance.run(candidate).end))
        for instance, candidate in zip(instances, candidates, strict=True)
    ]
    return Result(f"schedule.utilisation.{name}", mean(shares), "share")

"""The benchmarks of ``antiphon bench``: each a ratio, or measured beside what it is compared with."""

from sim_top.bench.registry import Result, names, run_benches

__all__ = ["Result", "names", "run_benches"]

"""The benchmarks of ``antiphon bench``: ratios, and figures beside what they compare with."""

from sim_top.bench.registry import BenchError, Result, names, run_benches

__all__ = ["BenchError", "Result", "names", "run_benches"]

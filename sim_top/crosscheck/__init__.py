"""The TLM against the RTL, over a matrix of collectives."""

from sim_top.crosscheck.matrix import Case, Setting, matrix
from sim_top.crosscheck.run import run_crosscheck

__all__ = ["Case", "Setting", "matrix", "run_crosscheck"]

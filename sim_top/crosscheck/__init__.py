"""The TLM against the RTL, over a matrix of collectives."""

from sim_top.crosscheck.matrix import ONE_CHUNK, Case, Setting, matrix
from sim_top.crosscheck.run import run_crosscheck

__all__ = ["ONE_CHUNK", "Case", "Setting", "matrix", "run_crosscheck"]

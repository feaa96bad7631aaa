"""Published results, ours beside theirs (``antiphon reproduce``)."""

from sim_top.reproduce.registry import SETS, Row, rows_of

__all__ = ["SETS", "Row", "rows_of"]

"""What the test benches reach in the RTL: lines, toggles, and functional points.

With ``ANTIPHON_COVERAGE`` set to a folder, every simulation on Verilator is built with counters
and leaves what they counted there; :mod:`sim_top.coverage.report` makes figures of it. Which
benches are counted is said in ``tests/coverage_benches.py``.
"""

"""Properties of small blocks, proved by SymbiYosys and z3 (docs/toolchain.md).

Each module holds wrappers, :class:`~testbenches.formal.property.Property`: a design under proof,
free inputs, what is assumed of them and what must follow. ``tests/test_formal.py`` proves them.
"""

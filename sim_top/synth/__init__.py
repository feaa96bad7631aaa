"""Synthesis of what is emitted: area by block and clock, on an open standard-cell library."""

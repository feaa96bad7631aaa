"""Replay of Chakra traces: every rank walks its graph, a fabric carries its communication."""

"""Chakra execution traces (MLCommons): the files, and the graph of one rank."""

"""The configuration memory behind the port for words."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import DataType, Operator
from rtl.fred.configuration import INDEX_BITS, ConfigurationMemory, Refusal
from rtl.fred.host_port import ConfigurationWriter
from rtl.fred.modes import modes_layout

__all__ = ["HostedMemory"]


class HostedMemory(wiring.Component):
    """A host's view of a switch: words in, modes out.

    Parameters
    ----------
    ports, middle_copies, entries : of the memory

    Members
    -------
    write, busy, result, committed : of the writer
    idle, index, modes : of the memory
    """

    def __init__(self, *, ports: int, middle_copies: int, entries: int):
        self._writer = ConfigurationWriter(ports=ports, middle_copies=middle_copies)
        self._memory = ConfigurationMemory(
            ports=ports,
            middle_copies=middle_copies,
            entries=entries,
            data_types=frozenset({DataType.FP16}),
            operators=frozenset({Operator.SUM}),
        )
        super().__init__(
            {
                "write": self._writer.signature.members["write"],
                "busy": Out(1),
                "result": Out(Refusal),
                "committed": Out(16),
                "idle": In(1),
                "index": In(INDEX_BITS),
                "modes": Out(modes_layout(ports, middle_copies)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.writer = writer = self._writer
        m.submodules.memory = memory = self._memory
        wiring.connect(m, wiring.flipped(self.write), writer.write)
        wiring.connect(m, writer.configure, memory.configure)
        m.d.comb += [
            writer.configured.eq(memory.done),
            writer.refusal.eq(memory.refusal),
            memory.idle.eq(self.idle),
            memory.index.eq(self.index),
            memory.activate.eq(1),
            self.busy.eq(writer.busy),
            self.result.eq(writer.result),
            self.committed.eq(writer.committed),
            self.modes.eq(memory.modes),
        ]
        return m

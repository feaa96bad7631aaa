"""The example that the shell's tests run: a component that copies memory, and counts cycles."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.memory_port import MemoryReadSignature, MemoryWriteSignature

__all__ = ["Copier"]

_BURST = 16


class Copier(wiring.Component):
    """Copies ``length`` flits (a multiple of 16) from flit 0 on to flit ``target`` on.

    Members
    -------
    start : In(1), begin; ignored while busy
    length, target : In(32), in flits
    busy : Out(1)
    done : Out(1), the copy is over and acknowledged; low again from the next start on
    activity : Out(1), a request, a write or an acknowledgement took place
    ticks : Out(32), cycles since reset
    read, write : the memory ports
    """

    def __init__(self, *, flit_bytes: int = 16) -> None:
        super().__init__(
            {
                "start": In(1),
                "length": In(32),
                "target": In(32),
                "busy": Out(1),
                "done": Out(1),
                "activity": Out(1),
                "ticks": Out(32),
                "read": Out(MemoryReadSignature(flit_bytes=flit_bytes)),
                "write": Out(MemoryWriteSignature(flit_bytes=flit_bytes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        read, flits, write = self.read.request, self.read.data, self.write.request
        unread = Signal(32)
        unwritten = Signal(32)

        m.d.comb += [
            read.valid.eq(unread != 0),
            read.payload.beats.eq(_BURST),
            write.valid.eq(flits.valid),
            write.payload.data.eq(flits.payload),
            write.payload.strobe.eq(~0),
            flits.ready.eq(write.ready),
            self.activity.eq(
                (read.valid & read.ready) | (write.valid & write.ready) | self.write.acknowledged
            ),
        ]
        m.d.sync += self.ticks.eq(self.ticks + 1)

        source = Signal(32)
        target = Signal(32)
        m.d.comb += [read.payload.address.eq(source), write.payload.address.eq(target)]
        with m.If(read.valid & read.ready):
            m.d.sync += [source.eq(source + _BURST), unread.eq(unread - _BURST)]
        with m.If(write.valid & write.ready):
            m.d.sync += target.eq(target + 1)
        with m.If(self.write.acknowledged):
            m.d.sync += unwritten.eq(unwritten - 1)
            with m.If(unwritten == 1):
                m.d.sync += [self.busy.eq(0), self.done.eq(1)]
        with m.If(self.start & ~self.busy):
            m.d.sync += [
                source.eq(0),
                target.eq(self.target),
                unread.eq(self.length),
                unwritten.eq(self.length),
                self.busy.eq(1),
                self.done.eq(0),
            ]
        return m

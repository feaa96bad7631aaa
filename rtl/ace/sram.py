"""The engine's SRAM: banks interleaved by flit, shared by every unit that moves payload."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["SRAM_READ_LATENCY", "Sram", "SramReadSignature", "SramWriteSignature"]

SRAM_READ_LATENCY = 2
"""Cycles from the acceptance of a read request to its data."""


class SramReadSignature(wiring.Signature):
    """A read port, seen from the unit that reads.

    Members
    -------
    request : Out(stream of flit address)
    valid : In(1)
        ``data`` answers the request accepted :data:`SRAM_READ_LATENCY` cycles ago.
    data : In(8 * flit_bytes)
        Cannot be refused.
    """

    def __init__(self, *, address_bits: int, flit_bytes: int):
        self.address_bits = address_bits
        self.flit_bytes = flit_bytes
        super().__init__(
            {
                "request": Out(stream.Signature(unsigned(address_bits))),
                "valid": In(1),
                "data": In(8 * flit_bytes),
            }
        )


class SramWriteSignature(wiring.Signature):
    """A write port, seen from the unit that writes.

    Members
    -------
    request : Out(stream of {address, data})
        What is accepted is read by every read request of a later cycle.
    """

    def __init__(self, *, address_bits: int, flit_bytes: int):
        self.address_bits = address_bits
        self.flit_bytes = flit_bytes
        payload = data.StructLayout({"address": address_bits, "data": 8 * flit_bytes})
        super().__init__({"request": Out(stream.Signature(payload))})


class Sram(wiring.Component):
    """Banked SRAM with one read and one write per bank and cycle.

    Flit address ``a`` is row ``a // banks`` of bank ``a % banks``. Requests to different banks do
    not touch each other. As every user streams through consecutive flits, two streams of one speed
    that meet on a bank fall one bank apart and do not meet again. A quick stream that catches up
    with a slow one must pass it, or it would follow bank by bank at the pace of the slow one: who
    lost its last collision wins the next, and so the quick stream loses at most every second. Else
    the port with the lowest number is served. Ports are numbered from the unit that must not wait
    (receive) to the one with most slack (DMA). No port starves: a port that wins a collision has
    lost its claim on the next.

    Parameters
    ----------
    flit_bytes : width of a flit
    depth : flits, a multiple of ``banks``
    banks : a power of two
    readers, writers : ports of each kind, at least 1

    Members
    -------
    read : In(SramReadSignature) × readers
    write : In(SramWriteSignature) × writers
    collisions, reads, writes : Out
        Requests that were refused, reads and writes that were taken, in this cycle.

    Notes
    -----
    Read latency :data:`SRAM_READ_LATENCY` cycles from acceptance (bank, then crossbar register),
    in order; throughput one read per read port and one write per write port and cycle without
    conflicts. A read accepted in the same cycle as a write to the same flit gives the *old* flit;
    in the next cycle the new one. ``ready`` of a port depends on the requests of all ports of its
    kind in the same cycle. Decided here.

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(self, *, flit_bytes: int, depth: int, banks: int, readers: int, writers: int):
        if not isinstance(banks, int) or banks < 1 or banks & (banks - 1):
            raise ValueError(f"banks must be a power of two, not {banks!r}")
        if not isinstance(depth, int) or depth < banks or depth % banks:
            raise ValueError(f"depth must be a positive multiple of {banks} banks, not {depth!r}")
        for name, value in (("readers", readers), ("writers", writers)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a positive integer, not {value!r}")
        self.flit_bytes = flit_bytes
        self.depth = depth
        self.banks = banks
        self.readers = readers
        self.writers = writers
        self.address_bits = max(1, (depth - 1).bit_length())
        ports = {"address_bits": self.address_bits, "flit_bytes": flit_bytes}
        super().__init__(
            {
                "read": In(SramReadSignature(**ports)).array(readers),
                "write": In(SramWriteSignature(**ports)).array(writers),
                "collisions": Out(range(readers + writers + 1)),
                "reads": Out(range(readers + 1)),
                "writes": Out(range(writers + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bank_bits = (self.banks - 1).bit_length()
        rows = self.depth // self.banks

        reads = [(p.request, p.request.payload) for p in self.read]
        writes = [(p.request, p.request.payload.address) for p in self.write]
        refused = []
        for name, kind in (("read", reads), ("write", writes)):
            refused += self._arbitrate(m, name, kind, bank_bits)
        m.d.comb += [
            self.collisions.eq(sum(refused)),
            self.reads.eq(sum(port.valid & port.ready for port, _ in reads)),
            self.writes.eq(sum(port.valid & port.ready for port, _ in writes)),
        ]

        outputs = []
        for number in range(self.banks):
            bank = memory.Memory(shape=unsigned(8 * self.flit_bytes), depth=rows, init=[])
            m.submodules[f"bank_{number}"] = bank
            read_port = bank.read_port()
            write_port = bank.write_port()
            outputs.append(read_port.data)

            m.d.comb += read_port.en.eq(0)
            for port, address in reads:
                with m.If(port.valid & port.ready & (address[:bank_bits] == number)):
                    m.d.comb += [read_port.en.eq(1), read_port.addr.eq(address[bank_bits:])]
            for port, address in writes:
                with m.If(port.valid & port.ready & (address[:bank_bits] == number)):
                    m.d.comb += [
                        write_port.en.eq(1),
                        write_port.addr.eq(address[bank_bits:]),
                        write_port.data.eq(port.payload.data),
                    ]

        for number, port in enumerate(self.read):
            taken = Signal(name=f"taken_{number}")
            bank = Signal(bank_bits, name=f"bank_of_{number}")
            m.d.sync += taken.eq(port.request.valid & port.request.ready)
            with m.If(port.request.valid):
                m.d.sync += bank.eq(port.request.payload[:bank_bits])
            m.d.sync += port.valid.eq(taken)
            with m.If(taken):
                with m.Switch(bank):
                    for which, output in enumerate(outputs):
                        with m.Case(which):
                            m.d.sync += port.data.eq(output)
        return m

    def _arbitrate(self, m, name, kind, bank_bits):
        """Give every bank to one of the ports that ask for it; who is refused."""
        ports = len(kind)
        lost = Signal(ports, name=f"lost_{name}")  # its last collision
        refused = Signal(ports, name=f"refused_{name}")
        for number, (port, address) in enumerate(kind):
            rivals, before = [], []
            for other, (rival, where) in enumerate(kind):
                if other != number:
                    meets = rival.valid & (where[:bank_bits] == address[:bank_bits])
                    rivals.append(meets)
                    mine, theirs = lost[number], lost[other]
                    before.append(meets & (theirs | ~mine if other < number else theirs & ~mine))
            m.d.comb += [
                port.ready.eq(~Cat(before).any() if before else 1),
                refused[number].eq(port.valid & ~port.ready),
            ]
            if rivals:
                with m.If(port.valid & Cat(rivals).any()):
                    m.d.sync += lost[number].eq(~port.ready)
        return [refused[number] for number in range(ports)]

"""Registers by their table."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.axi.lite_port import RegisterAccess
from rtl.axi.register_map import ADDRESS_BITS, Access, Register

__all__ = ["RegisterFile"]


class RegisterFile(wiring.Component):
    """Decodes accesses by a table of registers; holds those that the host writes and reads.

    Refused are accesses to addresses without a register, writes to what is only read, and reads of
    what is only written. Reading the low half of a 64-bit number keeps its high half for the read
    of that register, so that both belong together.

    Parameters
    ----------
    table : the registers

    Members
    -------
    access : In(RegisterAccess)
    values : In({name: array})
        What reads give, but for READ_WRITE.
    stored : Out({name: array of 32 bits})
        READ_WRITE registers.
    written : Out({name: one bit each})
        WRITE and CLEAR registers; the data stands in ``access``.
    refuse : In({name: 1})
        WRITE registers that cannot be written now.
    taken : Out({name: 1})
        POP registers that are read in this cycle.

    Notes
    -----
    All in the cycle of the access; what is stored shows one cycle later.
    """

    def __init__(self, *, table: tuple[Register, ...]):
        self.table = table

        def struct(accesses, shape):
            return data.StructLayout({r.name: shape(r) for r in table if r.access in accesses})

        seen = {Access.READ, Access.POP, Access.CLEAR}
        super().__init__(
            {
                "access": In(RegisterAccess(address_bits=ADDRESS_BITS)),
                "values": In(
                    struct(seen, lambda r: data.ArrayLayout(64 if r.wide else 32, r.count))
                ),
                "stored": Out(struct({Access.READ_WRITE}, lambda r: data.ArrayLayout(32, r.count))),
                "written": Out(struct({Access.WRITE, Access.CLEAR}, lambda r: r.count)),
                "refuse": In(struct({Access.WRITE}, lambda r: 1)),
                "taken": Out(struct({Access.POP}, lambda r: 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        high = Signal(32)
        access = self.access
        m.d.comb += [access.read_refused.eq(1), access.write_refused.eq(1)]
        with m.Switch(access.read_address):
            for register in self.table:
                for number, address in enumerate(register.addresses()):
                    self._read(m, register, number, address, high)
        with m.Switch(access.write_address):
            for register in self.table:
                for number, address in enumerate(register.addresses()):
                    self._write(m, register, number, address)
        return m

    def _read(self, m, register, number, address, high):
        access = self.access
        if register.access is Access.WRITE:
            return
        value = (self.stored if register.access is Access.READ_WRITE else self.values)[
            register.name
        ][number]
        with m.Case(address):
            m.d.comb += [access.read_data.eq(value[:32]), access.read_refused.eq(0)]
            if register.access is Access.POP:
                m.d.comb += self.taken[register.name].eq(access.read)
            if register.wide:
                with m.If(access.read):
                    m.d.sync += high.eq(value[32:])
        if register.wide:
            with m.Case(address + 4):
                m.d.comb += [access.read_data.eq(high), access.read_refused.eq(0)]

    def _write(self, m, register, number, address):
        access = self.access
        if register.access not in (Access.WRITE, Access.CLEAR, Access.READ_WRITE):
            return
        with m.Case(address):
            if register.access is Access.READ_WRITE:
                stored = self.stored[register.name][number]
                m.d.comb += access.write_refused.eq(0)
                with m.If(access.write):
                    m.d.sync += stored.eq(access.write_data & _mask(register))
            else:
                refuse = self.refuse[register.name] if register.access is Access.WRITE else 0
                m.d.comb += [
                    access.write_refused.eq(refuse),
                    self.written[register.name][number].eq(access.write & ~access.write_refused),
                ]


def _mask(register: Register) -> int:
    """The bits that a register has."""
    if not register.fields:
        return 0xFFFFFFFF
    return sum(((1 << f.width) - 1) << f.low for f in register.fields)

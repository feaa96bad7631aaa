"""Registers by their table."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.axi.lite_port import RegisterAccess
from rtl.axi.register_map import ADDRESS_BITS, Access, Register

__all__ = ["RegisterFile"]

_TOGETHER = 10
"""Registers that are read through one stage."""


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
    An access that begins in cycle t is decoded into one bit for each register, and

    * a write is done in t + 1: that is the cycle of ``written``, and of ``refuse``; what is stored
      shows in t + 2, and the access is over in t + 2;
    * a read gives what ``values`` are in t + 1, the cycle of ``taken``. Registers are gathered by
      tens, each ten behind registers of its own, then all: it is over in t + 3.

    So no path goes through more than ten registers, whatever their number.
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
        self._reads(m)
        self._writes(m)
        return m

    def _reads(self, m):
        access = self.access
        high = Signal(32)  # of the 64-bit number that was read last
        begun, gathered = Signal(), Signal()
        m.d.sync += [begun.eq(access.read), gathered.eq(begun), access.read_done.eq(gathered)]
        rows = []  # address, what it reads, high half if there is one
        for register in self.table:
            if register.access is Access.WRITE:
                continue
            stored = register.access is Access.READ_WRITE
            values = (self.stored if stored else self.values)[register.name]
            for number, address in enumerate(register.addresses()):
                value = values[number]
                hit = self._hit(m, access.read_address, address, access.read, "read")
                if register.access is Access.POP:
                    m.d.comb += self.taken[register.name].eq(hit)
                rows.append((hit, value[:32], value[32:] if register.wide else None))
                if register.wide:
                    hit = self._hit(m, access.read_address, address + 4, access.read, "read")
                    rows.append((hit, high, None))
        lows, highs, known, wide = [], [], [], []
        for first in range(0, len(rows), _TOGETHER):
            group = rows[first : first + _TOGETHER]
            place = first // _TOGETHER
            low, upper = Signal(32, name=f"low_{place}"), Signal(32, name=f"high_{place}")
            any_hit, any_wide = Signal(name=f"known_{place}"), Signal(name=f"wide_{place}")
            halves = [(hit, half) for hit, _, half in group if half is not None]
            m.d.sync += [
                low.eq(_gather((hit, value) for hit, value, _ in group)),
                upper.eq(_gather(halves)),
                any_hit.eq(Cat(hit for hit, *_ in group).any()),
                any_wide.eq(Cat(hit for hit, _ in halves).any()),
            ]
            lows.append(low)
            highs.append(upper)
            known.append(any_hit)
            wide.append(any_wide)
        m.d.sync += [
            access.read_data.eq(reduce(or_, lows)),
            access.read_refused.eq(~Cat(known).any()),
        ]
        with m.If(Cat(wide).any()):
            m.d.sync += high.eq(reduce(or_, highs))

    def _writes(self, m):
        access = self.access
        begun = Signal()
        m.d.sync += begun.eq(access.write)
        done = []
        for register in self.table:
            if register.access not in (Access.WRITE, Access.CLEAR, Access.READ_WRITE):
                continue
            for number, address in enumerate(register.addresses()):
                hit = self._hit(m, access.write_address, address, access.write, "write")
                if register.access is Access.READ_WRITE:
                    with m.If(hit):
                        m.d.sync += self.stored[register.name][number].eq(
                            access.write_data & _mask(register)
                        )
                    done.append(hit)
                    continue
                refuse = self.refuse[register.name] if register.access is Access.WRITE else 0
                m.d.comb += self.written[register.name][number].eq(hit & ~refuse)
                done.append(hit & ~refuse)
        m.d.sync += [access.write_done.eq(begun), access.write_refused.eq(~Cat(done).any())]

    def _hit(self, m, where, address, begins, kind):
        """Whether the access of the cycle before was to ``address``."""
        hit = Signal(name=f"{kind}_{address:03x}")
        m.d.sync += hit.eq(begins & (where == address))
        return hit


def _gather(rows):
    """The value whose bit is set, of those of which one at most is."""
    return reduce(or_, (Mux(hit, value, 0) for hit, value in rows), Const(0, 32))


def _mask(register: Register) -> int:
    """The bits that a register has."""
    if not register.fields:
        return 0xFFFFFFFF
    return sum(((1 << f.width) - 1) << f.low for f in register.fields)

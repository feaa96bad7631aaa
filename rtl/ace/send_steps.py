"""Which message a dim sends next: its send programs, and the next step of every op."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.contexts import (
    BufferLookup,
    ClosingEvent,
    StartEvent,
    context_bits,
    copied_layout,
    has_written,
    oldest_first,
    progress_layout,
)
from rtl.ace.layouts import PORT_BITS, TxStep
from rtl.ace.parameters import check_positive, check_power_of_two
from rtl.ace.program_write import ProgramWrite

__all__ = ["SendSteps"]

_PLACES = ("from_destination", "offset", "copy_offset")
"""What of a step tells no more than its addresses do."""


def _held_layout(address_bits: int) -> data.StructLayout:
    """A step of an op that has started: with the SRAM addresses of the first flit that is read and
    of the first that is copied, in place of :data:`_PLACES`."""
    kept = {name: shape for name, shape in TxStep.as_shape().members.items() if name not in _PLACES}
    return data.StructLayout({"address": address_bits, "copy_address": address_bits, **kept})


class SendSteps(wiring.Component):
    """Holds the next send step of every context, and chooses one among those that may go: granted,
    and, where they chase, with the first flit received. It is that of the oldest op. What may go
    without grants is said at :class:`rtl.ace.tx_unit.TxUnit`.

    Parameters
    ----------
    address_bits, contexts, program_steps, grants, ports : as of :class:`rtl.ace.tx_unit.TxUnit`

    Members
    -------
    granted, start, closing, buffers, progress, copied, next, program, no_grant, no_data
        As of :class:`rtl.ace.tx_unit.TxUnit`.
    found : Out(1)
        A step may go.
    context, step : Out
        Its context, and what it is: a :class:`rtl.ace.layouts.TxStep` with ``address`` and
        ``copy_address`` in the SRAM in place of its offsets.
    take : In(1)
        Its message is taken up.

    Notes
    -----
    From ``start`` in cycle t its first step may be found in t + 3, and so from ``take`` to the next
    step of that context. Its addresses are added up as it comes from the program memory, for the
    choice takes long. ``found`` depends on registers and on ``progress`` and ``copied``.
    """

    def __init__(
        self,
        *,
        address_bits: int,
        contexts: int,
        program_steps: int,
        grants: bool,
        ports: int = 1,
    ):
        check_power_of_two("contexts", contexts)
        check_positive("program_steps", program_steps)
        self.address_bits = address_bits
        self.contexts = contexts
        self.program_steps = program_steps
        self.grants = grants
        self.ports = ports
        super().__init__(
            {
                "granted": In(1),
                "start": In(StartEvent(contexts=contexts)),
                "closing": In(ClosingEvent(contexts=contexts)),
                "buffers": Out(BufferLookup(contexts=contexts)),
                "progress": In(progress_layout(contexts, ports)),
                "copied": In(copied_layout(contexts, ports)),
                "next": In(context_bits(contexts)),
                "program": In(ProgramWrite(step=TxStep)),
                "found": Out(1),
                "context": Out(context_bits(contexts)),
                "step": Out(_held_layout(address_bits)),
                "take": In(1),
                "no_grant": Out(contexts),
                "no_data": Out(contexts),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = context_bits(self.contexts)
        m.submodules.programs = programs = memory.Memory(
            shape=TxStep, depth=self.program_steps, init=[]
        )
        program_write, program_read = programs.write_port(), programs.read_port()
        held_layout = _held_layout(self.address_bits)
        m.submodules.steps = steps = memory.Memory(shape=held_layout, depth=self.contexts, init=[])
        step_write, step_read = steps.write_port(), steps.read_port(domain="comb")
        m.d.comb += [
            program_write.addr.eq(self.program.index),
            program_write.data.eq(self.program.step),
            program_write.en.eq(self.program.valid),
        ]

        held = Signal(self.contexts)
        chases = Signal(self.contexts)
        whole = Signal(self.contexts)
        copied = Signal(self.contexts)
        after = Signal(data.ArrayLayout(unsigned(8), self.contexts))
        after_port = Signal(data.ArrayLayout(unsigned(PORT_BITS), self.contexts))
        numbers = Signal(data.ArrayLayout(unsigned(16), self.contexts))
        counters = Signal(data.ArrayLayout(unsigned(12), self.contexts))
        left = Signal(data.ArrayLayout(unsigned(8), self.contexts))
        free = Signal(self.contexts)  # chases nothing, whatever its steps say
        with m.If(self.start.valid):
            m.d.sync += [
                free.bit_select(self.start.context, 1).eq(self.start.void & self.grants),
                numbers[self.start.context].eq(self.start.number),
                counters[self.start.context].eq(self.start.tx_program),
                left[self.start.context].eq(self.start.tx_count),
            ]

        # Fetch: program memory -> held step.
        fetching = Signal()
        fetching_context = Signal(bits)
        wanted = Signal(self.contexts)
        for context in range(self.contexts):
            m.d.comb += wanted[context].eq(
                (left[context] != 0) & ~held[context] & ~(fetching & (fetching_context == context))
            )
        fetch_context, fetch = oldest_first(m, wanted, self.next, name="fetch")
        m.d.comb += [
            program_read.addr.eq(counters[fetch_context]),
            program_read.en.eq(fetch),
            step_write.addr.eq(fetching_context),
            step_write.en.eq(fetching),
        ]
        fetched, buffers = program_read.data, self.buffers
        from_source = Signal(self.address_bits)
        from_destination = Signal(self.address_bits)
        m.d.comb += [
            buffers.context.eq(fetching_context),
            # Both, for which of them it is comes from the memory too.
            from_source.eq(buffers.source_address + fetched.offset),
            from_destination.eq(buffers.destination_address + fetched.offset),
            step_write.data.address.eq(
                Mux(fetched.from_destination, from_destination, from_source)
            ),
            step_write.data.copy_address.eq(buffers.destination_address + fetched.copy_offset),
        ]
        for name in held_layout.members:
            if name in TxStep.as_shape().members:
                m.d.comb += step_write.data[name].eq(fetched[name])
        m.d.sync += fetching.eq(fetch)
        with m.If(fetch):
            m.d.sync += [
                fetching_context.eq(fetch_context),
                counters[fetch_context].eq(counters[fetch_context] + 1),
                left[fetch_context].eq(left[fetch_context] - 1),
            ]

        # Choose.
        ready = Signal(self.contexts)
        unsent = Signal(self.contexts)
        gathering = self._gathering(m)
        for context in range(self.contexts):
            m.d.comb += unsent[context].eq(
                held[context]
                | (left[context] != 0)
                | (fetching & (fetching_context == context))
                | gathering[context]
            )
        first_unsent, _ = oldest_first(m, unsent, self.next, name="first_unsent")
        granted_ops = Signal(16)
        may_send = Signal(self.contexts)  # granted; in a register, as the choice takes long
        now = Signal(16)
        lead = Signal(16)  # of the op that starts: grants that came before it
        m.d.comb += [now.eq(granted_ops + self.granted), lead.eq(now - self.start.number)]
        m.d.sync += granted_ops.eq(now)
        for context in range(self.contexts):
            with m.If(self.start.valid & (self.start.context == context)):
                m.d.sync += may_send[context].eq((lead != 0) & ~lead[-1])
            with m.Elif(self.granted & (numbers[context] == granted_ops)):
                m.d.sync += may_send[context].eq(1)
        for context in range(self.contexts):
            granted = Signal(name=f"granted_{context}")
            arrived = Signal(name=f"arrived_{context}")
            if self.grants:
                m.d.comb += granted.eq(may_send[context])
            else:
                m.d.comb += granted.eq(first_unsent == context)
            m.d.comb += [
                arrived.eq(
                    ~chases[context]
                    | free[context]
                    | Mux(
                        copied[context],
                        self.copied[self._of(after_port[context])][context] > after[context],
                        has_written(
                            self.progress,
                            port=self._of(after_port[context]),
                            context=context,
                            after=after[context],
                            whole=whole[context],
                            index=0,
                        ),
                    )
                ),
                ready[context].eq(held[context] & granted & arrived),
                self.no_grant[context].eq(held[context] & ~granted),
                self.no_data[context].eq(held[context] & granted & ~arrived),
            ]
        chosen, found = oldest_first(m, ready, self.next, name="chosen")
        m.d.comb += [
            step_read.addr.eq(chosen),
            self.context.eq(chosen),
            self.found.eq(found),
            self.step.eq(step_read.data),
        ]
        for context in range(self.contexts):
            with m.If(fetching & (fetching_context == context)):
                m.d.sync += [
                    held[context].eq(1),
                    chases[context].eq(program_read.data.chase),
                    whole[context].eq(program_read.data.whole),
                    copied[context].eq(program_read.data.copied),
                    after[context].eq(program_read.data.after),
                    after_port[context].eq(program_read.data.after_port),
                ]
            with m.Elif(self.take & (chosen == context)):
                m.d.sync += held[context].eq(0)
        return m

    def _of(self, port):
        """The port that a step names: of one port only, that one."""
        return port if self.ports > 1 else 0

    def _gathering(self, m):
        """By context, whether an op runs there behind which nothing may be sent yet: one that
        receives more messages than it sends, until the last packet of each has begun to arrive,
        in whatever order (the flows of an all-gather race)."""
        missing = Signal(data.ArrayLayout(unsigned(8), self.contexts))
        gathering = Signal(self.contexts)
        closing, start = self.closing, self.start
        for context in range(self.contexts):
            starts = start.valid & (start.context == context)
            begins = Mux(start.rx_count > start.tx_count, start.rx_count, 0)
            here = (closing.context == context) & gathering[context]
            left = Mux(here, (missing[context] - 1)[:8], missing[context])
            # Whether a header is taken is known late in a cycle.
            m.d.sync += missing[context].eq(
                Mux(closing.valid, Mux(starts, begins, left), Mux(starts, begins, missing[context]))
            )
            m.d.comb += gathering[context].eq(missing[context] != 0)
        return gathering

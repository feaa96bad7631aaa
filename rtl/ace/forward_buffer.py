"""What a dim has just received, kept beside the SRAM for the transmitter that sends it on."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.contexts import Progress, context_bits
from rtl.ace.parameters import check_power_of_two
from rtl.ace.sram import SRAM_READ_LATENCY, SramReadSignature

__all__ = ["ChaseInfo", "ForwardBuffer", "ReceivedWrite"]

STEP_BITS = 2  # four messages of every context have a place


class ChaseInfo(wiring.Signature):
    """What the transmitter reads at the moment, seen from the transmitter.

    It stands, with the address of the request, at least one cycle before that is valid; a request
    that is taken moves ``index`` and the address on by one.

    Members
    -------
    chase : Out(1)
        It sends on what the receiver of this dim has written.
    context : Out
    step : Out(2)
        The lowest bits of the number of the receive step that wrote it.
    index : Out(16)
        Which flit of that message.
    """

    def __init__(self, *, contexts: int):
        super().__init__(
            {
                "chase": Out(1),
                "context": Out(context_bits(contexts)),
                "step": Out(STEP_BITS),
                "index": Out(16),
            }
        )


class ReceivedWrite(wiring.Signature):
    """A received flit is written to SRAM in this cycle, seen from the receiver."""

    def __init__(self, *, contexts: int, address_bits: int, flit_bytes: int):
        super().__init__(
            {
                "valid": Out(1),
                "context": Out(context_bits(contexts)),
                "address": Out(address_bits),
                "data": Out(8 * flit_bytes),
            }
        )


class ForwardBuffer(wiring.Component):
    """Keeps the last ``depth`` flits that the receiver of a dim has written to SRAM.

    It stands between the transmitter and its read port of the SRAM. A read of a flit that is being
    sent on and is still kept is answered here and leaves the SRAM alone; any other goes there.
    Neither side ever waits for it: the receiver overwrites the oldest flit, and what is gone is
    read from SRAM.

    Flits lie in the order in which they were written. For the last four messages of every context
    the place of flit 0 is remembered; a message between whose flits those of another were written
    is read from SRAM, and so is what is asked for when its message has just lost its place to the
    fourth one after it. So where a flit must lie there is that flit or a younger one, and the SRAM
    address beside it tells which: a younger one with that address would be a new use of the buffer,
    which waits for this transmitter (docs/plan.md).

    Parameters
    ----------
    depth : flits, a power of two of at least 2
    contexts : of the dim
    address_bits, flit_bytes : of the SRAM

    Members
    -------
    received : In(ReceivedWrite)
    progress : In(array of Progress)
        Before the flit of this cycle.
    reading : In(ChaseInfo)
        About the request of this cycle.
    read : In(SramReadSignature)
        From the transmitter.
    sram : Out(SramReadSignature)
    forwarded, read_back : Out(1)
        A request for a flit that is being sent on was taken, and answered here, or by the SRAM.

    Notes
    -----
    As the SRAM: :data:`rtl.ace.sram.SRAM_READ_LATENCY` cycles, one request per cycle, and a flit
    written in cycle t can be read from t + 1 on. Whether a flit is kept stands in a register, for
    the requests of all ports of the SRAM hang on it: every cycle looks at the flit that is asked
    for and at the one behind it, of which one lies at an even place and one at an odd one. Decided
    here.

    Raises
    ------
    ValueError
        ``depth must be a power of two of at least 2, not ...``
    """

    def __init__(self, *, depth: int, contexts: int, address_bits: int, flit_bytes: int):
        if not isinstance(depth, int) or depth < 2 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two of at least 2, not {depth!r}")
        check_power_of_two("contexts", contexts)
        self.depth = depth
        self.contexts = contexts
        self.address_bits = address_bits
        self.flit_bytes = flit_bytes
        sram = {"address_bits": address_bits, "flit_bytes": flit_bytes}
        super().__init__(
            {
                "received": In(ReceivedWrite(contexts=contexts, **sram)),
                "progress": In(data.ArrayLayout(Progress, contexts)),
                "reading": In(ChaseInfo(contexts=contexts)),
                "read": In(SramReadSignature(**sram)),
                "sram": Out(SramReadSignature(**sram)),
                "forwarded": Out(1),
                "read_back": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        place = range(self.depth)
        newest = Signal(place)
        m.submodules.flits = flits = memory.Memory(
            shape=unsigned(8 * self.flit_bytes), depth=self.depth, init=[]
        )
        flit_write, flit_read = flits.write_port(), flits.read_port()
        # SRAM addresses of what lies at even and at odd places.
        reads = []
        for parity, name in enumerate(("even", "odd")):
            addresses = memory.Memory(
                shape=unsigned(self.address_bits), depth=self.depth // 2, init=[]
            )
            m.submodules[name] = addresses
            write = addresses.write_port()
            m.d.comb += [
                write.addr.eq(newest[1:]),
                write.data.eq(self.received.address),
                write.en.eq(self.received.valid & (newest[0] == parity)),
            ]
            reads.append(addresses.read_port(domain="comb"))

        # Receive.
        messages = 1 << STEP_BITS
        # By context and step: the place of flit 0, and whether nothing came in between.
        places = data.ArrayLayout(unsigned(len(newest)), messages)
        begin = Signal(data.ArrayLayout(places, self.contexts))
        whole = Signal(data.ArrayLayout(messages, self.contexts))
        received = self.received
        now = self.progress[received.context]
        m.d.comb += [
            flit_write.addr.eq(newest),
            flit_write.data.eq(received.data),
            flit_write.en.eq(received.valid),
        ]
        first_place = Signal(place)
        m.d.comb += first_place.eq(newest - now.flits)
        with m.If(received.valid):
            m.d.sync += newest.eq(newest + 1)
            step = now.steps[:STEP_BITS]
            with m.If(now.flits == 0):
                m.d.sync += [
                    begin[received.context][step].eq(first_place),
                    whole[received.context].bit_select(step, 1).eq(1),
                ]
            with m.Elif(begin[received.context][step] != first_place):
                m.d.sync += whole[received.context].bit_select(step, 1).eq(0)

        # Send on: is it here, if it is asked for in the next cycle?
        reading, request, onward = self.reading, self.read.request, self.sram.request
        wanted = Signal(place)
        behind = Signal(place)
        taken = Signal()
        begins = Signal()  # flit 0 of the message that is sent on is received
        m.d.comb += [
            wanted.eq(begin[reading.context][reading.step] + reading.index),
            behind.eq(wanted + 1),
            reads[0].addr.eq(Mux(wanted[0], behind[1:], wanted[1:])),
            reads[1].addr.eq(wanted[1:]),
            taken.eq(request.valid & request.ready),
            begins.eq(
                received.valid
                & (now.flits == 0)
                & (received.context == reading.context)
                & (now.steps[:STEP_BITS] == reading.step)
            ),
        ]
        even, odd = (read.data for read in reads)
        kept = [
            Mux(
                received.valid & (newest == at),
                received.address == address,
                Mux(wanted[0], *row) == address,
            )
            for at, address, row in (
                (wanted, request.payload, (odd, even)),
                (behind, (request.payload + 1)[: self.address_bits], (even, odd)),
            )
        ]
        here = Signal()
        at = Signal(place)
        with m.If(begins):
            m.d.sync += [
                here.eq(
                    reading.chase
                    & (reading.index == 0)
                    & ~taken
                    & (received.address == request.payload)
                ),
                at.eq(newest),
            ]
        with m.Else():
            m.d.sync += [
                here.eq(
                    reading.chase
                    & whole[reading.context].bit_select(reading.step, 1)
                    & Mux(taken, kept[1], kept[0])
                ),
                at.eq(Mux(taken, behind, wanted)),
            ]
        m.d.comb += [
            flit_read.addr.eq(at),
            flit_read.en.eq(request.valid & here),
            onward.valid.eq(request.valid & ~here),
            onward.payload.eq(request.payload),
            request.ready.eq(onward.ready | here),
            self.forwarded.eq(taken & reading.chase & here),
            self.read_back.eq(taken & reading.chase & ~here),
        ]

        # Answer when the SRAM would.
        assert SRAM_READ_LATENCY == 2
        found = Signal()
        answered = Signal()
        answer = Signal(8 * self.flit_bytes)
        m.d.sync += [found.eq(request.valid & here), answered.eq(found)]
        with m.If(found):
            m.d.sync += answer.eq(flit_read.data)
        m.d.comb += [
            self.read.valid.eq(answered | self.sram.valid),
            self.read.data.eq(Mux(answered, answer, self.sram.data)),
        ]
        return m

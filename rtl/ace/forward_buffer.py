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
    is read from SRAM. So where a flit must lie there is that flit or a younger one, and the SRAM
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
    written in cycle t can be read from t + 1 on. Decided here.

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
        m.submodules.flits = flits = memory.Memory(
            shape=unsigned(8 * self.flit_bytes), depth=self.depth, init=[]
        )
        m.submodules.addresses = addresses = memory.Memory(
            shape=unsigned(self.address_bits), depth=self.depth, init=[]
        )
        flit_write, flit_read = flits.write_port(), flits.read_port()
        address_write, address_read = addresses.write_port(), addresses.read_port(domain="comb")

        # Receive.
        newest = Signal(place)
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
            address_write.addr.eq(newest),
            address_write.data.eq(received.address),
            address_write.en.eq(received.valid),
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

        # Send on.
        wanted = Signal(place)
        here = Signal()
        request, onward = self.read.request, self.sram.request
        taken = Signal()
        m.d.comb += [
            wanted.eq(begin[self.reading.context][self.reading.step] + self.reading.index),
            address_read.addr.eq(wanted),
            flit_read.addr.eq(wanted),
            flit_read.en.eq(request.valid & here),
            here.eq(
                self.reading.chase
                & whole[self.reading.context].bit_select(self.reading.step, 1)
                & (address_read.data == request.payload)
            ),
            onward.valid.eq(request.valid & ~here),
            onward.payload.eq(request.payload),
            request.ready.eq(onward.ready | here),
            taken.eq(request.valid & request.ready & self.reading.chase),
            self.forwarded.eq(taken & here),
            self.read_back.eq(taken & ~here),
        ]

        # Answer when the SRAM would.
        assert SRAM_READ_LATENCY == 2
        reading = Signal()
        answered = Signal()
        answer = Signal(8 * self.flit_bytes)
        m.d.sync += [reading.eq(request.valid & here), answered.eq(reading)]
        with m.If(reading):
            m.d.sync += answer.eq(flit_read.data)
        m.d.comb += [
            self.read.valid.eq(answered | self.sram.valid),
            self.read.data.eq(Mux(answered, answer, self.sram.data)),
        ]
        return m

"""The way of control packets through a FRED switch: unicast, past the interconnect."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.fifo import StreamFifo
from rtl.common.packet import TrafficClass, flit_layout
from rtl.fred.configuration import INDEX_BITS, membership_layout
from rtl.fred.input_channel import packet_layout
from rtl.fred.matcher import any_of
from rtl.fred.modes import check_size
from rtl.link.transmitter import STARVATION_BOUND, check_starvation_bound

__all__ = ["ControlCrossbar", "ControlDestination"]


class ControlDestination(wiring.Component):
    """What takes the place of the configuration memory for a control packet: its header's
    ``configuration`` is the output port it goes to, its data type and operator are 0.

    Answers in the next cycle, like the memory. A port that the switch does not have is not
    ``loaded``.

    Parameters
    ----------
    ports : P
    port : the input port

    Members
    -------
    index : In, of a header
    membership : Out, in the next cycle
    """

    def __init__(self, *, ports: int, port: int):
        check_size(ports, 2)
        self.ports = ports
        self.port = port
        super().__init__({"index": In(INDEX_BITS), "membership": Out(membership_layout(ports))})

    def elaborate(self, platform) -> Module:
        m = Module()
        member = self.membership
        outputs = Signal(self.ports)
        m.d.sync += outputs.eq(Cat(self.index == p for p in range(self.ports)))
        m.d.comb += [
            member.loaded.eq(outputs.any()),
            member.member.eq(1),
            member.traffic_class.eq(TrafficClass.CONTROL),
            member.inputs.eq(1 << self.port),
            member.outputs.eq(outputs),
        ]
        return m


class ControlCrossbar(wiring.Component):
    """Carries control packets from any input to one output each.

    Every output takes whole packets, from its inputs in turn (round-robin). A flit goes when it is
    there, the other end has room, the rate of the output allows, and no data flit goes there in
    this cycle. After ``starvation_bound`` data packets have started towards the output while a
    flit waited for nothing else, the crossbar claims the output up to the end of the packet.

    A flit that goes in cycle t is handed over when ``slot`` of its output is high, which must be
    ``delay`` cycles later, so that control and data share the rate flit by flit, although the
    interconnect lies in between for data.

    Latency: a packet that is offered in cycle t to an output that is free is served from cycle
    t + 1 on. Throughput: one flit per cycle and output, with one cycle between packets.

    Parameters
    ----------
    ports : P
    flit_bytes : bytes of a flit
    most_flits : flits of the longest control packet
    credits : flits that the other end of each output has room for at reset
    delay : cycles from going to the wire, at least 2
    starvation_bound : data packets that may pass a control packet at its output

    Members
    -------
    packet, flits : of the control channel of each input
    credit : In, pulse for each output
    open : In, one bit per output: its rate lets a flit go
    data : In, one bit per output: a data flit goes there
    started : In, one bit per output: a data packet starts towards it
    claim : Out, one bit per output: no data flit may go there
    go : Out, one bit per output: a control flit goes
    slot : In, one bit per output: ``go`` of ``delay`` cycles ago
    o : Out, the flit for each output whose ``slot`` is high
    idle : Out, no packet is under way
    """

    def __init__(
        self,
        *,
        ports: int,
        flit_bytes: int,
        most_flits: int,
        credits: int,
        delay: int,
        starvation_bound: int = STARVATION_BOUND,
    ):
        check_size(ports, 2)
        if not isinstance(credits, int) or credits < 1:
            raise ValueError(f"credits must be a positive integer, not {credits!r}")
        if not isinstance(delay, int) or delay < 2:
            raise ValueError(f"delay must be an integer of at least 2, not {delay!r}")
        self.ports = ports
        self.flit_bytes = flit_bytes
        self.most_flits = most_flits
        self.credits = credits
        self.delay = delay
        self.starvation_bound = check_starvation_bound(starvation_bound)
        flit = flit_layout(flit_bytes)
        bits = unsigned(ports)
        super().__init__(
            {
                "packet": In(stream.Signature(packet_layout(ports, most_flits))).array(ports),
                "flits": In(stream.Signature(flit)).array(ports),
                "credit": In(bits),
                "open": In(bits),
                "data": In(bits),
                "started": In(bits),
                "claim": Out(bits),
                "go": Out(bits),
                "slot": In(bits),
                "o": Out(data.ArrayLayout(flit, ports)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        ports = range(self.ports)
        serving = Signal(self.ports)  # inputs whose packet is under way or being thrown away
        throwing = Signal(self.ports)
        taken = [Signal(self.ports, name=f"taken_{o}") for o in ports]  # input that begins
        drains = [Signal(self.ports, name=f"drains_{o}") for o in ports]  # input whose flit goes
        queued = Signal(self.ports)
        for p in ports:
            packet, flits = self.packet[p], self.flits[p]
            discard = Signal(name=f"discard_{p}")
            drained = any_of(drains[o][p] for o in ports)
            m.d.comb += [
                discard.eq(packet.valid & packet.payload.discard & ~serving[p]),
                packet.ready.eq(discard | any_of(taken[o][p] for o in ports)),
                flits.ready.eq(throwing[p] | drained),
            ]
            with m.If(flits.valid & flits.ready & flits.payload.last):
                m.d.sync += [serving[p].eq(0), throwing[p].eq(0)]
            with m.If(packet.ready):
                m.d.sync += [serving[p].eq(1), throwing[p].eq(discard)]
        for o in ports:
            m.d.comb += queued[o].eq(self._output(m, o, serving, taken[o], drains[o]))
        m.d.comb += self.idle.eq(~(serving | queued).any())
        return m

    def _output(self, m: Module, o: int, serving: Signal, taken: Signal, drains: Signal):
        """One output: who is served, when a flit goes, and the flits on their way to the wire."""
        ports = range(self.ports)
        asks = Signal(self.ports, name=f"asks_{o}")
        after = Signal(self.ports, name=f"after_{o}")  # inputs behind the one served last
        candidates = Signal(self.ports, name=f"candidates_{o}")
        source = Signal(self.ports, name=f"source_{o}")  # one bit, or none
        m.d.comb += [
            asks.eq(
                Cat(
                    self.packet[p].valid
                    & ~self.packet[p].payload.discard
                    & self.packet[p].payload.outputs[o]
                    & ~serving[p]
                    for p in ports
                )
            ),
            candidates.eq(Mux((asks & after).any(), asks & after, asks)),
        ]
        with m.If(~source.any()):
            m.d.comb += taken.eq(candidates & -candidates)
            m.d.sync += source.eq(taken)
            with m.If(taken.any()):
                m.d.sync += after.eq(~(taken | (taken - 1)))

        flit = Signal(flit_layout(self.flit_bytes), name=f"flit_{o}")
        credits = Signal(range(self.credits + 1), init=self.credits, name=f"credits_{o}")
        passed = Signal(range(self.starvation_bound + 1), name=f"passed_{o}")
        able = Signal(name=f"able_{o}")
        go = self.go[o]
        m.d.comb += [
            flit.eq(any_of(Mux(source[p], self.flits[p].payload.as_value(), 0) for p in ports)),
            able.eq((source & Cat(self.flits[p].valid for p in ports)).any() & credits.any()),
            self.claim[o].eq(able & (passed == self.starvation_bound)),
            go.eq(able & self.open[o] & (self.claim[o] | ~self.data[o])),
            drains.eq(Mux(go, source, 0)),
        ]
        with m.If(go != self.credit[o]):
            m.d.sync += credits.eq(Mux(go, credits - 1, credits + 1))
        with m.If(go & flit.last):
            m.d.sync += [source.eq(0), passed.eq(0)]
        with m.Elif(able & self.started[o] & (passed != self.starvation_bound)):
            m.d.sync += passed.eq(passed + 1)

        # One that comes in the cycle in which the oldest leaves finds room too.
        queue = StreamFifo(shape=flit_layout(self.flit_bytes), depth=self.delay + 1)
        m.submodules[f"queue_{o}"] = queue
        m.d.comb += [
            queue.i.valid.eq(go),
            queue.i.payload.eq(flit),
            queue.o.ready.eq(self.slot[o]),
            self.o[o].eq(queue.o.payload),
        ]
        return queue.o.valid

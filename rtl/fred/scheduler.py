"""Which packets start, and which flits go: readiness, order, alignment (docs/fred.md)."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.arith.formats import DATA_TYPE_BITS, OPERATOR_BITS
from rtl.common.packet import PacketHeader
from rtl.fred.configuration import INDEX_BITS
from rtl.fred.input_channel import packet_layout
from rtl.fred.modes import check_size

__all__ = ["FlowScheduler"]


class FlowScheduler(wiring.Component):
    """Starts packets flow by flow, one configuration at a time.

    Every input port reckons for its own flow, and all inputs of a flow reckon the same, so no
    port has to lead. Three steps, each a cycle:

    1. *Match.* A port's packet is *complete* when every input of its flow holds a packet of the
       same configuration, *aligned* when all their headers agree, and *ready* when moreover
       every output has credit for a whole packet.
    2. *Start.* Of all ready packets that of the highest class is chosen, of equal classes the
       one that comes first in the plan's order (op, step, sequence). If its configuration is the
       active one, every ready packet of that configuration starts whose ports are free;
       otherwise, all of them start when no flow is under way. A port is free in the cycle in
       which its last flit goes.
    3. *Go.* In every cycle in which all inputs of a flow have a flit and the rate of all its
       outputs allows, one flit leaves each of its inputs; else that flow alone pauses.

    Packets of one flow whose headers differ are never combined: those that come first in the
    plan's order, or all if none does, are thrown away and reported.

    Latency: packets that are all offered in cycle t, with credits there, start in cycle t + 1,
    and their first flits go in cycle t + 2. A packet that is ready in time follows its
    predecessor without a gap, in the same configuration or in another.

    Parameters
    ----------
    ports : P
    most_flits : flits of the longest packet
    credits : most credits of an output

    Members
    -------
    packet : packets at the heads of the input channels
    flit_valid : In, one bit per input: the head flit is there
    available : In, credits of each output
    open : In, one bit per output: its rate lets a flit go
    reserve : Out, credits taken from each output
    go : Out, one bit per input: its head flit is taken
    forward : Out, one bit per input: and goes into the interconnect
    leave : Out, one bit per output: it will hear one of these flits
    data_type, operator : Out, of the flow of each input
    configuration : Out, that of the flits of the next cycle
    switched : Out, pulse: the next cycle's differs from this cycle's
    misaligned : Out, pulse per input: its packet is thrown away
    waiting : Out, one bit per input: its packet is incomplete
    missing : Out, one bit per input: a packet of it is waited for
    idle : Out, no flow is under way
    """

    def __init__(self, *, ports: int, most_flits: int, credits: int):
        check_size(ports, 2)
        self.ports = ports
        self.most_flits = most_flits
        self.credits = credits
        bits = unsigned(ports)
        super().__init__(
            {
                "packet": In(stream.Signature(packet_layout(ports, most_flits))).array(ports),
                "flit_valid": In(bits),
                "available": In(range(credits + 1)).array(ports),
                "open": In(bits),
                "reserve": Out(range(credits + 1)).array(ports),
                "go": Out(bits),
                "forward": Out(bits),
                "leave": Out(bits),
                "data_type": Out(DATA_TYPE_BITS).array(ports),
                "operator": Out(OPERATOR_BITS).array(ports),
                "configuration": Out(INDEX_BITS),
                "switched": Out(1),
                "misaligned": Out(bits),
                "waiting": Out(bits),
                "missing": Out(bits),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        ports = range(self.ports)
        start = Signal(self.ports)
        discard = Signal(self.ports)
        take = Signal(self.ports)
        m.d.comb += take.eq(start | discard)
        m.d.comb += [self.packet[p].ready.eq(take[p]) for p in ports]

        ready, drop, together, before = self._match(m, take)
        free, busy = self._under_way(m, start, discard)
        self._start(m, start, discard, ready, drop, together, before, free, busy)

        for output in ports:
            reserved = Signal(range(self.most_flits + 1), name=f"reserved_{output}")
            # All inputs of a flow hold packets of one length, so an OR of them is that length.
            m.d.comb += [
                reserved.eq(
                    _any_of(
                        Mux(
                            start[p] & self.packet[p].payload.outputs[output],
                            self.packet[p].payload.flits,
                            0,
                        )
                        for p in ports
                    )
                ),
                self.reserve[output].eq(reserved),
            ]
        return m

    def _match(self, m: Module, take: Signal):
        """Step 1. Registers: ready and faulty packets, equal configurations, who comes first."""
        ports = range(self.ports)
        packets = [self.packet[p].payload for p in ports]
        headers = [packet.header for packet in packets]
        sound = Signal(self.ports)
        m.d.comb += sound.eq(Cat(self.packet[p].valid & ~packets[p].discard for p in ports))
        together = [Signal(self.ports, name=f"together_{p}") for p in ports]
        agree = [Signal(self.ports, name=f"agree_{p}") for p in ports]
        earlier = [Signal(self.ports, name=f"earlier_{p}") for p in ports]  # p's before q's
        before = [Signal(self.ports, name=f"before_{p}") for p in ports]  # p's is preferred
        for p in ports:
            m.d.comb += [together[p][p].eq(sound[p]), agree[p][p].eq(1)]
            for q in range(p):
                # Serial numbers: they wrap, so the sign of their difference decides.
                difference = (_order(headers[p]) - _order(headers[q]))[: len(_order(headers[p]))]
                distance = Signal(len(difference), name=f"distance_{p}_{q}")
                same = Signal(name=f"same_{p}_{q}")
                higher = headers[p].traffic_class < headers[q].traffic_class
                equal = headers[p].traffic_class == headers[q].traffic_class
                m.d.comb += [
                    distance.eq(difference),
                    earlier[p][q].eq(distance[-1]),
                    earlier[q][p].eq(~distance[-1] & distance.any()),
                    before[p][q].eq(higher | (equal & earlier[p][q])),
                    before[q][p].eq(~before[p][q]),
                    same.eq(
                        sound[p] & sound[q] & (headers[p].configuration == headers[q].configuration)
                    ),
                    together[p][q].eq(same),
                    together[q][p].eq(same),
                    agree[p][q].eq(_compared(headers[p]) == _compared(headers[q])),
                    agree[q][p].eq(agree[p][q]),
                ]

        ready, drop = Signal(self.ports), Signal(self.ports)
        complete = Signal(self.ports)
        aligned = Signal(self.ports)
        for p, packet in enumerate(packets):
            covered = Cat(self.available[output] >= packet.flits for output in ports)
            first = ~(packet.inputs & Cat(earlier[q][p] for q in ports)).any()
            m.d.comb += [
                complete[p].eq(sound[p] & (~packet.inputs | together[p]).all()),
                aligned[p].eq((~packet.inputs | agree[p]).all()),
            ]
            m.d.sync += [
                ready[p].eq(
                    complete[p] & aligned[p] & (~packet.outputs | covered).all() & ~take[p]
                ),
                drop[p].eq(
                    ~take[p]
                    & self.packet[p].valid
                    & (packet.discard | (complete[p] & ~aligned[p] & first))
                ),
            ]
        known_together = [Signal(self.ports, name=f"known_together_{p}") for p in ports]
        known_before = [Signal(self.ports, name=f"known_before_{p}") for p in ports]
        m.d.sync += [known_together[p].eq(together[p]) for p in ports]
        m.d.sync += [known_before[p].eq(before[p]) for p in ports]
        m.d.comb += [
            self.waiting.eq(sound & ~complete),
            self.missing.eq(
                _any_of(Mux(sound[p], packets[p].inputs & ~together[p], 0) for p in ports)
            ),
            self.misaligned.eq(Cat(take[p] & drop[p] & ~packets[p].discard for p in ports)),
        ]
        return ready, drop, known_together, known_before

    def _start(self, m, start, discard, ready, drop, together, before, free, busy) -> None:
        """Step 2. Choose a configuration and start what is ready in it."""
        ports = range(self.ports)
        packets = [self.packet[p].payload for p in ports]
        active = Signal(INDEX_BITS)
        any_active = Signal()

        # With numbers that lie more than half their range apart there may be no first one.
        unbeaten = Signal(self.ports)
        m.d.comb += unbeaten.eq(
            Cat(ready[p] & ~(ready & Cat(before[q][p] for q in ports)).any() for p in ports)
        )
        candidates = Signal(self.ports)
        chosen = Signal(self.ports)
        m.d.comb += [
            candidates.eq(Mux(unbeaten.any(), unbeaten, ready)),
            chosen.eq(candidates & -candidates),
        ]
        index = Signal(INDEX_BITS)
        allowed = Signal(self.ports)
        stay, proceed = Signal(), Signal()
        m.d.comb += [
            index.eq(_any_of(Mux(chosen[p], packets[p].header.configuration, 0) for p in ports)),
            allowed.eq(_any_of(Mux(chosen[p], together[p], 0) for p in ports)),
            stay.eq(any_active & (index == active)),
            proceed.eq(stay | ~busy),
            start.eq(
                Cat(
                    ready[p] & allowed[p] & proceed & (~packets[p].inputs | free).all()
                    for p in ports
                )
            ),
            discard.eq(drop & free),
            self.switched.eq(start.any() & ~stay),
            self.configuration.eq(Mux(start.any(), index, active)),
        ]
        with m.If(start.any()):
            m.d.sync += [active.eq(index), any_active.eq(1)]

    def _under_way(self, m: Module, start: Signal, discard: Signal) -> tuple[Signal, Signal]:
        """Step 3. The flows under way; which ports are free, and whether a flow keeps on."""
        ports = range(self.ports)
        free, keeps_on = Signal(self.ports), Signal(self.ports)
        moving = Signal(self.ports)  # a flow goes on from here
        throwing = Signal(self.ports)
        go = Signal(self.ports)
        outputs = [Signal(self.ports, name=f"outputs_{p}") for p in ports]
        for p in ports:
            packet = self.packet[p].payload
            inputs = Signal(self.ports, name=f"inputs_{p}")
            left = Signal(range(self.most_flits + 1), name=f"left_{p}")
            last = Signal(name=f"last_{p}")
            can_go = (~inputs | self.flit_valid).all() & (~outputs[p] | self.open).all()
            m.d.comb += [
                go[p].eq((moving[p] & can_go) | (throwing[p] & self.flit_valid[p])),
                free[p].eq(~(moving[p] | throwing[p]) | (go[p] & last)),
                keeps_on[p].eq(moving[p] & ~(go[p] & last)),
            ]
            with m.If(go[p]):
                m.d.sync += [left.eq(left - 1), last.eq(left == 2)]
                with m.If(last):
                    m.d.sync += [moving[p].eq(0), throwing[p].eq(0)]
            with m.If(start[p] | discard[p]):
                m.d.sync += [
                    moving[p].eq(start[p]),
                    throwing[p].eq(discard[p]),
                    left.eq(packet.flits),
                    last.eq(0),
                ]
            with m.If(start[p]):
                m.d.sync += [
                    inputs.eq(packet.inputs),
                    outputs[p].eq(packet.outputs),
                    self.data_type[p].eq(packet.header.data_type),
                    self.operator[p].eq(packet.header.operator),
                ]
        m.d.comb += [
            self.go.eq(go),
            self.forward.eq(go & moving),
            self.leave.eq(_any_of(Mux(go[p] & moving[p], outputs[p], 0) for p in ports)),
            self.idle.eq(~(moving | throwing).any()),
        ]
        return free, keeps_on.any()


def _order(header: data.View) -> Value:
    """The place of a packet in the plan's order: op, then step, then sequence."""
    return Cat(header.sequence, header.step, header.op)


def _compared(header: data.View) -> Value:
    """What must agree among the packets of a flow: all but the link's replay number."""
    return Cat(header[name] for name, _ in PacketHeader.as_shape() if name != "replay")


def _any_of(values) -> Value:
    """OR of some values."""
    result = 0
    for value in values:
        result = result | value
    return result

"""Which packets of a class are ready, and which of them comes first (docs/fred.md)."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import PacketHeader
from rtl.fred.input_channel import packet_layout
from rtl.fred.modes import check_size

__all__ = ["FlowMatcher", "any_of"]


class FlowMatcher(wiring.Component):
    """Compares the packets at the heads of one channel of all inputs.

    Every input reckons for its own flow, and all inputs of a flow reckon the same, so none has to
    lead. A packet is *complete* when every input of its flow holds a packet of the same
    configuration, *aligned* when all their headers agree, and *ready* when moreover every output
    has credit for a whole packet. ``ready`` and ``drop`` show in the next cycle what holds in
    this one, unless the packet is taken in it. So all comparisons stand in front of registers,
    and only the choice behind them.

    Packets of one flow whose headers differ are never combined: those that come first in the
    plan's order (op, step, sequence; serial numbers that wrap), or all if none does, are dropped.

    Parameters
    ----------
    ports : P
    most_flits : flits of the longest packet
    credits : most credits of an output

    Members
    -------
    valid, packet : In, the packet at the head of each input
    take : In, one bit per input: its packet starts or is thrown away
    available : In, credits of each output
    ready : Out, one bit per input: its packet may start
    drop : Out, one bit per input: its packet must be thrown away
    first : Out, one bit: the input whose packet, of the ready ones, has the highest class and
        comes first in the plan's order
    misaligned : Out, pulse per input: its packet is thrown away because the headers differ
    waiting : Out, one bit per input: its packet is incomplete
    missing : Out, one bit per input: a packet of it is waited for
    """

    def __init__(self, *, ports: int, most_flits: int, credits: int):
        check_size(ports, 2)
        self.ports = ports
        self.most_flits = most_flits
        self.credits = credits
        bits = unsigned(ports)
        super().__init__(
            {
                "valid": In(bits),
                "packet": In(packet_layout(ports, most_flits)).array(ports),
                "take": In(bits),
                "available": In(range(credits + 1)).array(ports),
                "ready": Out(bits),
                "drop": Out(bits),
                "first": Out(bits),
                "misaligned": Out(bits),
                "waiting": Out(bits),
                "missing": Out(bits),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        ports = range(self.ports)
        packets = self.packet
        headers = [packet.header for packet in packets]
        sound = Signal(self.ports)
        m.d.comb += sound.eq(self.valid & ~Cat(packet.discard for packet in packets))
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

        complete, aligned = Signal(self.ports), Signal(self.ports)
        for p, packet in enumerate(packets):
            covered = Cat(self.available[output] >= packet.flits for output in ports)
            faulty, misfit = Signal(name=f"faulty_{p}"), Signal(name=f"misfit_{p}")
            rivals = Signal(self.ports, name=f"rivals_{p}")  # of its flow, and before it
            m.d.comb += [
                complete[p].eq(sound[p] & (~packet.inputs | together[p]).all()),
                aligned[p].eq((~packet.inputs | agree[p]).all()),
            ]
            m.d.sync += [
                self.ready[p].eq(
                    complete[p] & aligned[p] & (~packet.outputs | covered).all() & ~self.take[p]
                ),
                faulty.eq(~self.take[p] & self.valid[p] & packet.discard),
                misfit.eq(~self.take[p] & complete[p] & ~aligned[p]),
                rivals.eq(packet.inputs & Cat(earlier[q][p] for q in ports)),
            ]
            m.d.comb += self.drop[p].eq(faulty | (misfit & ~rivals.any()))
        m.d.comb += [
            self.waiting.eq(sound & ~complete),
            self.missing.eq(
                any_of(Mux(sound[p], packets[p].inputs & ~together[p], 0) for p in ports)
            ),
            self.misaligned.eq(self.take & self.drop & ~Cat(packet.discard for packet in packets)),
        ]
        self._first(m, before)
        return m

    def _first(self, m: Module, before: list[Signal]) -> None:
        """The ready packet that no other comes before, as of the cycle in which it got ready."""
        ports = range(self.ports)
        known = [Signal(self.ports, name=f"known_before_{p}") for p in ports]
        m.d.sync += [known[p].eq(before[p]) for p in ports]
        # With numbers that lie more than half their range apart there may be no first one.
        unbeaten, candidates = Signal(self.ports), Signal(self.ports)
        m.d.comb += [
            unbeaten.eq(
                Cat(
                    self.ready[p] & ~(self.ready & Cat(known[q][p] for q in ports)).any()
                    for p in ports
                )
            ),
            candidates.eq(Mux(unbeaten.any(), unbeaten, self.ready)),
            self.first.eq(candidates & -candidates),
        ]


def any_of(values) -> Value:
    """OR of some values."""
    result = 0
    for value in values:
        result = result | value
    return result


def _order(header: data.View) -> Value:
    """The place of a packet in the plan's order: op, then step, then sequence."""
    return Cat(header.sequence, header.step, header.op)


def _compared(header: data.View) -> Value:
    """What must agree among the packets of a flow: all but the link's replay number, and that one
    sender has given the collective up before the others heard of it."""
    free = ("replay", "poisoned")
    return Cat(header[name] for name, _ in PacketHeader.as_shape() if name not in free)

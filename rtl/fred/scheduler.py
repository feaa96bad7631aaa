"""Which packets start, and which flits go: classes, configurations, ports (docs/fred.md)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.arith.formats import DATA_TYPE_BITS, OPERATOR_BITS
from rtl.fred.configuration import INDEX_BITS
from rtl.fred.input_channel import packet_layout
from rtl.fred.matcher import FlowMatcher, any_of
from rtl.fred.modes import check_size
from rtl.link.transmitter import STARVATION_BOUND, check_starvation_bound
from rtl.link.wire import check_channels

__all__ = ["FlowScheduler"]


class FlowScheduler(wiring.Component):
    """Starts packets flow by flow, one configuration at a time.

    Each port has one *input* per channel; channels stand in falling priority, and share nothing
    but the port's way into the interconnect. Three steps, each a cycle:

    1. *Match*, in each channel: see :class:`~rtl.fred.matcher.FlowMatcher`.
    2. *Start.* Of all ready packets one is chosen: that of a channel that has waited for
       ``starvation_bound`` packets of others to start since its first packet was ready, these in
       turn; else that of the highest channel; in the channel the first in the plan's order. So
       ``starvation_bound + channels - 1`` starts pass a channel at most. If its configuration
       is the active one, every ready packet of that configuration, in every channel, starts whose
       ports are free; otherwise, all of them start when no flow is under way. A port is free in
       the cycle in which its last flit goes.
    3. *Go.* In every cycle in which all inputs of a flow have a flit and the rate of all its
       outputs allows, one flit leaves each of its inputs; else that flow alone pauses.

    Latency: packets that are all offered in cycle t, with credits there, start in cycle t + 1,
    and their first flits go in cycle t + 2. A packet that is ready in time follows its
    predecessor without a gap, in the same configuration and channel or in another.

    Parameters
    ----------
    ports : P
    most_flits : flits of the longest packet
    credits : most credits of an output, in any channel
    channels : virtual channels
    starvation_bound : packets that may pass a ready one of a lower channel, at least 1

    Members
    -------
    Input ``channel * ports + port`` is that channel of that port; so is output, where each channel
    of a port counts by itself.

    packet : packets at the heads of the inputs
    flit_valid : In, one bit per input: the head flit is there
    available : In, credits of each output
    open : In, one bit per port: its rate lets a flit go
    reserve : Out, credits taken from each output
    go : Out, one bit per input: its head flit is taken
    forward : Out, one bit per input: and goes into the interconnect
    moving : Out, one bit per input: a flow is under way from it, so a head flit that goes in this
        cycle goes into the interconnect; at most one channel of a port, and a register
    leave : Out, one bit per output: its port will hear one of these flits
    data_type, operator : Out, of the flow of each port
    configuration : Out, that of the packets that start in this cycle, if any does
    started : Out, pulse: some do
    switched : Out, pulse: some do, in another configuration than the last ones
    misaligned : Out, pulse per input: its packet is thrown away
    waiting : Out, one bit per input: its packet is incomplete
    missing : Out, one bit per input: a packet of it is waited for
    idle : Out, one bit per channel: no flow is under way
    """

    def __init__(
        self,
        *,
        ports: int,
        most_flits: int,
        credits: int,
        channels: int = 1,
        starvation_bound: int = STARVATION_BOUND,
    ):
        check_size(ports, 2)
        self.ports = ports
        self.most_flits = most_flits
        self.credits = credits
        self.channels = check_channels(channels)
        self.starvation_bound = check_starvation_bound(starvation_bound)
        inputs = ports * channels
        bits = unsigned(inputs)
        super().__init__(
            {
                "packet": In(stream.Signature(packet_layout(ports, most_flits))).array(inputs),
                "flit_valid": In(bits),
                "available": In(range(credits + 1)).array(inputs),
                "open": In(unsigned(ports)),
                "reserve": Out(range(credits + 1)).array(inputs),
                "go": Out(bits),
                "forward": Out(bits),
                "moving": Out(bits),
                "leave": Out(bits),
                "data_type": Out(DATA_TYPE_BITS).array(ports),
                "operator": Out(OPERATOR_BITS).array(ports),
                "configuration": Out(INDEX_BITS),
                "started": Out(1),
                "switched": Out(1),
                "misaligned": Out(bits),
                "waiting": Out(bits),
                "missing": Out(bits),
                "idle": Out(channels),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        inputs = self.ports * self.channels
        start, discard, ready, drop = (
            Signal(inputs, name=name) for name in ("start", "discard", "ready", "drop")
        )
        m.d.comb += [self.packet[k].ready.eq(start[k] | discard[k]) for k in range(inputs)]

        keeps_on, keeps_throwing = self._under_way(m, start, discard)
        first = self._match(m, start | discard, keeps_throwing, ready, drop)
        port_free, able = Signal(self.ports), Signal(inputs)
        m.d.comb += [
            port_free.eq(~any_of(self._of(keeps_on, c) for c in range(self.channels))),
            able.eq(
                Cat(
                    ready[k] & (~head.payload.inputs | port_free).all()
                    for k, head in enumerate(self.packet)
                )
            ),
            discard.eq(drop & ~(keeps_on | keeps_throwing)),
        ]
        self._start(m, start, ready, able, first, keeps_on.any())

        for c in range(self.channels):
            for output in range(self.ports):
                reserved = Signal(range(self.most_flits + 1), name=f"reserved_{c}_{output}")
                packets = [(k, self.packet[k].payload) for k in self._inputs(c)]
                # All inputs of a flow hold packets of one length, so an OR of them is that length.
                m.d.comb += [
                    reserved.eq(
                        any_of(
                            Mux(start[k] & packet.outputs[output], packet.flits, 0)
                            for k, packet in packets
                        )
                    ),
                    self.reserve[c * self.ports + output].eq(reserved),
                ]
        return m

    def _inputs(self, channel: int) -> range:
        return range(channel * self.ports, (channel + 1) * self.ports)

    def _of(self, bits, channel: int):
        """The part of a channel in a word with one bit per input."""
        return bits[channel * self.ports : (channel + 1) * self.ports]

    def _match(self, m: Module, take, hidden, ready: Signal, drop: Signal) -> list[Signal]:
        """Step 1, by channel: registers. Gives the first ready input of each channel.

        What lies behind a packet that is being thrown away is ``hidden``: it must not be chosen
        before it can start, since it would hold up the others.
        """
        first = []
        for c in range(self.channels):
            matcher = FlowMatcher(
                ports=self.ports, most_flits=self.most_flits, credits=self.credits
            )
            m.submodules[f"matcher_{c}"] = matcher
            heads = [self.packet[k] for k in self._inputs(c)]
            m.d.comb += [
                matcher.valid.eq(Cat(head.valid for head in heads) & ~self._of(hidden, c)),
                matcher.take.eq(self._of(take, c)),
                self._of(ready, c).eq(matcher.ready),
                self._of(drop, c).eq(matcher.drop),
                self._of(self.misaligned, c).eq(matcher.misaligned),
                self._of(self.waiting, c).eq(matcher.waiting),
                self._of(self.missing, c).eq(matcher.missing),
            ]
            for p, k in enumerate(self._inputs(c)):
                m.d.comb += [
                    matcher.packet[p].eq(heads[p].payload),
                    matcher.available[p].eq(self.available[k]),
                ]
            first.append(matcher.first)
        return first

    def _start(self, m, start, ready, able, first: list[Signal], busy) -> None:
        """Step 2. Choose a configuration and start what can start in it."""
        wanted = [head.payload.header.configuration for head in self.packet]
        active = Signal(INDEX_BITS)
        any_active = Signal()
        just_started = Signal()  # something started in the cycle before: it has more flits
        chosen, is_active = Signal(len(wanted)), Signal(len(wanted))
        early, turn = self._turns(m, start, ready, first)
        m.d.comb += [
            chosen.eq(Cat(Mux(early[c], bits, 0) for c, bits in enumerate(first))),
            is_active.eq(Cat(index == active for index in wanted)),
        ]
        # Configurations are compared before one is chosen: of the heads with each other, with the
        # step before, and of each with the active one.
        alike = [
            [Const(1) if j == k else None for k in range(len(wanted))] for j in range(len(wanted))
        ]
        for j, one in enumerate(wanted):
            for k, other in enumerate(wanted[:j]):
                alike[j][k] = alike[k][j] = same = Signal(name=f"alike_{j}_{k}")
                m.d.sync += same.eq(one == other)
        stay = Signal()
        m.d.comb += [
            self.configuration.eq(
                Mux(
                    just_started,
                    active,
                    any_of(Mux(chosen[k], index, 0) for k, index in enumerate(wanted)),
                )
            ),
            stay.eq(
                any_active
                & any_of(
                    turn[c] & (bits & self._of(is_active, c)).any() for c, bits in enumerate(first)
                )
            ),
            start.eq(
                Cat(
                    able[k] & ((stay & is_active[k]) | (~busy & (chosen & Cat(alike[k])).any()))
                    for k in range(len(wanted))
                )
            ),
            self.started.eq(start.any()),
            self.switched.eq(start.any() & ~stay),
        ]
        m.d.sync += just_started.eq(start.any())
        with m.If(start.any()):
            m.d.sync += [active.eq(self.configuration), any_active.eq(1)]

    def _turns(self, m: Module, start: Signal, ready: Signal, first: list[Signal]):
        """The channel whose first packet's configuration comes next, one bit; see
        :class:`FlowScheduler`.

        Twice: what started in the cycle before is counted in this one, so it is known late. The
        ``early`` one holds where nothing did. Where something did, a flow is under way, and it only
        matters whether the active configuration stays.
        """
        if self.channels == 1:
            return [Const(1)], [Const(1)]
        channels = range(self.channels)
        waits, urgent = Signal(self.channels), Signal(self.channels)
        # Those that are due come in turn, or two of them could keep out all others.
        behind = Signal(self.channels)
        early, turn = Signal(self.channels), Signal(self.channels)
        overdue = Signal(self.channels)  # without those that have started in the cycle before
        m.d.comb += waits.eq(Cat(self._of(ready, c).any() for c in channels))
        for chosen, due in ((early, waits & overdue), (turn, waits & urgent)):
            candidates = Signal(self.channels, name=f"{chosen.name}_candidates")
            m.d.comb += [
                candidates.eq(Mux(due.any(), Mux((due & behind).any(), due & behind, due), waits)),
                chosen.eq(candidates & -candidates),
            ]
        # Packets that start in this cycle, each counted at the lowest port of its inputs. A port
        # starts one at most, so those of several channels make one word.
        leads = [
            Cat(
                start[k] & ~self.packet[k].payload.inputs[:p].any()
                for p, k in enumerate(self._inputs(c))
            )
            for c in channels
        ]
        for c in channels:
            # What starts is known late, so it is counted in the next cycle, in time for its choice.
            left = Signal(
                range(self.starvation_bound + 1), init=self.starvation_bound, name=f"left_{c}"
            )
            fresh = Signal(self.ports, name=f"fresh_{c}")
            passed = Signal(range(self.ports + 1), name=f"passed_{c}")
            served = Signal(name=f"served_{c}")
            m.d.comb += [
                passed.eq(sum(fresh[1:], fresh[0])),
                overdue[c].eq(left == 0),
                urgent[c].eq(any_of((left <= k) & some for k, some in enumerate(_at_least(fresh)))),
                served.eq((self._of(start, c) & first[c]).any()),
            ]
            m.d.sync += [
                left.eq(Mux(urgent[c], 0, left - passed)),
                fresh.eq(Mux(waits[c], any_of(leads[d] for d in channels if d != c), 0)),
            ]
            with m.If(served):
                m.d.sync += [left.eq(self.starvation_bound), fresh.eq(0)]
                with m.If(urgent[c]):
                    m.d.sync += behind.eq(~((2 << c) - 1))
        return early, turn

    def _under_way(self, m: Module, start: Signal, discard: Signal):
        """Step 3. By input: whether a flow is under way, or a faulty packet, and has more flits
        than the one that goes in this cycle."""
        inputs = self.ports * self.channels
        keeps_on, keeps_throwing = Signal(inputs), Signal(inputs)
        moving = self.moving
        throwing = Signal(inputs)
        go = Signal(inputs)
        outputs = [Signal(self.ports, name=f"outputs_{k}") for k in range(inputs)]
        for k in range(inputs):
            c, p = divmod(k, self.ports)
            packet = self.packet[k].payload
            own = Signal(self.ports, name=f"inputs_{k}")
            left = Signal(range(self.most_flits + 1), name=f"left_{k}")
            last = Signal(name=f"last_{k}")
            can_go = (~own | self._of(self.flit_valid, c)).all() & (~outputs[k] | self.open).all()
            m.d.comb += [
                go[k].eq((moving[k] & can_go) | (throwing[k] & self.flit_valid[k])),
                keeps_on[k].eq(moving[k] & ~(go[k] & last)),
                keeps_throwing[k].eq(throwing[k] & ~(go[k] & last)),
            ]
            with m.If(go[k]):
                m.d.sync += [left.eq(left - 1), last.eq(left == 2)]
                with m.If(last):
                    m.d.sync += [moving[k].eq(0), throwing[k].eq(0)]
            with m.If(start[k] | discard[k]):
                m.d.sync += [
                    moving[k].eq(start[k]),
                    throwing[k].eq(discard[k]),
                    left.eq(packet.flits),
                    last.eq(0),
                ]
            with m.If(start[k]):
                m.d.sync += [
                    own.eq(packet.inputs),
                    outputs[k].eq(packet.outputs),
                    self.data_type[p].eq(packet.header.data_type),
                    self.operator[p].eq(packet.header.operator),
                ]
        m.d.comb += [self.go.eq(go), self.forward.eq(go & moving)]
        for c in range(self.channels):
            m.d.comb += [
                self._of(self.leave, c).eq(
                    any_of(Mux(go[k] & moving[k], outputs[k], 0) for k in self._inputs(c))
                ),
                self.idle[c].eq(~(self._of(moving, c) | self._of(throwing, c)).any()),
            ]
        return keeps_on, keeps_throwing


def _at_least(bits: Value) -> list[Value]:
    """For every number up to that of the bits: at least so many of them are set."""
    if len(bits) == 1:
        return [Const(1), bits[0]]
    low, high = (_at_least(part) for part in (bits[: len(bits) // 2], bits[len(bits) // 2 :]))
    return [
        any_of(low[k] & high[number - k] for k in range(len(low)) if 0 <= number - k < len(high))
        for number in range(len(bits) + 1)
    ]

"""The scheduler of a FRED switch: who may hold an output, and that no class waits for ever."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib.wiring import In

from rtl.fred.scheduler import FlowScheduler
from testbenches.formal.property import Property

__all__ = ["SchedulerIsFair", "SchedulerIsSafe"]

FlowPorts = tuple[Collection[int], Collection[int], int]
OP_BITS = 2


class _Scheduled(Property):
    """A scheduler with packets of given configurations at its inputs, and credits.

    What a head is, is free: its configuration, op, number of flits, whether it is faulty; it stays
    until it is taken. Flits come, outputs open and credits come back in any cycle, but never more
    credits than were used.

    Parameters
    ----------
    scheduler : whose longest packet has 3 flits
    configurations : for each the flows, as input ports, output ports and channel; every port is an
        input of one. A packet in another channel than its flow's is faulty, as the input channels
        see to it
    faults : whether packets may be faulty
    """

    def __init__(
        self,
        scheduler: FlowScheduler,
        configurations: Sequence[Sequence[FlowPorts]],
        *,
        faults: bool = True,
    ):
        self.scheduler = scheduler
        self.configurations = configurations
        self.faults = faults
        self.inputs = scheduler.ports * scheduler.channels
        free = {
            "valid": self.inputs,
            "long": self.inputs,
            "faulty": self.inputs,
            "flit_valid": self.inputs,
            "credit": self.inputs,
            "open": scheduler.ports,
            "configuration": self.inputs * (len(configurations) - 1).bit_length(),
            "op": self.inputs * OP_BITS,
        }
        super().__init__({name: In(width) for name, width in free.items()})

    def _flow(self, configuration: int, port: int) -> tuple[int, int, int]:
        """Ports at both sides, one bit each, and channel of the flow that has an input port."""
        sources, sinks, channel = next(
            flow for flow in self.configurations[configuration] if port in flow[0]
        )
        return sum(1 << p for p in sources), sum(1 << p for p in sinks), channel

    def surroundings(self, m: Module) -> None:
        """Heads and credits.

        Then ``head`` holds what each head is, ``available`` the credits, ``start`` and ``discard``
        what the scheduler does, ``flow`` the last head of each input that was taken, ``left`` how
        many of its flits are still to go, ``under_way`` whether it started or was thrown away.
        """
        scheduler = self.scheduler
        m.submodules.scheduler = scheduler
        ports = scheduler.ports
        self.start = self.probe(m, "scheduler.start", self.inputs)
        bits = (len(self.configurations) - 1).bit_length()
        m.d.comb += [scheduler.flit_valid.eq(self.flit_valid), scheduler.open.eq(self.open)]
        self.discard = self.probe(m, "scheduler.discard", self.inputs)
        self.under_way, self.thrown = Signal(self.inputs), Signal(self.inputs)
        self.head: list[Value] = []
        self.available: list[Signal] = []
        self.flow: list[Signal] = []
        self.left: list[Signal] = []
        for k in range(self.inputs):
            channel, port = divmod(k, ports)
            index = self.configuration.word_select(k, bits)
            op = self.op.word_select(k, OP_BITS)
            packet, flits = scheduler.packet[k], Mux(self.long[k], 3, 2)
            payload = packet.payload
            faulty = Signal(name=f"bad_{k}")
            own_channel = Signal(name=f"own_channel_{k}")
            m.d.comb += [
                packet.valid.eq(self.valid[k]),
                payload.header.configuration.eq(index),
                payload.header.op.eq(op),
                payload.header.length.eq(flits),
                payload.header.traffic_class.eq(channel),
                payload.flits.eq(flits),
                payload.discard.eq(faulty),
                faulty.eq((self.faulty[k] if self.faults else 0) | ~own_channel),
                Assume(index < len(self.configurations)),
                Assume(own_channel | self.faults),
            ]
            for number in range(len(self.configurations)):
                with m.If(index == number):
                    sources, sinks, of_flow = self._flow(number, port)
                    m.d.comb += [
                        payload.inputs.eq(sources),
                        payload.outputs.eq(sinks),
                        own_channel.eq(of_flow == channel),
                    ]
            offered = Signal(1 + bits + OP_BITS + 2, name=f"offered_{k}")
            m.d.comb += offered.eq(Cat(1, index, op, self.long[k], faulty))
            kept = self.was(m, Mux(self.valid[k] & ~packet.ready, offered, 0), f"kept_{k}")
            m.d.comb += Assume(~kept[0] | (self.valid[k] & (offered == kept)))
            self.head.append(Cat(payload.inputs, payload.outputs, index, op, self.long[k]))

            available = Signal.like(scheduler.available[k], init=scheduler.credits)
            m.d.comb += [
                scheduler.available[k].eq(available),
                Assume(~self.credit[k] | (available != scheduler.credits)),
            ]
            m.d.sync += available.eq(available + self.credit[k] - scheduler.reserve[k])
            self.available.append(available)
            self._take(m, k)

    def _take(self, m: Module, k: int) -> None:
        """Follow the packet that input ``k`` has given."""
        own = Signal.like(self.head[k], name=f"flow_{k}")
        count = Signal(2, name=f"left_{k}")
        with m.If(self.start[k] | self.discard[k]):
            m.d.sync += [
                own.eq(self.head[k]),
                count.eq(self.scheduler.packet[k].payload.flits),
                self.under_way[k].eq(self.start[k]),
                self.thrown[k].eq(self.discard[k]),
            ]
        with m.Elif(self.scheduler.go[k]):
            m.d.sync += count.eq(count - 1)
            with m.If(count == 1):
                m.d.sync += [self.under_way[k].eq(0), self.thrown[k].eq(0)]
        self.flow.append(own)
        self.left.append(count)


class SchedulerIsSafe(_Scheduled):
    """What starts may start, and nothing is lost or doubled.

    * A start: all inputs of a flow in the same cycle, with heads that agree and are not faulty,
      credit for the whole packet at every output; every output is reserved its flits, no more.
    * Under way: one configuration; no output and no input port has two flows; the inputs of a
      flow go together, when each has a flit and all its outputs are open.
    * A packet that has been taken gives exactly its flits before the next one of its input.
    """

    def state(self, m: Module) -> None:
        self.surroundings(m)
        scheduler = self.scheduler
        ports, under_way, flow, left = scheduler.ports, self.under_way, self.flow, self.left
        taken = self.start | self.discard
        for k in range(self.inputs):
            packet = scheduler.packet[k]
            m.d.comb += [
                Assert(packet.ready == taken[k]),
                Assert(~taken[k] | (packet.valid & (left[k] == scheduler.go[k]))),
                Assert(~scheduler.go[k] | (left[k] != 0)),
                Assert(~scheduler.go[k] | self.flit_valid[k]),
                Assert(scheduler.moving[k] == under_way[k]),
                Assert(scheduler.forward[k] == (scheduler.go[k] & under_way[k])),
                Assert(~(self.start[k] & self.discard[k])),
                Assert(~(self.start[k] & packet.payload.discard)),
            ]
        outputs = [own[ports : 2 * ports] for own in flow]
        for k in range(self.inputs):
            channel, port = divmod(k, ports)
            for j in range(self.inputs):
                if j == k:
                    continue
                both = under_way[k] & under_way[j]
                same_channel = j // ports == channel
                joined = flow[k][j % ports] if same_channel else 0
                m.d.comb += [
                    Assert(~both | (flow[k][2 * ports] == flow[j][2 * ports])),
                    Assert(~both | joined | ((outputs[k] & outputs[j]) == 0)),
                ]
                if j % ports == port:
                    m.d.comb += Assert(~both)
                if same_channel:
                    starts_with = self.start[k] & scheduler.packet[k].payload.inputs[j % ports]
                    member = under_way[k] & flow[k][j % ports]
                    m.d.comb += [
                        Assert(~starts_with | (self.start[j] & (self.head[j] == self.head[k]))),
                        Assert(
                            ~member
                            | (
                                (under_way[j] & (left[j] == left[k]))
                                & (scheduler.go[j] == scheduler.go[k])
                            )
                        ),
                    ]
            m.d.comb += Assert(~(under_way[k] & scheduler.go[k]) | ((outputs[k] & ~self.open) == 0))
        for place in range(self.inputs):
            channel, output = divmod(place, ports)
            goes, reserved = 0, 0
            for k in range(channel * ports, (channel + 1) * ports):
                goes |= scheduler.forward[k] & outputs[k][output]
                starts = self.start[k] & scheduler.packet[k].payload.outputs[output]
                reserved |= Mux(starts, scheduler.packet[k].payload.flits, 0)
            m.d.comb += [
                Assert(scheduler.reserve[place] == reserved),
                Assert(scheduler.reserve[place] <= self.available[place]),
                Assert(scheduler.leave[place] == goes),
            ]
        m.d.comb += [
            Cover(under_way.all() if scheduler.channels == 1 else under_way[-1]),
            Cover(self.thrown.any() & under_way.any()),
        ]


class SchedulerIsFair(_Scheduled):
    """No class is passed for ever.

    While the first packet of a class is ready and its ports are free, at most ``starvation_bound -
    1 + flows * turns`` packets of others start before one of its class, and some class is passed
    by so many. ``flows`` is the most that a configuration has of one class: so many start in a
    cycle, and ``ports`` is the most there can be. The turns are those of the cycle after which the
    class is due, and of each other class that is due before it; with two classes there is none of
    these, since the other class has just had its own. So
    ``starvation_bound + channels * ports - 1`` is never exceeded. Without faulty packets.

    A packet that waits for a port waits for a flow of the active configuration to end; other flows
    of that configuration go on meanwhile, as often as they like.
    """

    def __init__(self, scheduler: FlowScheduler, configurations: Sequence[Sequence[FlowPorts]]):
        super().__init__(scheduler, configurations, faults=False)

    @property
    def bound(self) -> int:
        """Most packets that may pass a class."""
        scheduler = self.scheduler
        flows = max(
            sum(channel == c for _, _, channel in configuration)
            for configuration in self.configurations
            for c in range(scheduler.channels)
        )
        turns = 1 if scheduler.channels == 2 else scheduler.channels
        return scheduler.starvation_bound - 1 + flows * turns

    def state(self, m: Module) -> None:
        self.surroundings(m)
        scheduler = self.scheduler
        ports = scheduler.ports
        busy = Signal(ports)  # after this cycle, with what has started before it
        for k in range(self.inputs):
            with m.If(self.under_way[k] & (self.left[k] != scheduler.go[k])):
                m.d.comb += busy[k % ports].eq(1)
        starts = []  # packets that start, each counted at the lowest input of its flow
        for k in range(self.inputs):
            lower = scheduler.packet[k].payload.inputs[: k % ports]
            starts.append(self.start[k] & ~lower.any())
        longest = Signal(scheduler.channels)
        for c in range(scheduler.channels):
            own = range(c * ports, (c + 1) * ports)
            first = self.probe(m, f"scheduler.matcher_{c}.first", ports)
            waited = Signal(range(self.bound + 2 * self.inputs), name=f"waited_{c}")
            others = sum((starts[k] for k in range(self.inputs) if k not in own), 0)
            with m.If(Cat(self.start[k] for k in own).any()):
                m.d.sync += waited.eq(0)
            able = Cat(~(scheduler.packet[k].payload.inputs & busy).any() for k in own)
            with m.Elif((first & able).any() & (waited <= self.bound)):
                m.d.sync += waited.eq(waited + others)
            m.d.comb += [
                Assert(waited <= self.bound),
                Cover(waited != 0),  # also the highest class
                longest[c].eq(waited == self.bound),
            ]
        m.d.comb += Cover(longest.any())

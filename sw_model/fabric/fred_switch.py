"""A FRED switch and its links, at message level (docs/fred.md).

One configuration is active at a time (`sw_model.fred.dim_flows`). A flow may start when all its
inputs hold its next message at their heads and every output has room; its inputs are then popped
together, and the next flow follows the last flit without draining. Most configurations hold one
flow; the unicasts of a rotation run side by side, each as soon as its own ports are free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from sw_model.endpoint.dim_engine import NEVER, DimEngine, Op
from sw_model.endpoint.programs import Send
from sw_model.engine import EventKernel
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.gate import MessageGate
from sw_model.fabric.shared_port import packets_of
from sw_model.fabric.shared_switch import SharedSwitch
from sw_model.platform import LinkParameters

__all__ = ["FredSwitch"]

Flow = tuple[tuple[int, ...], tuple[int, ...]]


class _Message:
    """A message from the choice at its sender to its pop at the switch.

    ``head`` : earliest start of its flow; ``last`` : earliest cycle in which its last flit is
    taken from the input; ``sent`` : cycle in which it has left the sender;
    ``base`` : flits that its port has sent before it; ``held`` : where classes share the port, its
    sender had taken all of it before.
    """

    __slots__ = ("base", "free", "head", "held", "key", "last", "op", "port", "send", "sent")

    def __init__(self, op: Op, send: Send, port: _Port, base: int) -> None:
        self.op = op
        self.send = send
        self.port = port
        self.key = (op.number, send.flow)
        self.base = base
        self.head = NEVER
        self.last = NEVER
        self.free = 0
        self.held = False
        self.sent = NEVER


class _Port:
    """One port: the link from its endpoint (an outlet), its input buffer, the link back."""

    __slots__ = (
        "_left", "_offered", "_pops", "_waiting", "busy", "down", "engine", "queue", "switch",
        "turns", "unread", "up",
    )  # fmt: skip

    def __init__(self, switch: FredSwitch, engine: DimEngine, number: int) -> None:
        self.switch = switch
        self.engine = engine
        shared = switch.shared
        self.turns = None if shared is None else shared.up[number]
        if shared is None or self.turns is None:
            self.up = MessageGate(switch.rate, switch.ace.run_ahead)
            self.down = MessageGate(switch.rate, 1)
        else:
            self.up = self.turns.gate
            self.down = shared.down[number]
        self.queue: deque[_Message] = deque()  # arrived or under way, not popped
        self.unread: deque[list[int]] = deque()  # [flits, cycle when read] of what had to wait
        self.busy = 0  # cycle of the last flit that its input has given
        self._left = -1  # cycle of the last flit that has left the sender, as far as it is known
        self._offered = 0
        self._waiting: tuple[_Message, int] | None = None
        self._pops: deque[tuple[int, int, int]] = deque()  # (end, first, last) of messages popped

    # Outlet

    def begin(self, op: Op, send: Send, chosen: int) -> None:
        """A message begins; without credit it waits for the switch to pop older ones."""
        assert send.after < 0, "what goes to a switch is nothing that has been received"
        if send.local:  # within the SRAM, through the same pipeline, at a flit a cycle
            ace = self.switch.ace
            self._left = last = max(chosen + ace.transmit, self._left + 1) + send.flits - 1
            self.engine.sent(op, last, max(chosen + send.flits, last - ace.run_ahead + 1))
            return
        message = _Message(op, send, self, self._offered)
        self._offered += send.flits
        self._leave(message, chosen)

    def _leave(self, message: _Message, chosen: int) -> None:
        credit = self._credit(message.base)
        if credit == NEVER:
            self._waiting = (message, chosen)
            return
        # What moved within the SRAM before it went through the same pipeline.
        ready = max(chosen + self.switch.ace.transmit, self._left + 1, credit)
        if self.turns is None:
            self._depart(message, chosen, ready)
            return

        def begin(held: bool) -> None:
            message.held = held
            self._depart(message, chosen, ready)

        self.turns.ask(
            self.switch.lane,
            ready,
            message.send.flits,
            begin,
            lambda: self.engine.transmitters[0].taken(message.op, chosen + message.send.flits),
        )

    def _depart(self, message: _Message, chosen: int, ready: int) -> None:
        """The message takes the link into the switch."""
        switch, flits = self.switch, message.send.flits
        _, last, taken = self.up.message(ready, flits)
        message.head = self.up.first + switch.wire + switch.match
        message.sent = last
        message.free = max(chosen + flits, taken)
        if (
            message.base + flits <= switch.input_depth
            or self._credit(message.base + flits - 1) != NEVER
        ):
            self._settle(message)
        self.queue.append(message)
        if len(self.queue) == 1:
            switch.arrive(message)

    def _settle(self, message: _Message) -> None:
        """The credit of the last flit is known: so is when it leaves."""
        credit = self._credit(message.base + message.send.flits - 1)
        if credit > message.sent:
            message.free = max(message.free, credit - self.switch.ace.transmit + 1)
            message.sent = credit
            self.up.stretch(credit)
        self._left = message.sent
        message.last = message.sent + self.switch.wire + self.switch.payload
        if message.held:
            self.engine.transmitters[0].left(message.op, message.sent)
        else:
            self.engine.sent(message.op, message.sent, message.free)

    def _credit(self, index: int) -> int:
        """Cycle from which flit ``index`` of this port may leave; `NEVER` if not known yet."""
        index -= self.switch.input_depth
        if index < 0:
            return 0
        pops = self._pops
        while pops and pops[0][0] <= index and len(pops) > 1:
            pops.popleft()
        if not pops or pops[0][0] <= index:
            return NEVER
        end, first, last = pops[0]
        spread = last - (end - 1 - index)
        return (first if spread < first else spread) + self.switch.credit

    def pop(self, first: int) -> _Message:
        """The message at the head is popped from cycle ``first`` on; its last flit's arrival is
        known afterwards."""
        message = self.queue.popleft()
        end = message.base + message.send.flits
        self._pops.append((end, first, first + message.send.flits - 1))
        if message.last == NEVER:
            self._settle(message)
        return message

    def popped(self, last: int) -> None:
        """The message popped last leaves its buffer with its last flit in cycle ``last``."""
        end, first, _ = self._pops[-1]
        self._pops[-1] = (end, first, last)
        if self.queue:
            head = self.queue[0]
            # Its packet is matched from the cycle behind the start of the one before it.
            if head.head <= first:
                head.head = first + 1
            if head.last == NEVER and self._credit(head.base + head.send.flits - 1) != NEVER:
                self._settle(head)
            self.switch.arrive(head)
        for message in list(self.queue)[1:]:
            if message.last == NEVER and (
                self._credit(message.base + message.send.flits - 1) != NEVER
            ):
                self._settle(message)
        if self._waiting is not None and self._credit(self._waiting[0].base) != NEVER:
            message, chosen = self._waiting
            self._waiting = None
            self._leave(message, chosen)

    # Inlet

    def room(self, flits: int, now: int) -> int:
        """Cycle from which the endpoint has room for ``flits`` more."""
        unread = self.unread
        while unread and unread[0][1] <= now:
            unread.popleft()
        if not unread:
            return 0
        held = sum(entry[0] for entry in unread)
        if held + flits <= self.switch.output_depth:
            return 0
        return unread[0][1] + 1 if unread[0][1] != NEVER else NEVER

    def drained(self, last: int) -> None:
        """The oldest message that had to wait is read up to its last flit in this cycle."""
        for entry in self.unread:
            if entry[1] == NEVER:
                entry[1] = last
                break
        self.switch.look(self.switch.kernel.now)

    def deliver(self, number: int, step: int, second: int, last: int, flits: int) -> None:
        """A message whose second and last flit are taken from the inputs in these cycles."""
        back, down = self.switch.back, self.down
        closing = (flits - 1) // (self.switch.packet_flits + 1) * (self.switch.packet_flits + 1)
        header = down.first
        if closing:
            header = last - (down.departed(flits - 1) - down.departed(closing))
        read = self.engine.message(
            number, step, second + back, last + back, flits - 1, header=header + back
        )
        if read > last + back:
            self.unread.append([flits, read])


class FredSwitch:
    """One switch with its ports.

    Parameters
    ----------
    kernel : event kernel
    engines : dim engine by port; one that stands for several is named several times
    link : of every port, in both directions
    buffer_flits : that the receivers at both ends of these links hold
    constants : pipeline constants
    packet_flits : payload flits of a full packet
    shared : what it shares with the other classes, where it is the switch as one class sees it
    """

    __slots__ = (
        "_active", "_flows", "_free", "_heads", "_wake", "ace", "back", "credit", "folded",
        "input_depth",
        "kernel", "lane", "match", "output_depth", "packet_flits", "payload", "ports", "rate",
        "shared", "timing", "wire",
    )  # fmt: skip

    def __init__(
        self,
        kernel: EventKernel,
        engines: Sequence[DimEngine],
        link: LinkParameters,
        buffer_flits: int,
        constants: FabricConstants,
        packet_flits: int,
        shared: SharedSwitch | None = None,
    ) -> None:
        self.kernel = kernel
        self.packet_flits = packet_flits
        self.shared = shared
        self.lane = 0 if shared is None else shared.join(self)
        self.rate = link.rate
        self.ace = constants.ace
        self.timing = fred = constants.fred
        self.wire = constants.link.transmit + link.latency
        self.back = (
            fred.interconnect(len(engines))
            + link.latency
            + constants.link.receive
            + constants.ace.receive
        )
        self.credit = constants.link.credit_return + link.latency + constants.link.credit_use
        # From an input's wire: header to the earliest start, payload flit to the interconnect.
        self.match = fred.receive + fred.look_up + fred.match
        self.payload = fred.receive + 1
        self.input_depth = buffer_flits + fred.look_ahead
        self.output_depth = buffer_flits
        self.folded = len(engines) > len({id(engine) for engine in engines})
        distinct = {
            key: _Port(self, engine, number)
            for number, (key, engine) in enumerate({id(e): e for e in engines}.items())
        }
        self.ports = [distinct[id(engine)] for engine in engines]
        for port in distinct.values():
            port.engine.outlet = port
            port.engine.inlet = port
        # Flows by (op, flow) whose message is at the head of an input: [inputs missing, ready].
        self._heads: dict[tuple, list[int]] = {}
        self._flows: dict[Flow, tuple[list[_Port], list[_Port]]] = {}
        self._free = 0
        self._active = 0  # the rotation that is carried, 0 where it is another configuration
        self._wake = NEVER

    def arrive(self, message: _Message) -> None:
        """A message is at the head of its input; its flow may start from ``message.head`` on."""
        entry = self._heads.get(message.key)
        if entry is None:
            inputs, _ = self._ends(message.send.flow)
            entry = self._heads[message.key] = [len(inputs), 0]
        entry[0] -= 1
        if message.head > entry[1]:
            entry[1] = message.head
        if not entry[0]:
            self.look(entry[1])

    def look(self, cycle: int) -> None:
        """Arbitrate in ``cycle``, unless an earlier look is due."""
        if self.shared is not None:
            self.shared.look(cycle)
            return
        if not self._active:
            cycle = max(cycle, self._free)
        cycle = max(cycle, self.kernel.now)
        if cycle < self._wake:
            self._wake = cycle
            self.kernel.decide(cycle, self._arbitrate, cycle)

    def _arbitrate(self, cycle: int) -> None:
        """Start the first flow, in the plan's order, that is ready and has room."""
        if cycle != self._wake:
            return
        self._wake = NEVER
        chosen, soonest = self.candidate(cycle)
        if chosen is not None:
            if cycle < self._free and (not self._active or self.rotation(chosen) != self._active):
                self.look(self._free)
                return
            soonest = min(soonest, self.start(chosen, cycle))
        if soonest != NEVER:
            self.look(soonest)

    def rotation(self, key: tuple) -> int:
        """How far on the output of a unicast is; 0 for other flows."""
        inputs, outputs = key[1]
        if len(inputs) > 1 or len(outputs) > 1:
            return 0
        return (outputs[0] - inputs[0]) % len(self.ports)

    def start(self, key: tuple, cycle: int) -> int:
        """The flow ``key`` starts, of a rotation all unicasts that can.

        Returns
        -------
        int
            the cycle in which another one of the rotation may, `NEVER` if not known
        """
        rotation = self.rotation(key)
        if not rotation:
            self.carry(key, cycle)
            return NEVER
        soonest = NEVER
        for one, (missing, ready) in sorted(self._heads.items(), key=lambda item: item[0][0]):
            if missing or self.rotation(one) != rotation:
                continue
            start = max(ready, self.ports[one[1][0][0]].busy, self._room(one, cycle))
            if start > cycle:
                soonest = min(soonest, start)
            else:
                self.carry(one, cycle)
        return soonest

    def packets(self, key: tuple) -> int:
        """Packets of a flow whose messages are there."""
        send = self.ports[key[1][0][0]].queue[0].send
        return packets_of(send.flits, self.packet_flits)

    def candidate(self, cycle: int) -> tuple[tuple | None, int]:
        """The first flow, in the plan's order, that is ready and has room in ``cycle``; and the
        cycle in which another one may be, `NEVER` if not known."""
        soonest = NEVER
        chosen = None
        for key, (missing, ready) in self._heads.items():
            if missing:
                continue
            if ready > cycle:
                soonest = min(soonest, ready)
            elif chosen is None or self._order(key) < self._order(chosen):
                room = self._room(key, cycle)
                if room > cycle:
                    soonest = min(soonest, room)
                else:
                    chosen = key
        return chosen, soonest

    def _ends(self, flow: Flow | None) -> tuple[list[_Port], list[_Port]]:
        """Inputs and outputs of a flow, each port once."""
        assert flow is not None, "what enters a FRED switch belongs to a flow"
        found = self._flows.get(flow)
        if found is None:
            inputs, outputs = (
                list({id(self.ports[port]): self.ports[port] for port in ports}.values())
                for ports in flow
            )
            found = self._flows[flow] = (inputs, outputs)
        return found

    def _order(self, key: tuple) -> tuple[int, int]:
        """The plan's order: op, then receive step."""
        return key[0], self.ports[key[1][0][0]].queue[0].send.step

    def _room(self, key: tuple, cycle: int) -> int:
        flow = key[1]
        source = self.ports[flow[0][0]].queue[0]
        return max([port.room(source.send.flits, cycle) for port in self._ends(flow)[1]])

    def carry(self, key: tuple, cycle: int) -> None:
        """The flow ``key`` starts: its inputs are taken together, at the rate of its outputs."""
        del self._heads[key]
        flow = key[1]
        inputs, outputs = self._ends(flow)
        self._active = self.rotation(key)
        send = inputs[0].queue[0].send
        number, flits = inputs[0].queue[0].op.number, send.flits
        steps = [send.step]
        heard = outputs
        folded = self.folded and not self._active
        if folded and len(flow[1]) == 1:
            # A reduce flow of a reduce-scatter: one stands for all members, served last.
            if send is not inputs[0].queue[0].op.sends[-1]:
                heard = []
        elif folded and len(flow[0]) == 1:
            # The multicasts of an all-gather, of all members in turn.
            steps = list(range(len(flow[1])))

        last = cycle
        for step in steps:
            first = last + self.timing.go
            second, last = first + 1, first + flits - 1
            taken = first
            for port in outputs:
                after, end, _ = port.down.message(first, flits)
                taken, second = max(taken, port.down.first), max(second, after)
                last = max(last, end)
            if step == steps[-1]:
                messages = [port.pop(taken) for port in inputs]
                last = max(last, *(message.last for message in messages))
            for port in outputs:
                port.down.stretch(last)
            for port in heard:
                port.deliver(number, step, second, last, flits)
        self._free = max(last, self._free) if self._active else last
        if self.shared is not None:
            self.shared.free = self._free
        for port in inputs:
            port.busy = last
            port.popped(last)
        ready = [entry[1] for entry in self._heads.values() if not entry[0]]
        if ready:
            self.look(min(ready))

"""A ring of engines with a lane for each class, whose links can be made to stall, for test
benches."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.counters import engine_counters
from rtl.ace.engine import AceEngine
from rtl.ace.memory_port import ADDRESS_BITS, MemoryReadSignature, MemoryWriteSignature
from rtl.ace.parameters import AceParameters
from rtl.ace.status import DimStatus
from rtl.link.delay import LinkDelay
from rtl.link.receiver import LinkReceiver
from rtl.link.transmitter import LinkTransmitter

__all__ = ["AceClassRing"]


class AceClassRing(wiring.Component):
    """``ranks`` engines with one dim and the ends of its links; engine i sends to engine i + 1.

    Parameters
    ----------
    ranks : engines
    parameters : of each, with at least two classes
    latency : of each link, cycles

    Members
    -------
    start : In(1)
        Its rising edge rings the doorbell of lane ``lane`` of every rank chosen.
    chosen : In(ranks)
    lane : In
    descriptor : In(flit address)
    link_stalls : In(8)
        Of 256 cycles, in how many, at random, a class may neither begin to offer a flit to its
        transmitter, nor to its receiver's reader.
    watched : In
        A lane.
    target : In(16)
    done : Out(1)
        Lane ``watched`` of every endpoint has completed ``target`` collectives.
    memory_read, memory_write : of every endpoint
    activity : Out(1)
    counters, status : of every endpoint
    completed : Out(ranks × lanes × 16)
        In place ``rank * lanes + lane``.
    last_status : Out(ranks × 4)
        Of the last completion.
    overrun : Out(ranks)
    """

    def __init__(self, *, ranks: int, parameters: AceParameters, latency: int):
        self.ranks = ranks
        self.parameters = parameters
        self.latency = latency
        flit_bytes = parameters.flit_bytes
        lanes = parameters.lanes
        super().__init__(
            {
                "start": In(1),
                "chosen": In(ranks),
                "lane": In(range(lanes)),
                "descriptor": In(ADDRESS_BITS),
                "link_stalls": In(8),
                "watched": In(range(lanes)),
                "target": In(16),
                "done": Out(1),
                "activity": Out(1),
                "memory_read": Out(MemoryReadSignature(flit_bytes=flit_bytes)).array(ranks),
                "memory_write": Out(MemoryWriteSignature(flit_bytes=flit_bytes)).array(ranks),
                "counters": Out(data.ArrayLayout(engine_counters(1, lanes), ranks)),
                "status": Out(data.ArrayLayout(data.ArrayLayout(DimStatus, lanes), ranks)),
                "completed": Out(data.ArrayLayout(unsigned(16), ranks * lanes)),
                "last_status": Out(data.ArrayLayout(unsigned(4), ranks)),
                "overrun": Out(ranks),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes = self.parameters.lanes
        endpoints = []
        for rank in range(self.ranks):
            endpoint = AceEngine(parameters=self.parameters)
            m.submodules[f"engine_{rank}"] = endpoint
            endpoints.append(endpoint)
        wires = [self._link(m, rank, endpoints) for rank in range(self.ranks)]

        started = Signal()
        m.d.sync += started.eq(self.start)
        for rank, endpoint in enumerate(endpoints):
            wiring.connect(m, endpoint.memory_read, wiring.flipped(self.memory_read[rank]))
            wiring.connect(m, endpoint.memory_write, wiring.flipped(self.memory_write[rank]))
            for lane in range(lanes):
                pending = Signal(name=f"pending_{rank}_{lane}")
                doorbell = endpoint.doorbell[lane]
                m.d.comb += [doorbell.valid.eq(pending), doorbell.payload.eq(self.descriptor)]
                with m.If(self.start & ~started & self.chosen[rank] & (self.lane == lane)):
                    m.d.sync += pending.eq(1)
                with m.Elif(doorbell.ready):
                    m.d.sync += pending.eq(0)
                count = self.completed[rank * lanes + lane]
                with m.If(endpoint.completion.valid & (endpoint.completion_lane == lane)):
                    m.d.sync += count.eq(count + 1)
            with m.If(endpoint.completion.valid):
                m.d.sync += self.last_status[rank].eq(endpoint.completion_status)
            m.d.comb += [
                endpoint.completion.ready.eq(1),
                self.counters[rank].eq(endpoint.counters),
                self.status[rank].eq(endpoint.status),
            ]
        reached = Array(
            Cat(
                self.completed[rank * lanes + lane] == self.target for rank in range(self.ranks)
            ).all()
            for lane in range(lanes)
        )
        m.d.comb += [
            self.activity.eq(Cat(wires, self._memory_moves(endpoints)).any()),
            self.done.eq(Mux(self.target != 0, reached[self.watched], 0)),
        ]
        return m

    def _memory_moves(self, endpoints):
        return Cat(
            [engine.memory_read.data.valid & engine.memory_read.data.ready for engine in endpoints]
            + [
                engine.memory_write.request.valid & engine.memory_write.request.ready
                for engine in endpoints
            ]
        )

    def _link(self, m, rank, engines):
        """From engine ``rank`` to the next; whether a flit is on its wire."""
        lanes, dim = self.parameters.lanes, self.parameters.dims[0]
        flit_bytes = self.parameters.flit_bytes
        transmitter = LinkTransmitter(
            flit_bytes=flit_bytes, credits=dim.credits, rate=dim.rate, channels=lanes
        )
        receiver = LinkReceiver(flit_bytes=flit_bytes, depth=dim.depth, channels=lanes)
        delay = LinkDelay(flit_bytes=flit_bytes, latency=self.latency, channels=lanes)
        m.submodules[f"transmitter_{rank}"] = transmitter
        m.submodules[f"receiver_{rank}"] = receiver
        m.submodules[f"link_{rank}"] = delay
        wiring.connect(m, transmitter.o, delay.i)
        wiring.connect(m, delay.o, receiver.i)
        m.d.comb += self.overrun[rank].eq(receiver.overrun.any())
        there = engines[(rank + 1) % self.ranks]
        for lane in range(lanes):
            out, back = engines[rank].port(0, lane), there.port(0, lane)
            number = 2 * (rank * lanes + lane)
            self._stalled(m, number, out.o, transmitter.i[lane])
            self._stalled(m, number + 1, receiver.o[lane], back.i)
            m.d.comb += [
                receiver.grant[lane].eq(back.grant),
                out.granted.eq(transmitter.granted[lane]),
            ]
        return delay.i.valid

    def _stalled(self, m, number, source, sink):
        """Join two streams, but begin to offer a flit only in some cycles."""
        random = Signal(32, init=0x9E3779B9 * (number + 1) % (1 << 32) | 1, name=f"random_{number}")
        offered = Signal(name=f"offered_{number}")
        passes = Signal(name=f"passes_{number}")
        value = random  # xorshift (Marsaglia 2003)
        for step, (left, right) in enumerate(((13, 0), (0, 17), (5, 0))):
            mixed = Signal(32, name=f"mixed_{number}_{step}")
            m.d.comb += mixed.eq(value ^ (value << left if left else value >> right))
            value = mixed
        m.d.sync += [random.eq(value), offered.eq(sink.valid & ~sink.ready)]
        m.d.comb += [
            passes.eq(offered | (random[:8] >= self.link_stalls)),
            sink.valid.eq(source.valid & passes),
            sink.payload.eq(source.payload),
            source.ready.eq(sink.ready & passes),
        ]

"""A ring of endpoints, for test benches: nothing but engines, link delays and memory ports."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.counters import engine_counters
from rtl.ace.endpoint import AceEndpoint
from rtl.ace.memory_port import ADDRESS_BITS, MemoryReadSignature, MemoryWriteSignature
from rtl.ace.parameters import AceParameters
from rtl.ace.status import DimStatus
from rtl.link.delay import LinkDelay

__all__ = ["AceRing"]


class AceRing(wiring.Component):
    """``ranks`` endpoints with one dim; endpoint i sends to endpoint i + 1.

    Parameters
    ----------
    ranks : endpoints
    parameters : of each
    latency : of each link, cycles

    Members
    -------
    start : In(1)
        Its rising edge rings the doorbell of rank r ``r * skew`` cycles later.
    chosen : In(ranks)
        Whose doorbells.
    descriptor : In(flit address)
    skew : In(8)
    target : In(16)
    done : Out(1)
        Every endpoint has completed ``target`` collectives.
    memory_read, memory_write : of every endpoint
    activity : Out(1)
    counters, status : of every endpoint
    completed : Out(ranks × 16)
    """

    def __init__(self, *, ranks: int, parameters: AceParameters, latency: int):
        self.ranks = ranks
        self.parameters = parameters
        self.latency = latency
        flit_bytes = parameters.flit_bytes
        super().__init__(
            {
                "start": In(1),
                "chosen": In(ranks),
                "descriptor": In(ADDRESS_BITS),
                "skew": In(8),
                "target": In(16),
                "done": Out(1),
                "activity": Out(1),
                "memory_read": Out(MemoryReadSignature(flit_bytes=flit_bytes)).array(ranks),
                "memory_write": Out(MemoryWriteSignature(flit_bytes=flit_bytes)).array(ranks),
                "counters": Out(data.ArrayLayout(engine_counters(1), ranks)),
                "status": Out(data.ArrayLayout(data.ArrayLayout(DimStatus, 1), ranks)),
                "completed": Out(data.ArrayLayout(unsigned(16), ranks)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        endpoints = []
        for rank in range(self.ranks):
            endpoint = AceEndpoint(parameters=self.parameters)
            m.submodules[f"endpoint_{rank}"] = endpoint
            endpoints.append(endpoint)
        for rank, endpoint in enumerate(endpoints):
            delay = LinkDelay(flit_bytes=self.parameters.flit_bytes, latency=self.latency)
            m.submodules[f"link_{rank}"] = delay
            wiring.connect(m, endpoint.send[0], delay.i)
            wiring.connect(m, delay.o, endpoints[(rank + 1) % self.ranks].receive[0])

        started = Signal()
        m.d.sync += started.eq(self.start)
        for rank, endpoint in enumerate(endpoints):
            wiring.connect(m, endpoint.memory_read, wiring.flipped(self.memory_read[rank]))
            wiring.connect(m, endpoint.memory_write, wiring.flipped(self.memory_write[rank]))
            wait = Signal(16, name=f"wait_{rank}")
            pending = Signal(name=f"pending_{rank}")
            m.d.comb += [
                endpoint.doorbell.valid.eq(pending & (wait == 0)),
                endpoint.doorbell.payload.eq(self.descriptor),
                endpoint.completion.ready.eq(1),
                self.counters[rank].eq(endpoint.counters),
                self.status[rank].eq(endpoint.status),
            ]
            with m.If(endpoint.completion.valid):
                m.d.sync += self.completed[rank].eq(self.completed[rank] + 1)
            m.d.sync += wait.eq(Mux(wait == 0, 0, wait - 1))
            with m.If(self.start & ~started & self.chosen[rank]):
                m.d.sync += [wait.eq(rank * self.skew), pending.eq(1)]
            with m.Elif(endpoint.doorbell.valid & endpoint.doorbell.ready):
                m.d.sync += pending.eq(0)
        m.d.comb += [
            self.activity.eq(Cat(endpoint.activity for endpoint in endpoints).any()),
            self.done.eq(
                Cat(count == self.target for count in self.completed).all() & (self.target != 0)
            ),
        ]
        return m

"""The ACE endpoint: the engine with the port buffers of its links."""

from amaranth.hdl import Cat, Module, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import STATUS_BITS
from rtl.ace.counters import engine_counters
from rtl.ace.engine import AceEngine
from rtl.ace.memory_port import ADDRESS_BITS, MemoryReadSignature, MemoryWriteSignature
from rtl.ace.parameters import AceParameters
from rtl.ace.regions import Regions
from rtl.ace.status import DimStatus
from rtl.link.receiver import LinkReceiver
from rtl.link.transmitter import LinkTransmitter
from rtl.link.wire import LinkWire

__all__ = ["AceEndpoint"]


class AceEndpoint(wiring.Component):
    """What stands beside an NPU: memory ports on one side, the wires of its dims on the other.

    Parameters
    ----------
    parameters : all of them; of each dim, ``rate``, ``credits`` and ``depth`` set its link ends

    Members
    -------
    doorbell, memory_read, memory_write, completion, completion_status, descriptor_fault, idle
        As of :class:`AceEngine`.
    counters, status
        As of :class:`AceEngine`.
    regions, abort, failed
        As of :class:`AceEngine`; left alone, all of memory may be touched and nothing fails.
    completion_lane
        As of :class:`AceEngine`. So is ``doorbell`` an array where there are several classes.
    send : Out(LinkWire) × ports of all dims
        To the next coordinate of a Ring, to the switch of a Fred dim, from port p of a
        FullyConnected dim to the coordinate p + 1 on (modulo its size).
    receive : In(LinkWire) × ports of all dims
        From the previous coordinate, from the switch, from the coordinate p + 1 before.
        With a channel for each class where there are several.
    activity : Out(1)
        A flit left or came, a beat of memory moved, or a completion was taken, in this cycle.
    overrun : Out(dims)
        A receiver of the dim was sent more flits than it has room for.
    """

    def __init__(self, *, parameters: AceParameters):
        self.parameters = parameters
        flit_bytes = parameters.flit_bytes
        dims, ports, lanes = len(parameters.dims), parameters.first_ports[-1], parameters.lanes
        doorbell = In(stream.Signature(unsigned(ADDRESS_BITS)))
        wire = LinkWire(flit_bytes, lanes)
        several = {"completion_lane": Out(range(lanes))} if lanes > 1 else {}
        super().__init__(
            {
                "doorbell": doorbell.array(lanes) if lanes > 1 else doorbell,
                "memory_read": Out(MemoryReadSignature(flit_bytes=flit_bytes)),
                "memory_write": Out(MemoryWriteSignature(flit_bytes=flit_bytes)),
                "send": Out(wire).array(ports),
                "receive": In(wire).array(ports),
                "completion": Out(stream.Signature(unsigned(16))),
                "completion_status": Out(STATUS_BITS),
                "regions": In(Regions(parameters.regions)),
                "abort": In(stream.Signature(unsigned(16))),
                "failed": In(data.StructLayout({"read": 1, "write": 1})),
                "descriptor_fault": Out(lanes),
                "idle": Out(1),
                "activity": Out(1),
                "overrun": Out(dims),
                "counters": Out(engine_counters(dims, lanes)),
                "status": Out(data.ArrayLayout(DimStatus, dims * lanes)),
                **several,
            }
        )

    def elaborate(self, platform):
        m = Module()
        p = self.parameters
        m.submodules.engine = engine = AceEngine(parameters=p)
        lanes = p.lanes
        if lanes > 1:
            for outer, inner in zip(self.doorbell, engine.doorbell, strict=True):
                wiring.connect(m, wiring.flipped(outer), inner)
            m.d.comb += self.completion_lane.eq(engine.completion_lane)
        else:
            wiring.connect(m, wiring.flipped(self.doorbell), engine.doorbell)
        wiring.connect(m, engine.memory_read, wiring.flipped(self.memory_read))
        wiring.connect(m, engine.memory_write, wiring.flipped(self.memory_write))
        wiring.connect(m, engine.completion, wiring.flipped(self.completion))
        wiring.connect(m, wiring.flipped(self.abort), engine.abort)
        m.d.comb += [
            engine.regions.eq(self.regions),
            engine.failed.eq(self.failed),
            self.completion_status.eq(engine.completion_status),
            self.descriptor_fault.eq(engine.descriptor_fault),
            self.idle.eq(engine.idle),
            self.counters.eq(engine.counters),
            self.status.eq(engine.status),
        ]

        moves = []
        overruns: list[list] = [[] for _ in p.dims]
        places = [(d, dim) for d, dim in enumerate(p.dims) for _ in range(dim.ports)]
        for number, (d, dim) in enumerate(places):
            transmitter = LinkTransmitter(
                flit_bytes=p.flit_bytes, credits=dim.credits, rate=dim.rate, channels=lanes
            )
            receiver = LinkReceiver(flit_bytes=p.flit_bytes, depth=dim.depth, channels=lanes)
            m.submodules[f"transmitter_{number}"] = transmitter
            m.submodules[f"receiver_{number}"] = receiver
            wiring.connect(m, transmitter.o, wiring.flipped(self.send[number]))
            wiring.connect(m, wiring.flipped(self.receive[number]), receiver.i)
            overruns[d].append(receiver.overrun.any())
            moves.append(self.send[number].valid)
            for lane in range(lanes):
                port = engine.port(number, lane)
                out, back = transmitter.i, receiver.o
                if lanes > 1:
                    out, back = out[lane], back[lane]
                wiring.connect(m, port.o, out)
                wiring.connect(m, back, port.i)
                m.d.comb += [
                    receiver.grant[lane].eq(port.grant),
                    port.granted.eq(transmitter.granted[lane]),
                ]
                moves.append(port.i.valid & port.i.ready)
        m.d.comb += self.overrun.eq(Cat(Cat(lost).any() for lost in overruns))
        for moving in (
            self.memory_read.data,
            self.memory_write.request,
            self.completion,
        ):
            moves.append(moving.valid & moving.ready)
        m.d.comb += self.activity.eq(Cat(moves).any())
        return m

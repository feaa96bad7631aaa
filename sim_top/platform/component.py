"""The platform as one component: everything but the memories and the clock."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.counters import engine_counters
from rtl.ace.endpoint import AceEndpoint
from rtl.ace.memory_port import ADDRESS_BITS, MemoryReadSignature, MemoryWriteSignature
from rtl.ace.status import DimStatus
from rtl.link.delay import LinkDelay
from sim_top.platform.links import JOINED, joints
from sim_top.platform.parameters import engine_parameters
from sim_top.platform.switches import SwitchBank
from sim_top.platform.tree import SwitchTree
from sw_model.platform import Platform
from sw_model.topology import DimKind

__all__ = ["PlatformComponent"]


class PlatformComponent(wiring.Component):
    """Endpoints, links and switches of a platform.

    Parameters
    ----------
    platform : what to build

    Members
    -------
    doorbell_address, doorbell_ranks, doorbell_lane, doorbell_ring : In
        When ``doorbell_ring`` flips, the engines of the chosen ranks (one bit each) are told that
        a descriptor lies at that flit of their memory, for that class. Rings that come before an
        engine has taken the last one are lost; one cycle in between is enough while its queue has
        room.
    configuration_dim, configuration_index, configuration_entry, configuration_write : In
        An entry for the configuration memories of the switches of a dim; written when
        ``configuration_write`` flips.
    configuration_switch : In
        The one switch of a tree that it is for; left alone where a dim has no tree.
    memory_read, memory_write : Out × NPUs
    completed : Out(array of 16 bits × NPUs × classes)
        Collectives that each rank has completed, modulo 2**16; a class's in place
        ``rank * classes + class``.
    completion : Out(1)
        ``completed`` has changed in this cycle.
    fault : Out(1)
        Something happened that must not: ``faults`` says where.
    faults : Out
        One bit per rank (an overrun link or a refused record), then one per switch (an error).
    activity, outstanding : Out(1)
        For the watchdog.
    capture : In(1)
        While high, ``counters`` and ``status`` follow the engines' one cycle late.
    counters : Out × NPUs, each a port of its own (a netlist has room for 65,536 bits in one)
    status : Out(array × NPUs)
    """

    def __init__(self, platform: Platform):
        self.platform = platform
        flit_bytes = platform.engine.flit_bytes
        npus = platform.topology.npus
        dims = len(platform.topology.dims)
        lanes = platform.engine.lanes
        self._banks: dict[int, SwitchBank | SwitchTree] = {
            dim: SwitchBank(platform, dim) if d.tree is None else SwitchTree(platform)
            for dim, d in enumerate(platform.topology.dims)
            if d.kind is DimKind.FRED
        }
        switches = sum(bank.switches for bank in self._banks.values())
        entry_bits = max((bank.entry_bits for bank in self._banks.values()), default=1)
        super().__init__(
            {
                "doorbell_address": In(ADDRESS_BITS),
                "doorbell_ranks": In(npus),
                "doorbell_lane": In(2),
                "doorbell_ring": In(1),
                "configuration_dim": In(4),
                "configuration_index": In(12),
                "configuration_switch": In(8),
                "configuration_entry": In(entry_bits),
                "configuration_write": In(1),
                "memory_read": Out(MemoryReadSignature(flit_bytes=flit_bytes)).array(npus),
                "memory_write": Out(MemoryWriteSignature(flit_bytes=flit_bytes)).array(npus),
                "completed": Out(data.ArrayLayout(16, npus * lanes)),
                "completion": Out(1),
                "fault": Out(1),
                "faults": Out(npus + switches),
                "activity": Out(1),
                "outstanding": Out(1),
                "capture": In(1),
                "counters": Out(engine_counters(dims, lanes)).array(npus),
                "status": Out(data.ArrayLayout(data.ArrayLayout(DimStatus, dims * lanes), npus)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        npus = self.platform.topology.npus
        parameters = engine_parameters(self.platform)
        endpoints = [AceEndpoint(parameters=parameters) for _ in range(npus)]
        for rank, endpoint in enumerate(endpoints):
            m.submodules[f"endpoint_{rank}"] = endpoint
            wiring.connect(m, endpoint.memory_read, wiring.flipped(self.memory_read[rank]))
            wiring.connect(m, endpoint.memory_write, wiring.flipped(self.memory_write[rank]))
        self._doorbells(m, endpoints)
        self._completions(m, endpoints)
        errors = self._links(m, endpoints)

        faults = [
            endpoint.overrun.any() | (endpoint.counters.engine.records_refused != 0)
            for endpoint in endpoints
        ]
        m.d.comb += [
            self.faults.eq(Cat(*faults, *errors)),
            self.fault.eq(self.faults.any()),
            self.activity.eq(Cat(endpoint.activity for endpoint in endpoints).any()),
            self.outstanding.eq(~Cat(endpoint.idle for endpoint in endpoints).all()),
        ]
        with m.If(self.capture):
            m.d.sync += [
                *(self.counters[r].eq(endpoint.counters) for r, endpoint in enumerate(endpoints)),
                *(self.status[r].eq(endpoint.status) for r, endpoint in enumerate(endpoints)),
            ]
        return m

    def _doorbells(self, m: Module, endpoints: list[AceEndpoint]) -> None:
        rung = Signal()
        ring = Signal()
        m.d.sync += rung.eq(self.doorbell_ring)
        m.d.comb += ring.eq(rung ^ self.doorbell_ring)
        for rank, endpoint in enumerate(endpoints):
            several = self.platform.engine.lanes > 1
            for lane, doorbell in enumerate(endpoint.doorbell if several else [endpoint.doorbell]):
                with m.If(ring & self.doorbell_ranks[rank] & (self.doorbell_lane == lane)):
                    m.d.sync += [
                        doorbell.payload.eq(self.doorbell_address),
                        doorbell.valid.eq(1),
                    ]
                with m.Elif(doorbell.ready):
                    m.d.sync += doorbell.valid.eq(0)

    def _completions(self, m: Module, endpoints: list[AceEndpoint]) -> None:
        ended = []
        for rank, endpoint in enumerate(endpoints):
            m.d.comb += endpoint.completion.ready.eq(1)
            lanes = self.platform.engine.lanes
            for lane in range(lanes):
                count = self.completed[rank * lanes + lane]
                own = endpoint.completion_lane == lane if lanes > 1 else 1
                with m.If(endpoint.completion.valid & own):
                    m.d.sync += count.eq(count + 1)
            ended.append(endpoint.completion.valid)
        m.d.sync += self.completion.eq(Cat(ended).any())

    def _links(self, m: Module, endpoints: list[AceEndpoint]) -> list[Signal]:
        """Join the endpoints dim by dim; the error flags of the switches."""
        topology = self.platform.topology
        first_ports = engine_parameters(self.platform).first_ports
        errors = []
        configuration_written = Signal()
        m.d.sync += configuration_written.eq(self.configuration_write)
        for dim, description in enumerate(topology.dims):
            first = first_ports[dim]
            if description.kind in JOINED:
                for joint in joints(topology, dim):
                    source = endpoints[joint.sender].send[first + joint.port]
                    sink = endpoints[joint.receiver].receive[first + joint.port]
                    self._wire(m, dim, joint.name(dim), source, sink)
                continue
            groups = sorted({topology.peers(rank, dim) for rank in range(topology.npus)})
            bank = self._banks[dim]
            m.submodules[f"switches_{dim}"] = bank
            m.d.comb += [
                bank.index.eq(self.configuration_index),
                bank.entry.eq(self.configuration_entry),
                bank.write.eq(
                    (configuration_written ^ self.configuration_write)
                    & (self.configuration_dim == dim)
                ),
            ]
            if isinstance(bank, SwitchTree):
                m.d.comb += bank.switch.eq(self.configuration_switch)
            errors.extend(bank.errors)
            for number, group in enumerate(groups):
                for port, rank in enumerate(group):
                    place = number * description.size + port
                    self._wire(
                        m, dim, f"up_{dim}_{rank}", endpoints[rank].send[first], bank.receive[place]
                    )
                    self._wire(
                        m,
                        dim,
                        f"down_{dim}_{rank}",
                        bank.send[place],
                        endpoints[rank].receive[first],
                    )
        return errors

    def _wire(
        self,
        m: Module,
        dim: int,
        name: str,
        source: wiring.PureInterface,
        sink: wiring.PureInterface,
    ) -> None:
        link = self.platform.links[dim]
        engine = self.platform.engine
        delay = LinkDelay(flit_bytes=engine.flit_bytes, latency=link.latency, channels=engine.lanes)
        m.submodules[name] = delay
        wiring.connect(m, source, delay.i)
        wiring.connect(m, delay.o, sink)

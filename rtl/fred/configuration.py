"""Configurations: what an entry says, the memory that holds them, and what is refused."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import data, enum, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.arith.formats import DATA_TYPE_BITS, OPERATOR_BITS
from rtl.common.packet import DataType, Operator, PacketHeader, TrafficClass
from rtl.fred.modes import check_size, modes_layout, modes_legal

__all__ = [
    "ConfigurationMemory",
    "Refusal",
    "check_entries",
    "entry_layout",
    "membership_layout",
    "request_layout",
]

INDEX_BITS = PacketHeader.as_shape()["configuration"].width
CLASS_BITS = PacketHeader.as_shape()["traffic_class"].width


class Refusal(enum.IntEnum, shape=3):
    """Why an entry was not loaded."""

    NONE = 0  # it was
    INDEX = 1  # there is no such entry
    MODE = 2  # a micro-switch has no such mode
    FLOW = 3  # a port names a flow that is none, or a flow has no output
    KIND = 4  # a class, data type or operator that the switch does not have
    BUSY = 5  # a loaded entry may only be replaced while no packet of its classes is held


def check_entries(entries: object) -> int:
    """Validate the depth of the configuration memory.

    Raises
    ------
    ValueError
        ``configurations must be an integer in 1..4096, not ...``
    """
    if not isinstance(entries, int) or not 1 <= entries <= 1 << INDEX_BITS:
        raise ValueError(
            f"configurations must be an integer in 1..{1 << INDEX_BITS}, not {entries!r}"
        )
    return entries


def port_bits(ports: int) -> int:
    """Bits that number a port."""
    return (ports - 1).bit_length()


def entry_layout(ports: int, middle_copies: int) -> data.StructLayout:
    """One configuration, as the host gives it.

    Members
    -------
    inputs, outputs : for every port whether it takes part, and the number of its flow
    flows : by number (the lowest input port of the flow): class, data type, operator
    modes : of all micro-switches
    """
    side = data.ArrayLayout(
        data.StructLayout({"member": 1, "flow": unsigned(port_bits(ports))}), ports
    )
    flow = data.StructLayout(
        {
            "traffic_class": unsigned(CLASS_BITS),
            "data_type": unsigned(DATA_TYPE_BITS),
            "operator": unsigned(OPERATOR_BITS),
        }
    )
    return data.StructLayout(
        {
            "inputs": side,
            "outputs": side,
            "flows": data.ArrayLayout(flow, ports),
            "modes": modes_layout(ports, middle_copies),
        }
    )


def request_layout(ports: int, middle_copies: int) -> data.StructLayout:
    """An entry and where to put it."""
    return data.StructLayout(
        {"index": unsigned(INDEX_BITS), "entry": entry_layout(ports, middle_copies)}
    )


def membership_layout(ports: int) -> data.StructLayout:
    """What an input port needs to know of a configuration: its own flow.

    Members
    -------
    loaded : the configuration exists
    member : the port is an input of a flow
    traffic_class, data_type, operator : of that flow
    inputs, outputs : ports of that flow, one bit each
    """
    return data.StructLayout(
        {
            "loaded": 1,
            "member": 1,
            "traffic_class": unsigned(CLASS_BITS),
            "data_type": unsigned(DATA_TYPE_BITS),
            "operator": unsigned(OPERATOR_BITS),
            "inputs": unsigned(ports),
            "outputs": unsigned(ports),
        }
    )


class ConfigurationMemory(wiring.Component):
    """Holds the configurations, checked before they are loaded.

    A request is checked in one cycle and written in the next; ``done`` then says how it went. One
    request every two cycles. A lookup answers in the next cycle.

    Parameters
    ----------
    ports, middle_copies : P and m
    entries : configurations held, 1 to 4096
    data_types, operators : what the adders can do
    classes : the class of each channel of an input; None for one channel that the data classes
        share

    Members
    -------
    configure : entries to load
    idle : for every channel, the switch holds no packet of it
    done : pulse, a request has been dealt with
    refusal : with ``done``, the reason why it was not loaded
    lookup : for every input (channel after channel, port after port) an index, and in the next
        cycle its membership
    index : In, an entry
    activate : In, pulse: ``modes`` are those of ``index`` from the next cycle on

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(
        self,
        *,
        ports: int,
        middle_copies: int,
        entries: int,
        data_types: frozenset[DataType],
        operators: frozenset[Operator],
        classes: Sequence[TrafficClass] | None = None,
    ):
        check_size(ports, middle_copies)
        self.ports = ports
        self.middle_copies = middle_copies
        self.entries = check_entries(entries)
        self.data_types = frozenset(data_types)
        self.operators = frozenset(operators)
        self.classes = None if classes is None else tuple(classes)
        self.channels = 1 if classes is None else len(classes)
        lookup = wiring.Signature(
            {"index": Out(INDEX_BITS), "membership": In(membership_layout(ports))}
        )
        super().__init__(
            {
                "configure": In(stream.Signature(request_layout(ports, middle_copies))),
                "idle": In(self.channels),
                "done": Out(1),
                "refusal": Out(Refusal),
                "lookup": In(lookup).array(ports * self.channels),
                "index": In(INDEX_BITS),
                "activate": In(1),
                "modes": Out(modes_layout(ports, middle_copies)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        request = Signal(request_layout(self.ports, self.middle_copies))
        checking = Signal()
        loaded = Signal(self.entries)
        write = Signal()
        entry = request.entry
        m.d.comb += self.configure.ready.eq(~checking)
        m.d.sync += checking.eq(self.configure.valid & ~checking)
        with m.If(self.configure.valid & ~checking):
            m.d.sync += request.eq(self.configure.payload)

        # A loaded entry is in use while packets of one of its classes are held.
        if self.channels == 1:
            in_use = loaded.bit_select(request.index, 1) & ~self.idle
        else:
            in_use = self._in_use(m, request, write)
        verdict = self._verdict(m, request, in_use)
        m.d.comb += write.eq(checking & (verdict == Refusal.NONE))
        m.d.sync += [self.done.eq(checking), self.refusal.eq(verdict)]
        with m.If(write):
            m.d.sync += loaded.bit_select(request.index, 1).eq(1)

        address_bits = (self.entries - 1).bit_length()
        modes = self._memory(m, "modes", modes_layout(self.ports, self.middle_copies))
        modes_write, modes_read = modes.write_port(), modes.read_port(domain="sync")
        m.d.comb += [
            modes_write.addr.eq(request.index[:address_bits]),
            modes_write.data.eq(entry.modes),
            modes_write.en.eq(write),
            modes_read.addr.eq(self.index[:address_bits]),
            modes_read.en.eq(self.activate),
            self.modes.eq(modes_read.data),
        ]

        for port in range(self.ports):
            store = self._memory(m, f"memberships_{port}", membership_layout(self.ports))
            store_write = store.write_port()
            m.d.comb += [
                store_write.addr.eq(request.index[:address_bits]),
                store_write.data.eq(self._membership(entry, port)),
                store_write.en.eq(write),
            ]
            for channel in range(self.channels):
                lookup = self.lookup[channel * self.ports + port]
                store_read = store.read_port(domain="sync")
                known = Signal(name=f"known_{channel}_{port}" if channel else f"known_{port}")
                m.d.sync += known.eq(
                    (lookup.index < self.entries)
                    & loaded.bit_select(lookup.index[:address_bits], 1)
                )
                m.d.comb += [
                    store_read.addr.eq(lookup.index[:address_bits]),
                    store_read.en.eq(1),
                    lookup.membership.eq(store_read.data),
                    lookup.membership.loaded.eq(known),
                ]
        return m

    def _memory(self, m: Module, name: str, shape: data.StructLayout) -> memory.Memory:
        store = memory.Memory(shape=shape, depth=self.entries, init=[])
        m.submodules[name] = store
        return store

    def _membership(self, entry: data.View, port: int):
        """The slice of ``entry`` for one input port, as a value of its layout."""
        own = entry.inputs[port]
        flow = entry.flows[own.flow]
        inputs = Cat(side.member & (side.flow == own.flow) for side in entry.inputs)
        outputs = Cat(side.member & (side.flow == own.flow) for side in entry.outputs)
        fields = Cat(
            1, own.member, flow.traffic_class, flow.data_type, flow.operator, inputs, outputs
        )
        assert len(fields) == Shape.cast(membership_layout(self.ports)).width
        return fields

    def _in_use(self, m: Module, request: data.View, write: Signal) -> Signal:
        """Whether the switch holds packets of a class that the entry to be replaced has."""
        busy = []
        for channel, code in enumerate(self.classes):
            has = Signal(self.entries, name=f"has_{TrafficClass(code).name.lower()}")
            flows, sides = request.entry.flows, request.entry.inputs
            given = Cat(
                sides[p].member & (sides[p].flow == p) & (flows[p].traffic_class == code)
                for p in range(self.ports)
            ).any()
            with m.If(write):
                m.d.sync += has.bit_select(request.index, 1).eq(given)
            busy.append(has.bit_select(request.index, 1) & ~self.idle[channel])
        in_use = Signal(name="class_in_use")
        m.d.comb += in_use.eq(Cat(busy).any())
        return in_use

    def _verdict(self, m: Module, request: data.View, in_use: Value) -> Signal:
        """Whether the entry may be loaded (combinational, from registers)."""
        entry = request.entry
        classes = self.classes or [c for c in TrafficClass if c != TrafficClass.CONTROL]
        flows_ok, kinds_ok = [], []
        for number in range(self.ports):
            flow = entry.flows[number]
            own = entry.inputs[number]
            leads = Signal(name=f"leads_{number}")
            m.d.comb += leads.eq(own.member & (own.flow == number))
            hears = Cat(side.member & (side.flow == number) for side in entry.outputs)
            used = Cat(side.member & (side.flow == number) for side in entry.inputs) | hears
            flows_ok.append(Mux(leads, hears.any(), ~used.any()))
            known = (
                Cat(flow.traffic_class == code for code in classes).any()
                & Cat(flow.data_type == code for code in sorted(self.data_types)).any()
                & Cat(flow.operator == code for code in sorted(self.operators)).any()
            )
            kinds_ok.append(~leads | known)
        in_range = Cat(
            ~side.member | (side.flow < self.ports) for side in (*entry.inputs, *entry.outputs)
        ).all()

        verdict = Signal(Refusal)
        with m.If(request.index >= self.entries):
            m.d.comb += verdict.eq(Refusal.INDEX)
        with m.Elif(~modes_legal(entry.modes, self.ports, self.middle_copies)):
            m.d.comb += verdict.eq(Refusal.MODE)
        with m.Elif(~(Cat(flows_ok).all() & in_range)):
            m.d.comb += verdict.eq(Refusal.FLOW)
        with m.Elif(~Cat(kinds_ok).all()):
            m.d.comb += verdict.eq(Refusal.KIND)
        with m.Elif(in_use):
            m.d.comb += verdict.eq(Refusal.BUSY)
        return verdict

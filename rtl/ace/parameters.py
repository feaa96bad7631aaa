"""All parameters of one engine."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from rtl.ace.layouts import MAX_PORTS
from rtl.common.packet import DataType, Operator, TrafficClass, flit_layout

__all__ = ["AceParameters", "DimParameters", "check_positive", "check_power_of_two"]


@dataclass(frozen=True)
class DimParameters:
    """The ports of one dim.

    Parameters
    ----------
    grants : the receiver grants each op to the sender (Ring); else a network in between holds
        what comes early (Fred)
    rate : flits per cycle of each outgoing link, exact, at most 1
    credits : flits that the other end of the outgoing link buffers
    depth : flits that this end of the incoming link buffers
    ports : links out, and as many in; several only with grants

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    grants: bool
    rate: Fraction = Fraction(1)
    credits: int = 64
    depth: int = 64
    ports: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.rate, int | Fraction) or not 0 < self.rate <= 1:
            raise ValueError(f"rate must be a Fraction above 0 and at most 1, not {self.rate!r}")
        for name in ("credits", "depth"):
            check_positive(name, getattr(self, name))
        if not isinstance(self.ports, int) or not 1 <= self.ports <= MAX_PORTS:
            raise ValueError(f"ports must be an integer in 1..{MAX_PORTS}, not {self.ports!r}")
        if self.ports > 1 and not self.grants:
            raise ValueError(f"a dim without grants must have one port, not {self.ports!r}")


@dataclass(frozen=True)
class AceParameters:
    """One engine.

    Parameters
    ----------
    flit_bytes : width of every port, of the SRAM banks and of memory beats; a power of two in
        16..128
    dims : one :class:`DimParameters` per dim
    sram_flits, sram_banks : capacity, and banks (a power of two) it is spread over
    buffers : buffers that the SRAM is cut into by the planner, for each class, 1 to 256
    contexts : FSM contexts of each class on each dim, a power of two
    classes : the classes of data that have contexts, buffers, grants and a channel of their own, in
        falling priority; None for one of everything, which they share
    forward_flits : received flits that each dim keeps beside the SRAM for its transmitter, a power
        of two of at least 2
    packet_bytes : largest payload of a packet, a multiple of ``flit_bytes`` below 65536
    program_steps : send steps, and receive steps, of a dim's program memory
    queue_depth : records that wait in front of each unit
    doorbells : doorbell writes that may wait
    descriptor_window : records fetched ahead, at least 2 bursts of ``descriptor_burst``
    descriptor_burst : records fetched at a time
    burst_beats : longest burst of payload on the memory's read port, at most 256
    read_beats : payload beats requested and not yet received, at least ``burst_beats``
    write_beats : payload beats written and not yet acknowledged
    data_types, operators : what the reduction unit is built for
    adder_depth : pipeline stages of the reduction unit
    collectives : collectives of each class with a BEGIN record that may be at work at once, 1 to 64
    regions : memory regions that may be registered, 1 to 15

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    flit_bytes: int
    dims: tuple[DimParameters, ...]
    sram_flits: int
    buffers: int
    sram_banks: int = 16
    contexts: int = 4
    classes: tuple[TrafficClass, ...] | None = None
    forward_flits: int = 256
    packet_bytes: int = 4096
    program_steps: int = 256
    queue_depth: int = 8
    doorbells: int = 4
    descriptor_window: int = 16
    descriptor_burst: int = 4
    burst_beats: int = 16
    read_beats: int = 128
    write_beats: int = 128
    data_types: frozenset[DataType] = frozenset({DataType.FP16, DataType.INT32})
    operators: frozenset[Operator] = frozenset({Operator.SUM})
    adder_depth: int = 4
    collectives: int = 4
    regions: int = 4

    def __post_init__(self) -> None:
        flit_layout(self.flit_bytes)  # refuses a bad width
        if self.flit_bytes > 128:  # records and steps count the bytes of a last flit in 8 bits
            raise ValueError(f"flit_bytes must be at most 128, not {self.flit_bytes!r}")
        if not 1 <= len(self.dims) <= 15:
            raise ValueError(f"dims must be 1 to 15 dims, not {len(self.dims)!r}")
        for name in (
            "sram_flits",
            "program_steps",
            "queue_depth",
            "doorbells",
            "descriptor_burst",
            "burst_beats",
            "write_beats",
            "adder_depth",
        ):
            check_positive(name, getattr(self, name))
        own = self.classes
        if own is not None and (
            not own or list(own) != sorted(set(own)) or TrafficClass.CONTROL in own
        ):
            names = "+".join(member.name.lower() for member in own)
            raise ValueError(
                f"classes must be of mp, pp, dp in this order, each once, or None, not {names!r}"
            )
        for name in ("contexts", "sram_banks", "forward_flits"):
            check_power_of_two(name, getattr(self, name))
        if self.forward_flits < 2:
            raise ValueError(f"forward_flits must be at least 2, not {self.forward_flits!r}")
        if self.sram_flits % self.sram_banks or self.sram_flits > 1 << 20:
            raise ValueError(
                f"sram_flits must be a multiple of {self.sram_banks} banks of at most 2**20, "
                f"not {self.sram_flits!r}"
            )
        if not 1 <= self.buffers <= 256:
            raise ValueError(f"buffers must be in 1..256, not {self.buffers!r}")
        if self.contexts > 128:
            raise ValueError(f"contexts must be at most 128, not {self.contexts!r}")
        for name, most in (("collectives", 64), ("regions", 15)):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= most:
                raise ValueError(f"{name} must be in 1..{most}, not {value!r}")
        if self.program_steps > 4096:
            raise ValueError(f"program_steps must be at most 4096, not {self.program_steps!r}")
        if self.packet_bytes % self.flit_bytes or not 0 < self.packet_bytes < 1 << 16:
            raise ValueError(
                f"packet_bytes must be a multiple of {self.flit_bytes} below 65536, "
                f"not {self.packet_bytes!r}"
            )
        if self.burst_beats > 256:
            raise ValueError(f"burst_beats must be at most 256, not {self.burst_beats!r}")
        if self.read_beats < self.burst_beats:
            raise ValueError(
                f"read_beats must be at least {self.burst_beats} burst_beats, "
                f"not {self.read_beats!r}"
            )
        if self.descriptor_window < 2 * self.descriptor_burst:
            raise ValueError(
                f"descriptor_window must be at least {2 * self.descriptor_burst} records, "
                f"not {self.descriptor_window!r}"
            )

    @property
    def lanes(self) -> int:
        """How many classes have a lane of the engine, 1 to 3: everything that one class could hold
        while another waits for it (docs/ace.md, *Classes*)."""
        return 1 if self.classes is None else len(self.classes)

    @property
    def first_ports(self) -> tuple[int, ...]:
        """Of every dim, the number of its first port, counted over all dims; and the end."""
        return tuple(sum(dim.ports for dim in self.dims[:d]) for d in range(len(self.dims) + 1))

    @property
    def address_bits(self) -> int:
        """Bits of an SRAM address."""
        return max(1, (self.sram_flits - 1).bit_length())

    @property
    def packet_flits(self) -> int:
        """Payload flits of a full packet."""
        return self.packet_bytes // self.flit_bytes


def check_positive(name: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is an integer of at least 1."""
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive integer, not {value!r}")


def check_power_of_two(name: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is a power of two."""
    if not isinstance(value, int) or value < 1 or value & (value - 1):
        raise ValueError(f"{name} must be a power of two, not {value!r}")

"""The registers of :class:`rtl.axi.endpoint.AceAxi`: the one table they are built from.

The hardware (``rtl.axi.register_file``), the C header and docs/registers.md (``sim_top.registers``)
all follow this table.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from rtl.ace.counters import DimCounters, EngineCounters
from rtl.ace.status import CompletionStatus

__all__ = [
    "ADDRESS_BITS",
    "VERSION",
    "Access",
    "Field",
    "Interrupt",
    "Register",
    "counters",
    "registers",
]

ADDRESS_BITS = 12
"""The register space is 4 KiB."""

VERSION = 1
"""Of this table."""


class Access(enum.Enum):
    """What the host may do with a register."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read, write"
    CLEAR = "read, write 1 to clear"
    POP = "read takes the oldest"


class Interrupt(enum.IntEnum):
    """Bits of INTERRUPT_PENDING and INTERRUPT_ENABLE."""

    COMPLETION = 0  # a completion waits in COMPLETION; low again when the last one was read
    LINK = 1  # a neighbour was reset and this engine was not


@dataclass(frozen=True, kw_only=True)
class Field:
    """Some bits of a register.

    Parameters
    ----------
    name : lower case
    low, width : place
    text : one sentence, without its stop
    """

    name: str
    low: int
    width: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Register:
    """One register, or a row of equal ones.

    Parameters
    ----------
    name : upper case
    offset : in bytes, a multiple of 4
    access : of the host
    text : one sentence, without its stop
    fields : empty where the whole register is one number
    count, stride : how many, and bytes from one to the next; ``count`` of a table made for all
        engines is the largest
    per : what they are counted by
    wide : a 64-bit number in two registers, the low half first
    """

    name: str
    offset: int
    access: Access
    text: str
    fields: tuple[Field, ...] = ()
    count: int = 1
    stride: int = 4
    per: str = ""
    wide: bool = False

    def addresses(self) -> list[int]:
        """Of each register of the row, or of the low half of each."""
        return [self.offset + self.stride * number for number in range(self.count)]


def _fields(*parts: tuple[str, int, str]) -> tuple[Field, ...]:
    """Fields one above the other: (name, width, text); a name of "" leaves a gap."""
    low = 0
    fields = []
    for name, width, text in parts:
        if name:
            fields.append(Field(name=name, low=low, width=width, text=text))
        low += width
    assert low <= 32, fields
    return tuple(fields)


_INTERRUPTS = _fields(
    ("completion", 1, "a completion waits in COMPLETION; reading the last one clears it"),
    ("link", 1, "a neighbour was reset and this engine was not: reset this one too"),
)

_STATUSES = ", ".join(f"{status.value} {status.name}" for status in CompletionStatus)
_ENGINE_COUNTERS = 0x400
_DIM_COUNTERS = 0x800
_DIM_STRIDE = 0x80


def counters(struct: type) -> list[str]:
    """Names of the counters of a struct, in the order in which they lie."""
    return [name for name, _ in struct.as_shape()]


def registers(*, dims: int = 15, regions: int = 15, lanes: int = 3) -> tuple[Register, ...]:
    """The table, for an engine of ``dims`` dims, counted once for each of ``lanes`` classes, and
    ``regions`` memory regions; by default, as large as it can be."""
    return (
        *_identity(),
        *_commands(),
        *_classes(lanes),
        *_regions(regions),
        *_dims(dims),
        *_counters(dims),
    )


def _identity() -> Sequence[Register]:
    """How the engine was built."""
    return (
        Register(
            name="ID", offset=0x000, access=Access.READ,
            text="what this is",
            fields=_fields(
                ("version", 8, f"version of this table, {VERSION}"),
                ("magic", 24, "0x414345, the letters ACE"),
            ),
        ),
        Register(
            name="SHAPE", offset=0x004, access=Access.READ,
            text="size of the engine",
            fields=_fields(
                ("flit_bytes", 8, "bytes of a flit, of a memory beat and of a stream transfer"),
                ("contexts", 8, "FSM contexts of each dim"),
                ("dims", 4, "dims, each with its port"),
                ("", 4, ""),
                ("completions", 8, "completions that may wait"),
            ),
        ),
        Register(
            name="SRAM", offset=0x008, access=Access.READ,
            text="the engine's memory",
            fields=_fields(
                ("flits", 21, "flits it holds"),
                ("", 1, ""),
                ("buffers", 9, "buffers it may be cut into"),
            ),
        ),
        Register(
            name="LIMITS", offset=0x00C, access=Access.READ,
            text="limits of descriptors",
            fields=_fields(
                ("program_steps", 13, "send steps, and receive steps, of a dim"),
                ("", 3, ""),
                ("packet_bytes", 16, "payload of a full packet"),
            ),
        ),
        Register(
            name="ARITHMETIC", offset=0x010, access=Access.READ,
            text="what the reduction units can do, one bit per code",
            fields=_fields(
                ("data_types", 8, "FP16, BF16, FP32, INT32"),
                ("operators", 8, "sum, max, min"),
            ),
        ),
        Register(
            name="GRANTS", offset=0x014, access=Access.READ,
            text="dims that have a grant stream, one bit each",
        ),
        Register(
            name="MEMORY", offset=0x018, access=Access.READ,
            text="the AXI4 port",
            fields=_fields(
                ("burst_beats", 9, "beats of the longest burst"),
                ("", 3, ""),
                ("reads", 9, "read bursts that may be outstanding"),
                ("", 1, ""),
                ("writes", 9, "write bursts that may be outstanding"),
            ),
        ),
        Register(
            name="PROTECTION", offset=0x01C, access=Access.READ,
            text="sizes of tables",
            fields=_fields(
                ("regions", 4, "memory regions that can be registered"),
                ("", 4, ""),
                ("collectives", 8, "collectives that may be at work at once"),
            ),
        ),
    )  # fmt: skip


def _commands() -> Sequence[Register]:
    """Doorbell, completion, interrupt, reset."""
    return (
        Register(
            name="DOORBELL", offset=0x040, access=Access.WRITE,
            text="a descriptor lies at this address, counted in flits; SLVERR, and nothing done, "
            "while STATUS.doorbell_room is 0 or a reset is under way",
        ),
        Register(
            name="COMPLETION", offset=0x044, access=Access.POP,
            text="the oldest completion; 0 where none waits",
            fields=_fields(
                ("collective", 16, "id of the collective; 0 with DESCRIPTOR_ERROR"),
                ("status", 4, f"how it ended: {_STATUSES}"),
                ("place", 2, "of its class in CLASSES; 0 where all share one"),
                ("", 9, ""),
                ("valid", 1, "a completion was taken by this read"),
            ),
        ),
        Register(
            name="STATUS", offset=0x048, access=Access.READ,
            text="state of the engine",
            fields=_fields(
                ("idle", 1, "nothing is queued, running or unacknowledged"),
                ("resetting", 1, "a reset is under way"),
                ("", 6, ""),
                ("doorbell_room", 8, "doorbells that will be taken"),
                ("completions", 8, "completions that wait"),
            ),
        ),
        Register(
            name="LINKS", offset=0x04C, access=Access.READ,
            text="links whose ends agree, one bit per dim (and class); always 1 without grants",
        ),
        Register(
            name="INTERRUPT_PENDING", offset=0x050, access=Access.CLEAR,
            text="causes of an interrupt", fields=_INTERRUPTS,
        ),
        Register(
            name="INTERRUPT_ENABLE", offset=0x054, access=Access.READ_WRITE,
            text="causes that raise the interrupt", fields=_INTERRUPTS,
        ),
        Register(
            name="CONTROL", offset=0x058, access=Access.WRITE,
            text="commands to the engine as a whole",
            fields=_fields(("reset", 1, "finish the bursts in flight, then reset the engine")),
        ),
        Register(
            name="ABORT", offset=0x05C, access=Access.WRITE,
            text="give a collective up; no effect on one that is not at work",
            fields=_fields(("collective", 16, "its id")),
        ),
    )  # fmt: skip


def _classes(lanes: int) -> Sequence[Register]:
    """What an engine with several classes has besides."""
    if lanes == 1:
        return ()
    return (
        Register(
            name="CLASSES", offset=0x020, access=Access.READ,
            text="classes with a lane of their own (0 MP, 1 PP, 2 DP), in falling priority; only "
            "where there are several, as all that names a class",
            fields=_fields(
                ("count", 2, "how many"),
                ("", 2, ""),
                ("first", 2, "whose doorbell is DOORBELL"),
                ("second", 2, "whose doorbell is DOORBELL_1"),
                ("third", 2, "whose doorbell is DOORBELL_2"),
            ),
        ),
        *(
            Register(
                name=f"DOORBELL_{lane}", offset=0x05C + 4 * lane, access=Access.WRITE,
                text=f"DOORBELL of the {place} class; its room is in DOORBELL_ROOM",
            )
            for lane, place in ((1, "second"), (2, "third"))[: lanes - 1]
        ),
        Register(
            name="DOORBELL_ROOM", offset=0x068, access=Access.READ,
            text="doorbells of each class that will be taken",
            fields=_fields(
                ("first", 8, "as STATUS.doorbell_room"), ("second", 8, "of DOORBELL_1"),
                ("third", 8, "of DOORBELL_2"),
            ),
        ),
    )  # fmt: skip


def _regions(regions: int) -> Sequence[Register]:
    """What the engine may touch: nothing, until the host registers it."""
    row = {"count": regions, "stride": 16, "per": "region"}
    return (
        Register(
            name="REGION_BASE", offset=0x080, access=Access.READ_WRITE,
            text="first flit of a region that the engine may touch", **row,
        ),
        Register(
            name="REGION_LIMIT", offset=0x084, access=Access.READ_WRITE,
            text="its last flit", **row,
        ),
        Register(
            name="REGION_ACCESS", offset=0x088, access=Access.READ_WRITE,
            text="what the engine may do there",
            fields=_fields(("read", 1, "read"), ("write", 1, "write")), **row,
        ),
    )  # fmt: skip


def _dims(dims: int) -> Sequence[Register]:
    """What every dim engine is about: dim d of class number c in place c * dims + d."""
    row = {"count": dims, "stride": 8, "per": "dim"}
    return (
        Register(
            name="DIM_STATUS", offset=0x180, access=Access.READ,
            text="the oldest op that runs, or the next one",
            fields=_fields(
                ("running", 1, "an op runs"),
                ("queued", 1, "an op waits to start"),
                ("", 2, ""),
                ("cause", 4, "what the running op waits for (WaitCause, rtl/ace/status.py)"),
                ("start_cause", 4, "what the next op waits for"),
                ("", 4, ""),
                ("op", 16, "number of the op since reset"),
            ),
            **row,
        ),
        Register(
            name="DIM_PROGRESS", offset=0x184, access=Access.READ,
            text="how far that op is",
            fields=_fields(
                ("sent", 8, "messages sent"),
                ("received", 8, "messages received"),
                ("collective", 16, "its collective id"),
            ),
            **row,
        ),
    )  # fmt: skip


def _counters(dims: int) -> Sequence[Register]:
    """The engine's counters (docs/ace.md), by name."""
    out = []
    for number, name in enumerate(counters(EngineCounters)):
        out.append(
            Register(
                name=f"COUNT_{name.upper()}", offset=_ENGINE_COUNTERS + 8 * number,
                access=Access.READ, text=f"counter {name}", wide=True,
            )
        )  # fmt: skip
    names = counters(DimCounters)
    assert 8 * len(names) <= _DIM_STRIDE
    for number, name in enumerate(names):
        out.append(
            Register(
                name=f"DIM_{name.upper()}", offset=_DIM_COUNTERS + 8 * number,
                access=Access.READ, text=f"counter {name}", wide=True,
                count=dims, stride=_DIM_STRIDE, per="dim",
            )
        )  # fmt: skip
    return out

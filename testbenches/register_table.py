"""A table of registers with one of each kind, for the bench of the register file: more of them than
are gathered in one stage, rows, 64-bit numbers, fields with gaps."""

from rtl.axi.register_map import Access, Field, Register

__all__ = ["TABLE"]


def _fields(**places: tuple[int, int]) -> tuple[Field, ...]:
    return tuple(
        Field(name=name, low=low, width=width, text=name) for name, (low, width) in places.items()
    )


TABLE = (
    Register(name="ID", offset=0x000, access=Access.READ, text="a number"),
    Register(name="GO", offset=0x010, access=Access.WRITE, text="a command"),
    Register(name="OTHER_GO", offset=0x014, access=Access.WRITE, text="another"),
    Register(name="OLDEST", offset=0x018, access=Access.POP, text="a queue"),
    Register(name="CAUSES", offset=0x01C, access=Access.CLEAR, text="bits"),
    Register(
        name="MODE", offset=0x020, access=Access.READ_WRITE, text="two fields with a gap",
        fields=_fields(low=(0, 3), high=(4, 4)),
    ),
    Register(
        name="BASE", offset=0x080, access=Access.READ_WRITE, text="a row", count=12, stride=16,
        per="region",
    ),
    Register(name="STATE", offset=0x180, access=Access.READ, text="a row", count=5, stride=8),
    Register(name="COUNT", offset=0x400, access=Access.READ, text="64 bits", wide=True),
    Register(
        name="DIM_COUNT", offset=0x800, access=Access.READ, text="a row of them", wide=True,
        count=2, stride=0x80, per="dim",
    ),
    Register(name="LAST", offset=0xFFC, access=Access.READ, text="at the end of the space"),
)  # fmt: skip

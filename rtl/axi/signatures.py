"""AXI4, AXI4-Lite and AXI4-Stream ports (AMBA AXI and ACE IHI 0022, AXI4-Stream IHI 0051)."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = [
    "BOUNDARY",
    "AxiLiteSignature",
    "AxiReadSignature",
    "AxiSignature",
    "AxiStreamSignature",
    "AxiWriteSignature",
    "Burst",
    "Response",
]

BOUNDARY = 4096
"""No burst crosses an address that is a multiple of this many bytes."""


class Burst:
    """Codes of AxBURST."""

    INCR = 1


class Response:
    """Codes of xRESP; an error has bit 1 set."""

    OKAY = 0
    SLVERR = 2
    DECERR = 3


class AxiReadSignature(wiring.Signature):
    """The read channels, AR and R, of an AXI4 port, seen from the manager."""

    def __init__(self, *, address_bits: int, data_bytes: int, id_bits: int):
        self.address_bits = address_bits
        self.data_bytes = data_bytes
        self.id_bits = id_bits
        super().__init__(
            {
                **_address("ar", address_bits, id_bits),
                "rid": In(id_bits),
                "rdata": In(8 * data_bytes),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class AxiWriteSignature(wiring.Signature):
    """The write channels, AW, W and B, of an AXI4 port, seen from the manager."""

    def __init__(self, *, address_bits: int, data_bytes: int, id_bits: int):
        self.address_bits = address_bits
        self.data_bytes = data_bytes
        self.id_bits = id_bits
        super().__init__(
            {
                **_address("aw", address_bits, id_bits),
                "wdata": Out(8 * data_bytes),
                "wstrb": Out(data_bytes),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bid": In(id_bits),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
            }
        )


class AxiSignature(wiring.Signature):
    """All channels of an AXI4 port, seen from the manager."""

    def __init__(self, *, address_bits: int, data_bytes: int, id_bits: int):
        shape = {"address_bits": address_bits, "data_bytes": data_bytes, "id_bits": id_bits}
        self.reads = AxiReadSignature(**shape)
        self.writes = AxiWriteSignature(**shape)
        super().__init__({**self.reads.members, **self.writes.members})


class AxiLiteSignature(wiring.Signature):
    """An AXI4-Lite port of 32 data bits, seen from the manager."""

    def __init__(self, *, address_bits: int):
        self.address_bits = address_bits
        members = {}
        for channel in ("aw", "ar"):
            members |= {
                f"{channel}addr": Out(address_bits),
                f"{channel}prot": Out(3),
                f"{channel}valid": Out(1),
                f"{channel}ready": In(1),
            }
        super().__init__(
            {
                **members,
                "wdata": Out(32),
                "wstrb": Out(4),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "rdata": In(32),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class AxiStreamSignature(wiring.Signature):
    """An AXI4-Stream port, seen from the transmitter.

    Parameters
    ----------
    data_bytes : of ``tdata``
    user_bits : of ``tuser``; 0: there is none
    """

    def __init__(self, *, data_bytes: int, user_bits: int = 0):
        self.data_bytes = data_bytes
        self.user_bits = user_bits
        members = {
            "tdata": Out(8 * data_bytes),
            "tlast": Out(1),
            "tvalid": Out(1),
            "tready": In(1),
        }
        if user_bits:
            members["tuser"] = Out(user_bits)
        super().__init__(members)


def _address(channel: str, address_bits: int, id_bits: int) -> dict[str, wiring.Member]:
    """The signals of an address channel."""
    return {
        f"{channel}id": Out(id_bits),
        f"{channel}addr": Out(address_bits),
        f"{channel}len": Out(8),
        f"{channel}size": Out(3),
        f"{channel}burst": Out(2),
        f"{channel}lock": Out(1),
        f"{channel}cache": Out(4),
        f"{channel}prot": Out(3),
        f"{channel}qos": Out(4),
        f"{channel}valid": Out(1),
        f"{channel}ready": In(1),
    }

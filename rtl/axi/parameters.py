"""How the engine stands on its AXI ports."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AxiParameters"]


@dataclass(frozen=True, kw_only=True)
class AxiParameters:
    """Attributes of the AXI4 memory port.

    Parameters
    ----------
    address_bits : of AxADDR, 12 to 64
    id_bits : of every ID, 1 to 16
    read_id, write_id : the one ID of all reads, and of all writes: responses come in order
    prot, qos, cache : AxPROT, AxQOS and AxCACHE of all bursts
    burst_beats : beats of the longest burst, 1 to 256
    reads, writes : bursts that may be outstanding, 1 to 256
    gather_cycles : cycles in which a burst of writes waits for the next flit before it is closed

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    address_bits: int = 40
    id_bits: int = 4
    read_id: int = 0
    write_id: int = 0
    prot: int = 0b010
    qos: int = 0
    cache: int = 0b0011
    burst_beats: int = 16
    reads: int = 8
    writes: int = 8
    gather_cycles: int = 4

    def __post_init__(self) -> None:
        bounds = {
            "address_bits": (12, 64),
            "id_bits": (1, 16),
            "read_id": (0, (1 << self.id_bits) - 1 if isinstance(self.id_bits, int) else 0),
            "write_id": (0, (1 << self.id_bits) - 1 if isinstance(self.id_bits, int) else 0),
            "prot": (0, 7),
            "qos": (0, 15),
            "cache": (0, 15),
            "burst_beats": (1, 256),
            "reads": (1, 256),
            "writes": (1, 256),
            "gather_cycles": (1, 255),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"{name} must be in {low}..{high}, not {value!r}")

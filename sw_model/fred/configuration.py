"""Flows through a FRED switch, and configurations that carry several at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sw_model.fred.construction import Construction, check_size, construct
from sw_model.fred.modes import Mode, mode_bits, mode_code, mode_from_code

__all__ = ["Configuration", "Flow", "check_flows", "parse_flow"]


@dataclass(frozen=True)
class Flow:
    """Reduce over the input ports and multicast the result to the output ports.

    Parameters
    ----------
    inputs, outputs : distinct port numbers, kept in ascending order
    traffic_class : "mp", "pp" or "dp"
    data_type : "fp16", "bf16", "fp32" or "int32"
    operator : "sum", "max" or "min"

    Raises
    ------
    ValueError
        where a side is empty, or names a port twice.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    traffic_class: str = "dp"
    data_type: str = "fp16"
    operator: str = "sum"

    def __post_init__(self) -> None:
        for side, ports in (("input", self.inputs), ("output", self.outputs)):
            if not ports:
                raise ValueError(f"a flow must have at least one {side} port")
            if len(set(ports)) != len(ports):
                raise ValueError(f"the {side} ports of a flow must differ, not {list(ports)!r}")
        object.__setattr__(self, "inputs", tuple(sorted(self.inputs)))
        object.__setattr__(self, "outputs", tuple(sorted(self.outputs)))

    @classmethod
    def all_reduce(cls, ports: Iterable[int], **attributes: str) -> Flow:
        """Inputs and outputs are the same ports."""
        ports = tuple(ports)
        return cls(ports, ports, **attributes)

    def __str__(self) -> str:
        inputs = ",".join(map(str, self.inputs))
        if self.inputs == self.outputs:
            return inputs
        return f"{inputs}>{','.join(map(str, self.outputs))}"

    def overlaps(self, other: Flow) -> bool:
        """Whether both use the same input or the same output port."""
        return bool(set(self.inputs) & set(other.inputs) or set(self.outputs) & set(other.outputs))


def parse_flow(text: str) -> Flow:
    """Read ``0,1,2`` (an all-reduce) or ``0,4>1,3`` (inputs > outputs).

    Raises
    ------
    ValueError
        where the text is neither.
    """
    sides = text.split(">")
    try:
        if len(sides) > 2:
            raise ValueError
        ports = [tuple(map(_port, side.split(","))) if side.strip() else () for side in sides]
    except ValueError:
        raise ValueError(f"a flow must read 0,1,2 or 0,4>1,3, not {text!r}") from None
    try:
        return Flow(ports[0], ports[-1])
    except ValueError as error:
        raise ValueError(f"flow {text!r}: {error}") from None


def _port(text: str) -> int:
    # Not all that int() takes: 1_0, and digits of any script.
    if not re.fullmatch(r"-?[0-9]+", text.strip()):
        raise ValueError
    return int(text)


def check_flows(ports: int, flows: Iterable[Flow], *, disjoint: bool = True) -> tuple[Flow, ...]:
    """Refuse flows that do not fit ``ports``, or (``disjoint``) share a port.

    Raises
    ------
    ValueError
        naming the flow, or the two flows and the port.
    """
    flows = tuple(flows)
    for flow in flows:
        for port in (*flow.inputs, *flow.outputs):
            if not 0 <= port < ports:
                raise ValueError(f"flow {flow}: a port must be in 0..{ports - 1}, not {port!r}")
    if disjoint:
        for side in ("input", "output"):
            owner: dict[int, Flow] = {}
            for flow in flows:
                for port in flow.inputs if side == "input" else flow.outputs:
                    if port in owner:
                        raise ValueError(
                            f"flows of one configuration must not overlap: {owner[port]} and "
                            f"{flow} share {side} port {port}"
                        )
                    owner[port] = flow
    return flows


@dataclass(frozen=True)
class Configuration:
    """The modes of all micro-switches of FRED_m(P) for a set of flows that run together.

    Attributes
    ----------
    ports, middle_copies : P and m
    flows : disjoint at the inputs and at the outputs
    modes : one per micro-switch, in the order of ``Construction.switches``

    Raises
    ------
    ValueError
        where the flows do not fit, or a switch has no such mode.
    """

    ports: int
    middle_copies: int
    flows: tuple[Flow, ...]
    modes: tuple[Mode, ...]

    def __post_init__(self) -> None:
        check_size(self.ports, self.middle_copies)
        check_flows(self.ports, self.flows)
        switches = self.construction.switches
        if len(self.modes) != len(switches):
            raise ValueError(
                f"a configuration of FRED_{self.middle_copies}({self.ports}) must have "
                f"{len(switches)} modes, not {len(self.modes)!r}"
            )
        for switch, mode in zip(switches, self.modes, strict=True):
            mode_code(switch.kind, self.middle_copies, mode)

    @property
    def construction(self) -> Construction:
        """The switch it configures."""
        return construct(self.ports, self.middle_copies)

    def modes_word(self) -> int:
        """All modes as one integer: the first micro-switch in the least significant bits."""
        word = shift = 0
        for switch, mode in zip(self.construction.switches, self.modes, strict=True):
            word |= mode_code(switch.kind, self.middle_copies, mode) << shift
            shift += mode_bits(switch.kind, self.middle_copies)
        return word

    @classmethod
    def from_modes_word(
        cls, ports: int, middle_copies: int, flows: Iterable[Flow], word: int
    ) -> Configuration:
        """Inverse of :meth:`modes_word`."""
        modes = []
        for switch in construct(ports, middle_copies).switches:
            bits = mode_bits(switch.kind, middle_copies)
            modes.append(mode_from_code(switch.kind, middle_copies, word & ((1 << bits) - 1)))
            word >>= bits
        return cls(ports, middle_copies, tuple(flows), tuple(modes))

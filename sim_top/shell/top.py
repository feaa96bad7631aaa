"""Writing the top module: a component, its memories and the shell around them.

The top module has no ports. Every port of the component is a signal of the same name in it; those
that Python reads or writes are named in the plan, and only they stay reachable in the model.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping
from dataclasses import dataclass, field

from amaranth.lib import data, wiring

from sim_top.emission.hierarchy import Port, component_ports
from sim_top.simulator.emitted import emit_cached
from sim_top.simulator.model import Model

__all__ = ["CONTROL", "MemoryAttachment", "ShellPlan", "shell_model", "write_top"]

CONTROL: Mapping[str, str] = {
    "go": "[0:0]",
    "reset_request": "[0:0]",
    "wake_at": "[63:0]",
    "watchdog_limit": "[31:0]",
    "event_enable": "[EVENTS-1:0]",
    "memory_chosen": "[MEMORIES-1:0]",
    "memory_load": "[0:0]",
    "memory_dump": "[0:0]",
    "memory_first": "[31:0]",
    "memory_last": "[31:0]",
    "memory_read_gain": "[15:0]",
    "memory_read_cost": "[15:0]",
    "memory_write_gain": "[15:0]",
    "memory_write_cost": "[15:0]",
}
"""Signals of the top that Python writes, and their ranges."""

_RATES = ("memory_read_gain", "memory_read_cost", "memory_write_gain", "memory_write_cost")
"""Those that are 1 at the start: the memories take and give a beat per cycle."""

STATUS: Mapping[str, str] = {
    "clk": "[0:0]",
    "rst": "[0:0]",
    "cycle": "[63:0]",
    "stopped": "[0:0]",
    "reason": "[EVENTS+2:0]",
    "quiet_cycles": "[31:0]",
    "memory_fault": "[MEMORIES-1:0]",
}
"""Signals of the top that Python reads, and their ranges."""


@dataclass(frozen=True)
class MemoryAttachment:
    """Where a memory is attached: the names of the component's two memory ports.

    Parameters
    ----------
    read : has the stream ``request`` (a struct of ``address`` and ``beats``) and the stream
        ``data``
    write : has the stream ``request`` (a struct of ``address``, ``data`` and ``strobe``) and the
        bit ``acknowledged``
    """

    read: str
    write: str


@dataclass(frozen=True)
class ShellPlan:
    """How a component is put into its shell.

    Parameters
    ----------
    events : output ports that stop the clock while any of their bits is high
    activity : output port, high in cycles of progress; feeds the watchdog (None: no watchdog)
    outstanding : output port, high while progress is expected (None: always)
    public : further ports that Python reads (outputs) or writes (inputs, 0 at the start)
    memories : where the memories are attached
    memory_words, read_latency, write_latency : of each memory, in beats and cycles
    """

    events: tuple[str, ...] = ()
    activity: str | None = None
    outstanding: str | None = None
    public: tuple[str, ...] = ()
    memories: tuple[MemoryAttachment, ...] = ()
    memory_words: int = 1 << 16
    read_latency: int = 64
    write_latency: int = 32

    def __post_init__(self) -> None:
        if self.memory_words < 1:
            raise ValueError(f"memory_words must be at least 1, not {self.memory_words!r}")
        if self.read_latency < 2:
            raise ValueError(f"read_latency must be at least 2 cycles, not {self.read_latency!r}")
        if self.write_latency < 1:
            raise ValueError(f"write_latency must be at least 1 cycle, not {self.write_latency!r}")


def shell_model(
    component: wiring.Component,
    plan: ShellPlan,
    *,
    name: str = "platform",
    emission_key: str | None = None,
    optimise: str = "-O3",
    simulator: str = "verilator",
    waves: bool = False,
    options: tuple[str, ...] = (),
    blocks: tuple[str, ...] = (),
) -> Model:
    """The model of ``component`` in its shell; its top is ``simulation``.

    Parameters
    ----------
    component : the platform, or any other clocked component
    plan : how it is put into the shell
    name : name of the component's module
    emission_key : text that, with the sources of this project, determines the component; given, an
        unchanged platform is not elaborated again
    optimise, simulator, waves, options, blocks : as for :class:`~sim_top.simulator.Model`

    Raises
    ------
    ValueError
        where the plan names a port that the component does not have, or that has the wrong
        direction.
    """
    sources = {
        f"{name}.sv": emit_cached(component, name=name, key=emission_key),
        "sim_shell.sv": _verilog("sim_shell.sv"),
        "sim_memory.sv": _verilog("sim_memory.sv"),
        "simulation.sv": write_top(component, plan, name=name),
    }
    return Model(
        top="simulation",
        sources=sources,
        simulator=simulator,
        public={"simulation": (*CONTROL, *STATUS, *plan.events, *plan.public)},
        timing=True,
        optimise=optimise,
        waves=waves,
        options=options,
        blocks=blocks,
    )


def _verilog(file: str) -> str:
    return importlib.resources.files("sim_top").joinpath("verilog", file).read_text()


@dataclass(frozen=True)
class _Ports:
    """The ports of a component by name, with the layout of those that have one."""

    ports: Mapping[str, Port]
    layouts: Mapping[str, data.Layout] = field(default_factory=dict)

    @classmethod
    def of(cls, component: wiring.Component) -> _Ports:
        layouts = {
            "__".join(map(str, path)): value.shape()
            for path, _, value in component.signature.flatten(component)
            if isinstance(value, data.View)
        }
        return cls({port.name: port for port in component_ports(component)}, layouts)

    def check(self, name: str, *, is_input: bool, use: str) -> str:
        port = self.ports.get(name)
        if port is None or port.is_input != is_input:
            direction = "an input" if is_input else "an output"
            raise ValueError(f"{use} must be {direction} of the component, not {name!r}")
        return name

    def slice(self, name: str, member: str) -> str:
        layout = self.layouts.get(name)
        if layout is None or member not in dict(layout):
            raise ValueError(f"{name!r} must have a layout with a member {member!r}")
        place = layout[member]
        return f"{name}[{place.offset + place.width - 1}:{place.offset}]"


def write_top(component: wiring.Component, plan: ShellPlan, *, name: str) -> str:
    """SystemVerilog of the top module ``simulation`` around the module ``name``."""
    ports = _Ports.of(component)
    for port in plan.public:
        if port not in ports.ports:
            raise ValueError(f"a public signal must be a port of the component, not {port!r}")
    lines = [
        f"// The simulation of {name}: the component, its memories and its shell.",
        "module simulation;",
        f"  localparam EVENTS = {max(1, len(plan.events))};",
        f"  localparam MEMORIES = {max(1, len(plan.memories))};",
        "",
        "  // Written from outside.",
        *(
            f"  logic {extent} {signal} = {int(signal in _RATES)};"
            for signal, extent in CONTROL.items()
        ),
        "",
        "  // Read from outside.",
        *(f"  wire {extent} {signal};" for signal, extent in STATUS.items()),
        "",
        "  // The component.",
        *_declarations(ports, plan),
        *_instance(ports, name),
        "",
        *_shell(ports, plan),
    ]
    for number, attachment in enumerate(plan.memories):
        lines += ["", *_memory(ports, plan, number, attachment)]
    if not plan.memories:
        lines += ["", "  assign memory_fault = 0;"]
    return "\n".join([*lines, "endmodule", ""])


def _declarations(ports: _Ports, plan: ShellPlan) -> list[str]:
    attached = set()
    for memory in plan.memories:
        attached |= {f"{port}__request__ready" for port in (memory.read, memory.write)}
        attached |= {f"{memory.read}__data__valid", f"{memory.read}__data__payload"}
        attached.add(f"{memory.write}__acknowledged")
    lines = []
    for port in ports.ports.values():
        driven_here = port.is_input and port.name not in attached
        kind, start = ("logic", " = 0") if driven_here else ("wire", "")
        lines.append(f"  {kind} [{len(port.signal) - 1}:0] {port.name}{start};")
    return lines


def _instance(ports: _Ports, name: str) -> list[str]:
    connections = ["    .clk(clk)", "    .rst(rst)"]
    connections += [f"    .{port}({port})" for port in ports.ports]
    return [f"  {name} {name} (", ",\n".join(connections), "  );"]


def _shell(ports: _Ports, plan: ShellPlan) -> list[str]:
    events = [
        f"|{ports.check(event, is_input=False, use='an event')}" for event in reversed(plan.events)
    ]
    watched = {}
    for use, default in (("activity", "1'b1"), ("outstanding", "1'b1")):
        port = getattr(plan, use)
        watched[use] = default if port is None else "|" + ports.check(port, is_input=False, use=use)
    names = ["clk", "rst", "cycle", "go", "reset_request", "wake_at", "watchdog_limit"]
    names += ["event_enable", "stopped", "reason", "quiet_cycles"]
    zero = "1'b0"
    connections = [f"    .{signal}({signal})" for signal in names]
    connections.append(f"    .events({{{', '.join(events) or zero}}})")
    connections += [f"    .{use}({expression})" for use, expression in watched.items()]
    return ["  sim_shell #(.EVENTS(EVENTS)) shell (", ",\n".join(connections), "  );"]


def _memory(ports: _Ports, plan: ShellPlan, number: int, attachment: MemoryAttachment) -> list[str]:
    request, response = f"{attachment.read}__request", f"{attachment.read}__data"
    write, acknowledged = f"{attachment.write}__request", f"{attachment.write}__acknowledged"
    payload = ports.check(f"{response}__payload", is_input=True, use="a read response")
    ports.check(f"{request}__payload", is_input=False, use="a read request")
    ports.check(f"{write}__payload", is_input=False, use="a write request")
    ports.check(acknowledged, is_input=True, use="a write acknowledgement")
    flit_bytes = len(ports.ports[payload].signal) // 8
    connections = {
        "clk": "clk",
        "rst": "rst",
        **{name.removeprefix("memory_"): name for name in _RATES},
        "read_request_valid": f"{request}__valid",
        "read_request_ready": f"{request}__ready",
        "read_request_address": ports.slice(f"{request}__payload", "address"),
        "read_request_beats": ports.slice(f"{request}__payload", "beats"),
        "read_data_valid": f"{response}__valid",
        "read_data_ready": f"{response}__ready",
        "read_data_payload": payload,
        "write_valid": f"{write}__valid",
        "write_ready": f"{write}__ready",
        "write_address": ports.slice(f"{write}__payload", "address"),
        "write_data": ports.slice(f"{write}__payload", "data"),
        "write_strobe": ports.slice(f"{write}__payload", "strobe"),
        "write_acknowledged": acknowledged,
        "fault": f"memory_fault[{number}]",
        "chosen": f"memory_chosen[{number}]",
        "load": "memory_load[0]",
        "dump": "memory_dump[0]",
        "first": "memory_first",
        "last": "memory_last",
    }
    return [
        "  sim_memory #(",
        f"    .ID({number}), .WORDS({plan.memory_words}), .FLIT_BYTES({flit_bytes}),",
        f"    .READ_LATENCY({plan.read_latency}), .WRITE_LATENCY({plan.write_latency})",
        f"  ) memory_{number} (",
        ",\n".join(f"    .{port}({signal})" for port, signal in connections.items()),
        "  );",
    ]

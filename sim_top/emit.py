"""Writing a part of the design as SystemVerilog, for other people's flows."""

from __future__ import annotations

import gc
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from amaranth.hdl import UnusedElaboratable
from amaranth.lib import wiring

from rtl.ace.endpoint import AceEndpoint
from rtl.ace.parameters import AceParameters, DimParameters
from rtl.ace.presets import PRESETS
from rtl.axi.endpoint import AceAxi
from rtl.axi.parameters import AxiParameters
from rtl.axi.register_map import registers
from rtl.common.packet import DataType, Operator, TrafficClass
from rtl.fred.switch import FredSwitch
from rtl.link.port import LinkPort
from rtl.link.transmitter import STARVATION_BOUND
from rtl.link.wire import per_channel
from sim_top.emission import emit_systemverilog
from sim_top.emission.companions import constraints, instantiation
from sim_top.emission.portable import portable
from sim_top.emission.ports import field_ports
from sim_top.platform.component import PlatformComponent
from sim_top.registers import c_header
from sim_top.whole_files import WholeFiles
from sw_model.endpoint.timing import ACE_TIMING
from sw_model.errors import InputError, nearest
from sw_model.fred.timing import FRED_TIMING
from sw_model.platform import Platform
from sw_model.topology import Dim, DimKind, Topology
from sw_model.units import shown

__all__ = ["LINT", "TOPS", "WAIVED", "emit", "written"]

Settings = dict[str, Any]
Progress = Callable[[float], object]

WAIVED: Mapping[str, str] = {
    "DECLFILENAME": "all modules stand in one file",
    "UNUSEDSIGNAL": "Yosys names parts of expressions that are not used further",
    "WIDTHEXPAND": "it compares and adds values of different widths, as Amaranth means it",
    "WIDTHTRUNC": "and cuts sums where Amaranth cuts them",
    "PROCASSINIT": "registers have an initial value beside their reset",
    "SYMRSVDWORD": "a port called operator is a word of C++, which the model renames",
    "VARHIDDEN": "a part and a register inside it may have the same name",
    "CMPCONST": "a code is compared with its largest value also where every code is one",
    "CASEINCOMPLETE": "values are assigned before the case",
}
"""Warnings of Verilator that what is written may give, and why each is harmless."""

LINT = ["-Wall", *(f"-Wno-{name}" for name in WAIVED)]
"""Verilator's options for linting what is written."""

_LARGEST = 1 << 20  # no parameter of a part is larger
_KINDS = {"data_types": DataType, "operators": Operator, "classes": TrafficClass}
"""Parameters that are sets of names, joined by +."""
_SHARED = "shared"
"""Name of no class: all data shares one channel."""


@dataclass(frozen=True)
class _Top:
    """What can be written: its presets, and how a component is made of settings."""

    presets: Mapping[str, Settings]
    build: Callable[[Settings], wiring.Component]


def _check(settings: Settings, name: str, least: int, most: int = _LARGEST) -> None:
    """Refuse what a part would refuse by a name that nobody has set here."""
    if not least <= settings[name] <= most:
        raise ValueError(f"{name} must be in {least}..{most}, not {settings[name]!r}")


def _ace(settings: Settings) -> wiring.Component:
    for name, least, most in (
        ("ring_dims", 0, 15),
        ("fred_dims", 0, 15),
        ("link_depth", 1, _LARGEST),
        ("adder_depth", 1, 6),
        ("axi", 0, 1),
    ):
        _check(settings, name, least, most)
    shared = {
        name: settings[name] for name in (f.name for f in fields(AceParameters)) if name in settings
    }
    ring = DimParameters(grants=True, credits=settings["link_depth"], depth=settings["link_depth"])
    fred = replace(ring, grants=False)
    dims = (ring,) * settings["ring_dims"] + (fred,) * settings["fred_dims"]
    shared |= {"data_types": settings["data_types"], "operators": settings["operators"]}
    shared["classes"] = settings["classes"] or None
    parameters = AceParameters(dims=dims, **shared)
    if not settings["axi"]:
        return AceEndpoint(parameters=parameters)
    try:
        axi = AxiParameters(**{f.name: settings[f"axi_{f.name}"] for f in fields(AxiParameters)})
    except ValueError as error:
        raise ValueError(f"axi_{error}") from None  # it begins with the name of a field
    return AceAxi(parameters=parameters, axi=axi, completions=settings["completions"])


def _fred(settings: Settings) -> wiring.Component:
    names = (
        "ports", "middle_copies", "flit_bytes", "packet_bytes", "adder_depth", "configurations",
        "starvation_bound",
    )  # fmt: skip
    classes = settings["classes"]
    control = TrafficClass.CONTROL in classes
    depths: dict[str, int | tuple[int, ...]] = {}
    for name, of_control in (
        ("input_depth", "control_depth"),
        ("output_credits", "control_credits"),
    ):
        depths[name] = settings[name]
        if control:
            # By the names that they have here; what else is wrong with them, the switch says.
            each = [per_channel(key, settings[key], 1) for key in (name, of_control)]
            depths[name] = each[0] * (len(classes) - 1) + each[1]
    return FredSwitch(
        data_types=frozenset(settings["data_types"]),
        operators=frozenset(settings["operators"]),
        rate=Fraction(1),
        classes=classes or None,
        control_bytes=settings["control_bytes"] if control else None,
        **{name: settings[name] for name in names},
        **depths,
    )


def _link(settings: Settings) -> wiring.Component:
    _check(settings, "rate_denominator", 1)
    _check(settings, "rate_numerator", 1, settings["rate_denominator"])
    # The far end of a link is another of these.
    _check(settings, "credits", 1, settings["depth"])
    return LinkPort(
        flit_bytes=settings["flit_bytes"],
        credits=settings["credits"],
        depth=settings["depth"],
        rate=Fraction(settings["rate_numerator"], settings["rate_denominator"]),
        channels=settings["channels"],
    )


def _platform(settings: Settings) -> wiring.Component:
    gb_per_s = 10**9
    dims = (
        Dim(DimKind.RING, settings["ring"], Fraction(20 * gb_per_s), 16_000),
        Dim(DimKind.FRED, settings["fred"], Fraction(15 * gb_per_s), 24_000),
    )
    return PlatformComponent(Platform.from_topology(Topology(dims)))


_ARITHMETIC: Settings = {
    "data_types": (DataType.FP16, DataType.INT32),
    "operators": (Operator.SUM,),
}
_ACE_SIM: Settings = {
    **_ARITHMETIC,
    **PRESETS["sim"],
    "ring_dims": 1,
    "fred_dims": 1,
    "classes": (),
    "link_depth": 64,
    "adder_depth": ACE_TIMING.adder_depth,
    "completions": 16,
    "axi": 1,  # 0: the ports are Antiphon's own, as between the parts of a platform
    **{f"axi_{name}": value for name, value in asdict(AxiParameters()).items()},
}
_FRED_SIM: Settings = {
    **_ARITHMETIC,
    "ports": 4,
    "middle_copies": 3,
    "flit_bytes": 16,
    "packet_bytes": 4096,
    "adder_depth": FRED_TIMING.adder_depth,
    "configurations": 18,
    "input_depth": 320,
    "output_credits": 320,
    "classes": (),
    "starvation_bound": STARVATION_BOUND,
    # For the class "control" only.
    "control_bytes": 512,
    "control_depth": 64,
    "control_credits": 64,
}

_LINK_SIM: Settings = {
    "flit_bytes": 16,
    "credits": 64,
    "depth": 64,
    "rate_numerator": 1,
    "rate_denominator": 1,
    "channels": 1,
}

TOPS: Mapping[str, _Top] = {
    "ace": _Top(
        presets={
            "sim": _ACE_SIM,
            "paper": {
                **_ACE_SIM,
                **PRESETS["paper"],
                "ring_dims": 3,
                "fred_dims": 0,
                "link_depth": 1024,
            },
        },
        build=_ace,
    ),
    "fred": _Top(
        presets={
            "sim": _FRED_SIM,
            # docs/fred.md: the L1 slice of the wafer, FRED_3(12), with flits of 64 bytes, and
            # buffers of 24 KiB for each class of data and of 2 KiB for control.
            "paper": {
                **_FRED_SIM,
                "ports": 12,
                "flit_bytes": 64,
                "configurations": 36,
                "input_depth": 384,
                "output_credits": 384,
                "classes": tuple(TrafficClass),
                "control_depth": 32,
                "control_credits": 32,
            },
        },
        build=_fred,
    ),
    "link": _Top(
        presets={
            "sim": _LINK_SIM,
            # Four classes, and a round trip of 500 cycles each way at 64 bytes a cycle.
            "paper": {
                **_LINK_SIM,
                "flit_bytes": 64,
                "credits": 1024,
                "depth": 1024,
                "channels": 4,
            },
        },
        build=_link,
    ),
    "platform": _Top(
        presets={"sim": {"ring": 4, "fred": 4}, "paper": {"ring": 4, "fred": 4}}, build=_platform
    ),
}
"""What can be written."""


def emit(
    top: str,
    out: Path,
    *,
    preset: str,
    settings: Mapping[str, str],
    period_ps: int = 5000,
    progress: Progress | None = None,
) -> list[Path]:
    """Write ``<top>.sv``, and beside it the constraints of its clock, a wrapper that instantiates
    it, and a FuseSoC core file that names them; for ``ace`` on AXI also a C header of its
    registers.

    The same arguments give the same bytes. The header of the SystemVerilog says the parameters.

    Parameters
    ----------
    top : a name of :data:`TOPS`
    out : folder, made where it is missing
    preset : ``sim`` or ``paper``
    settings : parameters to change, as text
    period_ps : of the clock, for the constraints
    progress : called with the share that is done

    Returns
    -------
    list of Path
        the files written

    Raises
    ------
    InputError
        for an unknown top, preset or parameter, one that has no effect beside the others, a value
        that the component refuses, or a file that cannot be written; then none is, and those that
        were there stay.
    """
    text, chosen = written(top, preset=preset, settings=settings, progress=progress)
    files = {
        f"{top}.sv": text,
        f"{top}.sdc": constraints(text, top, period_ps=period_ps),
        f"{top}_example.v": instantiation(text, top),
    }
    if chosen.get("axi"):
        dims = chosen["ring_dims"] + chosen["fred_dims"]
        lanes = max(1, len(chosen["classes"]))
        table = registers(dims=dims * lanes, regions=chosen["regions"], lanes=lanes)
        files["ace_registers.h"] = c_header(table)
    files[f"{top}.core"] = _core(top, headers=[name for name in files if name.endswith(".h")])
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=out) from None
    with WholeFiles() as whole:
        for name, contents in files.items():
            whole.write(out / name, contents.encode())
    return [out / name for name in files]


def written(
    top: str, *, preset: str, settings: Mapping[str, str], progress: Progress | None = None
) -> tuple[str, Settings]:
    """The SystemVerilog of a top, and the parameters it was built with. See :func:`emit`."""
    if top not in TOPS:
        raise InputError(f"unknown top {top!r}{nearest(top, TOPS)}")
    if preset not in TOPS[top].presets:
        raise InputError(f"unknown preset {preset!r}{nearest(preset, TOPS[top].presets)}")
    chosen = dict(TOPS[top].presets[preset])
    for key, text in settings.items():
        if key not in chosen:
            raise InputError(f"unknown parameter {key!r} of {top}{nearest(key, chosen)}")
        chosen[key] = _names(key, text) if key in _KINDS else _number(key, text)
    for key in settings:
        needed = _needed(top, key, chosen)
        if needed:
            raise InputError(f"{key} has no effect on this {top}: {needed}, or leave it out")
    header = [f"// {top}, preset {preset}."]
    for key, value in chosen.items():
        shown_value = value
        if key in _KINDS:
            shown_value = "+".join(v.name.lower() for v in value) or _SHARED
        header.append(f"//   {key} = {shown_value}")
    return "\n".join([*header, _built(top, chosen, progress)]), chosen


def _needed(top: str, key: str, chosen: Settings) -> str | None:
    """What else must be set for a parameter to have an effect; ``None`` where it has one."""
    if top == "ace" and chosen["axi"] == 0 and (key.startswith("axi_") or key == "completions"):
        return "set axi to 1"
    if top == "fred":
        classes = chosen["classes"]
        if key.startswith("control_") and TrafficClass.CONTROL not in classes:
            return "set classes to some with control, such as mp+dp+control"
        if key == "starvation_bound" and len(classes) < 2:
            return "set classes to several, such as mp+dp"
    return None


def _number(key: str, text: str) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        raise InputError(f"{key} must be a whole number, not {shown(text)}") from None
    if number > _LARGEST:
        raise InputError(f"{key} must be at most {_LARGEST}, not {shown(text)}")
    return number


def _names(key: str, text: str) -> tuple[DataType | Operator | TrafficClass, ...]:
    """``fp16+int32`` as members of the enumeration, in its order."""
    known = {member.name.lower(): member for member in _KINDS[key]}
    if key == "classes":
        if text == _SHARED:
            return ()
        if not set(text.split("+")) <= set(known):
            raise InputError(
                f"classes must be {_SHARED}, or of {', '.join(known)}, joined by +, "
                f"not {shown(text)}"
            )
    names = text.split("+")
    for name in names:
        if name not in known:
            raise InputError(f"{key} must be of {', '.join(known)}, joined by +, not {shown(text)}")
    if len(set(names)) != len(names):
        raise InputError(f"{key} must name each of them once, not {shown(text)}")
    return tuple(member for name, member in known.items() if name in names)


def _text(top: str, settings: Settings, progress: Progress | None) -> str:
    component = TOPS[top].build(settings)
    ports = field_ports(component) if isinstance(component, AceAxi) else None
    return portable(emit_systemverilog(component, name=top, ports=ports, progress=progress))


def _built(top: str, settings: Settings, progress: Progress | None) -> str:
    """The SystemVerilog. What was built before a part refused its parameters stays unused, of
    course, and nothing is said about that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        try:
            return _text(top, settings, progress)
        except ValueError as error:
            reason = str(error)
        gc.collect()  # Amaranth warns when the parts go: now, not later
    raise InputError(f"{top} cannot be built: {reason}")


def _core(top: str, *, headers: list[str]) -> str:
    """A FuseSoC core file (CAPI2) with the one source, for linting and synthesis, and headers for
    software."""
    software = {"software": {"files": headers, "file_type": "user"}} if headers else {}
    description = {
        "name": f"antiphon:antiphon:{top}:0.1.0",
        "description": f"Antiphon's {top}, written from its Amaranth description",
        "filesets": {
            "rtl": {"files": [f"{top}.sv"], "file_type": "systemVerilogSource"},
            "example": {"files": [f"{top}_example.v"], "file_type": "verilogSource"},
            "constraints": {"files": [f"{top}.sdc"], "file_type": "SDC"},
            **software,
        },
        "targets": {
            "default": {"filesets": ["rtl"], "toplevel": top},
            "lint": {
                "filesets": ["rtl"],
                "flow": "lint",
                "flow_options": {"tool": "verilator", "verilator_options": LINT},
                "toplevel": top,
            },
        },
    }
    # JSON is YAML; a core file begins with this line.
    return "CAPI=2:\n" + json.dumps(description, indent=2) + "\n"

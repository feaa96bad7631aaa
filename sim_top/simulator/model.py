"""A simulation model: what it is made of, and building it.

One description serves Icarus and Verilator. On Verilator only the signals named public can be
reached from outside; cocotb's own runner makes all of them public, which costs most of the speed.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import cocotb_tools.config

from sim_top.coverage.instrument import destination, instrumented
from sim_top.simulator.cache import build_root, cached, content_key
from sim_top.simulator.toolchain import (
    BuildError,
    check_compilers,
    icarus_version,
    jobs,
    make_arguments,
    make_environment,
    run_tool,
    verilator_command,
    verilator_version,
)
from sw_model.errors import InputError

__all__ = ["Model", "build"]

_SIMULATORS = ("icarus", "verilator")


@dataclass(frozen=True)
class Model:
    """What is simulated.

    Parameters
    ----------
    top : name of the top module
    sources : text of each source file by its name (``dut.sv``)
    simulator : ``icarus`` or ``verilator``
    public : signals that Python reads or writes, by module; ``("*",)`` for all of a module
    timing : the sources hold delays (a clock of their own); Verilator then needs ``--timing``
    optimise : compiler option for the code that runs every cycle; ``-O1`` compiles quickly,
        ``-O3`` runs quickly
    waves : the run may write a waveform
    parameters : Verilog parameters of the top
    options : further options of Verilator
    blocks : modules that Verilator compiles once each, however often they are instantiated; the
        build then takes as long for sixteen endpoints as for one
    """

    top: str
    sources: Mapping[str, str]
    simulator: str = "verilator"
    public: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    timing: bool = False
    optimise: str = "-O1"
    waves: bool = False
    parameters: Mapping[str, int] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.simulator not in _SIMULATORS:
            raise ValueError(f"simulator must be one of {_SIMULATORS}, not {self.simulator!r}")

    @property
    def key(self) -> str:
        """Content key: equal for models that build to the same thing."""
        tool = icarus_version() if self.simulator == "icarus" else verilator_version()
        parts = [
            "5",  # raise this when the way of building changes
            tool,
            importlib.metadata.version("cocotb"),
            repr((self.top, self.simulator, self.timing, self.optimise, self.waves, self.options)),
            repr(self.blocks),
            repr(sorted(self.public.items())),
            repr(sorted(self.parameters.items())),
            str(cocotb_tools.config.libs_dir),
        ]
        for name, text in self.sources.items():
            parts += [name, text]
        return content_key(*parts)

    @property
    def executable(self) -> str:
        """File name of what is run, in the directory that :func:`build` returns."""
        return "model.vvp" if self.simulator == "icarus" else "model"


def build(model: Model) -> Path:
    """Build ``model`` unless it is built already, and return its directory.

    Raises
    ------
    BuildError
        where a tool fails, with the end of what it said.
    InputError
        where a tool is missing; where waveforms are wanted and the libraries that write them are
        missing.
    """
    if destination() is not None:
        model = instrumented(model)
    fill = _build_icarus if model.simulator == "icarus" else _build_verilator
    return cached("models", model.key, lambda directory: fill(model, directory))


def _write_sources(model: Model, directory: Path) -> list[str]:
    for name, text in model.sources.items():
        (directory / name).write_text(text)
    return list(model.sources)


def _without_always_comb(text: str) -> str:
    """``text`` with ``always @*`` in the place of ``always_comb``, run once at time 0.

    Icarus 11 wakes the ``always_comb`` processes of a module over and over, without end, where
    two of them pass through other values on their way to a result and others read them.
    """
    if "always_comb" not in text:
        return text
    text = re.sub(
        r"^(module [^;]*;\n)",
        r"\1  reg at_start_ = 1'b0;\n  initial at_start_ <= 1'b1;\n",
        text,
        flags=re.MULTILINE,
    )
    return re.sub(
        r"^( *)always_comb begin\n",
        r"\1always @* begin\n\1  if (at_start_) begin end\n",
        text,
        flags=re.MULTILINE,
    )


def _build_icarus(model: Model, directory: Path) -> None:
    rewritten = {name: _without_always_comb(text) for name, text in model.sources.items()}
    sources = _write_sources(replace(model, sources=rewritten), directory)
    (directory / "command.f").write_text("+timescale+1ns/1ps\n")
    tops = ["-s", model.top]
    if model.waves:
        (directory / "waves.sv").write_text(
            "module waves();\n  reg [8191:0] file;\n"
            '  initial if ($value$plusargs("waves=%s", file)) begin\n'
            f"    $dumpfile(file); $dumpvars(0, {model.top});\n  end\nendmodule\n"
        )
        sources.append("waves.sv")
        tops += ["-s", "waves"]
    parameters = [f"-P{model.top}.{name}={value}" for name, value in model.parameters.items()]
    run_tool(
        [
            *("iverilog", "-g2012", "-o", model.executable, "-f", "command.f"),
            *tops,
            *parameters,
            *sources,
        ],
        directory=directory,
    )


def _control_file(model: Model) -> str:
    """Verilator's list of the signals that must stay reachable."""
    lines = ["`verilator_config"]
    lines += [f'hier_block -module "{block}"' for block in model.blocks]
    for module, names in model.public.items():
        lines += [f'public_flat_rw -module "{module}" -var "{name}"' for name in names]
    return "\n".join(lines) + "\n"


def _check_waveforms(directory: Path) -> None:
    """Verilator's writer of waveforms is compiled with each model, and needs two libraries."""
    (directory / "waves.cpp").write_text("#include <lz4.h>\n#include <zlib.h>\n")
    try:
        run_tool(["g++", "-E", "-o", "waves.ii", "waves.cpp"], directory=directory)
    except BuildError:
        raise InputError(
            "waveforms of a Verilator model need the Debian packages liblz4-dev and zlib1g-dev; "
            "install them, or run without --waves"
        ) from None


def _build_verilator(model: Model, directory: Path) -> None:
    check_compilers()
    if model.waves:
        _check_waveforms(directory)
    sources = _write_sources(model, directory)
    (directory / "public.vlt").write_text(_control_file(model))
    libraries = cocotb_tools.config.libs_dir
    main = cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"
    command, environment = verilator_command()
    run_tool(
        [
            *command,
            "--cc",
            "--exe",
            "--vpi",
            "--assert",
            "--timing" if model.timing else "--no-timing",
            *("-Mdir", ".", "--prefix", "Vtop", "-o", model.executable),
            *("--top-module", model.top, "--timescale", "1ns/1ps"),
            *("-Wno-fatal", "-Wno-WIDTH", "-Wno-UNOPTFLAT"),
            *("--x-assign", "fast", "--x-initial", "fast"),
            *(["--trace-fst"] if model.waves else []),
            "-LDFLAGS",
            f"-Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator",
            *(f"-G{name}={value}" for name, value in model.parameters.items()),
            *model.options,
            *(["--hierarchical"] if model.blocks else []),
            "public.vlt",
            str(main),
            *sources,
        ],
        directory=directory,
        # A build of blocks starts Verilator again through make, by the name in this variable.
        environment=environment | {"MAKEFLAGS": f"-- VM_HIER_VERILATOR={command[0]}"},
    )
    key = content_key(verilator_version(), repr((model.waves, model.timing, bool(model.blocks))))
    _copy_runtime(build_root() / "runtime" / key, directory)
    makefile = "Vtop_hier.mk" if model.blocks else "Vtop.mk"
    run_tool(
        ["make", "-j", jobs(), "-f", makefile, *make_arguments(optimise=model.optimise)],
        directory=directory,
        environment=environment | make_environment(),
    )
    cached("runtime", key, lambda kept: _copy_runtime(directory, kept))


def _copy_runtime(source: Path, target: Path) -> None:
    """Copy Verilator's own object files: they are the same in all models of one kind, and take
    longer to compile than most models. ``make`` leaves those it finds alone."""
    for file in sorted(source.glob("verilated*.o")):
        shutil.copy(file, target)

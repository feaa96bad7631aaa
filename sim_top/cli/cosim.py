"""Run a training workload with the RTL in the loop.

First the TLM alone runs it at full size, once with the baseline and once with the experiment's
scheduler (a tree of FRED switches at the payload scale too). Then TLM and RTL run it at the
experiment's payload scale, collective by collective compared: data bit for bit with NumPy, traffic
counters exactly, cycles within a bound. Ends with status 1 where they differ.

The results (JSON, timelines) go to the experiment's output folder.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from sim_top.cli.frame import Output, value, write_whole
from sim_top.cli.options import add_experiment_options, experiment_of
from sim_top.cli.targets import check_file, check_folder, target
from sw_model.errors import InputError
from sw_model.units import parse_number

EXAMPLE = "antiphon cosim examples/resnet50.yaml --scale 1/256 --waves platform.fst"


def _scale(text: str) -> Fraction:
    scale = parse_number(text)
    if not 0 < scale <= 1:
        raise ValueError(f"must be above 0 and at most 1, not {text!r}")
    return scale


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    add_experiment_options(parser, optional=False)
    parser.add_argument(
        "--scale", type=value(_scale), metavar="S", help="factor on payloads and compute, as 1/64"
    )
    parser.add_argument("--output", type=target, metavar="DIR", help="folder for the results")
    parser.add_argument(
        "--interruptions",
        action="store_true",
        help="count the packets that higher classes interrupt on the RTL too; several times slower",
    )
    parser.add_argument("--waves", type=target, metavar="F.fst", help="write the waveforms")


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Read, run, compare, report."""
    experiment = experiment_of(arguments)
    if arguments.scale is not None:
        experiment = replace(experiment, cosim=replace(experiment.cosim, scale=arguments.scale))
    if arguments.output is not None:
        experiment = replace(experiment, output=arguments.output)
    if experiment.output is not None:
        check_folder("output" if arguments.output is None else "--output", experiment.output)
    if arguments.waves is not None:
        check_file("--waves", arguments.waves, (".fst",))
    if experiment.endpoint.kind is not None:
        raise InputError(
            f"endpoint.kind must be left out, not {experiment.endpoint.kind!r}: the RTL is the "
            "platform's own engines",
            path=experiment.path,
            line=experiment.lines.get("endpoint"),
        )
    workload = experiment.load_workload()
    platform = experiment.platform()
    if arguments.interruptions and (platform.tree is None or platform.engine.lanes == 1):
        raise InputError(
            "--interruptions must be left out: packets interrupt each other on a tree of FRED "
            "switches (network.dims[0].tree) with engine.classes",
            path=experiment.path,
        )

    from sim_top.cosim.run import run_cosim

    with output.progress("co-simulation") as progress:
        result = run_cosim(
            experiment,
            workload,
            waves=arguments.waves,
            interruptions=arguments.interruptions,
            progress=progress,
        )

    from sw_model.report import json_report, tables

    output.data = json_report.cosim_json(result)
    settings = experiment.workload
    pairs = [run for pair in zip(result.rtl, result.tlm, strict=True) for run in pair]
    small = f"at {result.scale} of the payload"
    whole = "at full size" if experiment.platform().tree is None else small
    output.show(
        tables.workload_table(
            workload, data_type=settings.data_type, iterations=settings.iterations
        ),
        tables.network_table(experiment.network),
        tables.runs_table(f"TLM {whole}", result.full_size),
        tables.utilisation_table(f"Dims of the TLM {whole}", result.full_size),
        tables.layers_table(f"Layers that expose most, TLM {whole}", result.full_size[-1]),
        tables.runs_table(f"RTL and TLM {small}", pairs),
        tables.utilisation_table(f"Dims {small}", pairs),
        tables.crosscheck_table(result.crosscheck, rows=12),
        f"RTL: {result.rtl[-1].training.total:,} cycles, {result.cycles_simulated:,} of them "
        f"simulated in {result.seconds:.1f} s",
    )
    if experiment.output is not None:
        _save(experiment.output, experiment.name, result, output)
    return result.crosscheck.ok


def _save(folder: Path, name: str, result: object, output: Output) -> None:
    """Leave JSON and timelines in ``folder``."""
    import json

    from sw_model.report.timeline import draw_timeline
    from sw_model.results import CosimResult

    assert isinstance(result, CosimResult)
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.json"]
    write_whole(written[0], (json.dumps(output.data, indent=2) + "\n").encode())
    for kind, runs in (("full", result.full_size), ("rtl", (*result.rtl, *result.tlm))):
        for suffix in (".svg", ".png"):
            written.append(folder / f"{name}_{kind}{suffix}")
            draw_timeline(runs, written[-1])
    output.show(f"written: {', '.join(os.path.normpath(path) for path in written)}")

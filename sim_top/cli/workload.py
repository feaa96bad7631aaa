"""Write a workload of the project's own as an ASTRA-sim 1.0 text.

resnet50 is data-parallel ResNet-50 from the model's public layer shapes: every convolution, with
its batch norm, and the classifier; gradients in FP16. A pass of a layer takes 2 x multiply-adds x
batch / (peak x efficiency); an update moves 20 bytes a parameter.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path

from sim_top.cli.frame import Output, value, write_whole
from sw_model.errors import InputError
from sw_model.units import format_size, format_time_ns, parse_number

EXAMPLE = "antiphon workload resnet50 --batch 32 --peak-tflops 120 --out resnet50.txt"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    number = value(parse_number)
    parser.add_argument("name", choices=["resnet50"], metavar="NAME", help="resnet50")
    parser.add_argument("--out", required=True, type=Path, metavar="W", help="the file to write")
    parser.add_argument("--batch", type=int, default=8, help="images per NPU (default 8)")
    parser.add_argument(
        "--peak-tflops", type=number, default=Fraction(120), help="of an NPU (default 120)"
    )
    parser.add_argument(
        "--efficiency", type=number, default=Fraction(1, 2), help="share of it (default 0.5)"
    )
    parser.add_argument(
        "--memory-gb-per-s",
        type=number,
        default=Fraction(900),
        help="of an NPU's memory, 10^9 bytes per second (default 900)",
    )


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Generate and write."""
    from sw_model.workload import astra_text, program, resnet50

    try:
        throughput = resnet50.Throughput(
            batch=arguments.batch,
            peak_tflops=arguments.peak_tflops,
            efficiency=arguments.efficiency,
            memory_gb_per_s=arguments.memory_gb_per_s,
        )
    except ValueError as error:
        raise InputError(str(error)) from None
    workload = resnet50.generate(throughput)
    write_whole(arguments.out, astra_text.format_text(workload).encode())
    parameters = sum(shape.parameters for shape in resnet50.shapes())
    output.data = {
        "name": arguments.name,
        "nodes": len(program.iteration(workload)),
        "ranks": 1,
        "layers": len(workload.layers),
        "parameters": parameters,
        "bytes": workload.communication_bytes(),
        "compute_ns": program.compute_ns(workload),
    }
    output.show(
        f"{arguments.out}: {len(workload.layers)} layers, {parameters:,} parameters, "
        f"{format_size(workload.communication_bytes())} of gradients, "
        f"{format_time_ns(program.compute_ns(workload))} of compute an iteration"
    )
    return True

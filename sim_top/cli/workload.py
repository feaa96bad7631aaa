"""Write a workload of the project's own.

NAME is resnet50, resnet152, gnmt, dlrm, dlrm-kaggle, transformer-17b, gpt3 or transformer-1t, from
public shapes (docs/workloads.md). --out says the format:

  a prefix      Chakra traces, W.RANK.et, one for each of TP x PP x DP ranks, and their process
                groups in W.comm_group.json, for --comm-group
  NAME.txt      an ASTRA-sim 1.0 text, for data and tensor parallelism

A pass of a block takes the longer of 2 x multiply-adds x batch / (peak x efficiency) and its bytes
/ memory bandwidth. Ranks are placed TP first, then PP, then DP.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from sim_top.cli.frame import Output, value, whole
from sim_top.cli.targets import check_file, check_prefix, check_traces, prefix
from sim_top.whole_files import WholeFiles, write_whole
from sw_model.errors import InputError
from sw_model.units import format_size, format_time_ns, parse_bandwidth, parse_number

if TYPE_CHECKING:
    from sw_model.workload.machine import Machine
    from sw_model.workload.model import Model
    from sw_model.workload.parallel import Parallelism

EXAMPLE = "antiphon workload transformer-17b --tp 4 --pp 2 --dp 2 --microbatches 8 --out t17b"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    number, bandwidth = value(parse_number), value(parse_bandwidth)
    parser.add_argument("name", metavar="NAME", help="of the model")
    parser.add_argument("--out", required=True, type=prefix, metavar="W", help="what to write")
    for option, what in (
        ("--tp", "ranks of a tensor-parallel group"),
        ("--pp", "stages of the pipeline"),
        ("--dp", "data-parallel replicas"),
    ):
        parser.add_argument(option, type=whole, metavar="N", help=f"{what} (default 1)")
    parser.add_argument(
        "--ranks", type=whole, metavar="N", help="TP x PP x DP; gives what --dp does not"
    )
    parser.add_argument(
        "--zero", type=int, choices=range(4), default=0, help="stage of ZeRO over DP (default 0)"
    )
    parser.add_argument(
        "--schedule", choices=["gpipe", "1f1b"], default="gpipe", help="of stages (default gpipe)"
    )
    parser.add_argument(
        "--microbatches", type=whole, metavar="N", help="in a batch (default: as many as stages)"
    )
    parser.add_argument(
        "--recompute", action="store_true", help="forward passes of layers again, backward"
    )
    parser.add_argument(
        "--batch", type=int, metavar="N", help="samples of a replica (default: the model's)"
    )
    parser.add_argument(
        "--dtype", choices=["fp16", "bf16", "fp32"], default="fp16", help="(default fp16)"
    )
    parser.add_argument(
        "--peak-tflops", type=number, default=Fraction(120), help="of an NPU (default 120)"
    )
    parser.add_argument(
        "--efficiency", type=number, default=Fraction(1, 2), help="share of it (default 0.5)"
    )
    parser.add_argument(
        "--memory-bandwidth",
        type=bandwidth,
        default=Fraction(900 * 10**9),
        metavar="BW",
        help="of an NPU's memory, with its unit (default '900 GB/s')",
    )
    parser.add_argument(
        "--compute",
        choices=["roofline", "operations"],
        default="roofline",
        help="operations: as if memory were never too slow (default roofline)",
    )
    parser.add_argument("--iterations", type=whole, default=1, metavar="N", help="(default 1)")
    parser.add_argument("--gzip", action="store_true", help="compress the traces")


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Generate and write."""
    from sw_model.workload.catalogue import model_named
    from sw_model.workload.machine import Machine

    model = model_named(arguments.name)
    text = arguments.out.suffix == ".txt"
    (check_file if text else check_prefix)("--out", arguments.out)
    try:
        machine = Machine(
            peak_tflops=arguments.peak_tflops,
            efficiency=arguments.efficiency,
            memory_bandwidth=arguments.memory_bandwidth,
            data_type=arguments.dtype,
            roofline=arguments.compute == "roofline",
        )
    except ValueError as error:
        raise InputError(str(error)) from None
    parallelism = _parallelism(arguments)
    batch = model.batch if arguments.batch is None else arguments.batch
    write = _write_text if text else _write_traces
    write(arguments, output, model, parallelism, machine, batch)
    return True


def _parallelism(arguments: argparse.Namespace) -> Parallelism:
    from sw_model.workload.parallel import Parallelism, PipelineSchedule

    tensor, pipeline, data = (arguments.tp or 1), (arguments.pp or 1), arguments.dp
    ranks = arguments.ranks
    if data is None:
        data = 1 if ranks is None else max(1, ranks // (tensor * pipeline))
    product = tensor * pipeline * data
    if ranks is not None and product != ranks:
        raise InputError(
            f"--tp x --pp x --dp must be the {ranks} of --ranks, "
            f"not {tensor} x {pipeline} x {data} = {product}"
        )
    return Parallelism(
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        microbatches=arguments.microbatches or pipeline,
        zero=arguments.zero,
        schedule=PipelineSchedule(arguments.schedule),
        recompute=arguments.recompute,
    )


def _write_text(
    arguments: argparse.Namespace,
    output: Output,
    model: Model,
    parallelism: Parallelism,
    machine: Machine,
    batch: int,
) -> None:
    from sw_model.workload import astra_text, program
    from sw_model.workload.layered import layered

    for option, given in (
        ("--iterations", arguments.iterations != 1),
        ("--gzip", arguments.gzip),
    ):
        if given:
            raise InputError(f"{option} is for Chakra traces, not for a 1.0 text")
    workload = layered(model, parallelism, machine, batch)
    write_whole(arguments.out, astra_text.format_text(workload).encode())
    output.data = {
        "name": arguments.name,
        "nodes": len(program.iteration(workload)),
        "ranks": parallelism.ranks,
        "layers": len(workload.layers),
        "parameters": model.parameters,
        "bytes": workload.communication_bytes(),
        "compute_ns": program.compute_ns(workload),
    }
    output.show(
        f"{arguments.out}: {len(workload.layers)} layers, {model.parameters:,} parameters, "
        f"{format_size(workload.communication_bytes())} of communication, "
        f"{format_time_ns(program.compute_ns(workload))} of compute an iteration"
    )


def _write_traces(
    arguments: argparse.Namespace,
    output: Output,
    model: Model,
    parallelism: Parallelism,
    machine: Machine,
    batch: int,
) -> None:
    import json

    from sw_model.chakra.files import encode_trace
    from sw_model.chakra.from_model import ModelTraces

    traces = ModelTraces(
        model=model,
        parallelism=parallelism,
        machine=machine,
        batch=batch,
        iterations=arguments.iterations,
    )
    out = arguments.out
    ending = ".et.gz" if arguments.gzip else ".et"
    check_traces("--out", out, range(parallelism.ranks), ending)
    nodes = 0
    last: object = None
    data = b""
    groups = traces.groups()
    group_file = Path(f"{out}.comm_group.json")
    with output.progress("writing") as progress, WholeFiles() as files:
        for rank, trace in enumerate(traces):
            if trace is not last:
                data, last = encode_trace(trace, compress=arguments.gzip), trace
            files.write(Path(f"{out}.{rank}{ending}"), data)
            nodes += len(trace.nodes)
            progress((rank + 1) / parallelism.ranks)
        if groups:
            files.write(group_file, (json.dumps(groups) + "\n").encode())
    output.data = {
        "name": arguments.name,
        "nodes": nodes,
        "ranks": parallelism.ranks,
        "groups": len(groups),
        "parameters": model.parameters,
        "batch": batch,
        "microbatches": parallelism.microbatches,
    }
    output.show(
        f"{out}.RANK{ending}: {parallelism.ranks:,} ranks, {nodes:,} nodes, "
        f"{model.parameters:,} parameters"
    )
    if groups:
        output.show(f"{group_file}: {len(groups):,} process groups")

"""Convert between trace formats.

IN and OUT are

  a prefix        Chakra traces, PREFIX.RANK.et, one for each rank (OUT.RANK.et.gz with --gzip)
  NAME.et         a single Chakra trace, gzip'd or not; OUT as NAME.et.gz compresses
  NAME.json       a single Chakra trace as JSON, field by field
  NAME.txt        an ASTRA-sim 1.0 text

Chakra to Chakra and JSON keeps everything. A 1.0 text becomes the traces of all NPUs of --network,
which says what its dims are; times are exact (see docs/semantics.md). A trace does not become a 1.0
text: it has no layers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim_top.cli.frame import Output
from sim_top.cli.options import whole
from sim_top.cli.targets import check_file, check_prefix, check_traces, prefix
from sim_top.whole_files import WholeFiles, write_whole
from sw_model.errors import InputError
from sw_model.workload.settings import HEADERLESS_MODES, WorkloadSettings

if TYPE_CHECKING:
    from sw_model.chakra.files import Trace

EXAMPLE = "antiphon convert resnet50.txt traces/resnet50 --network examples/four_dims.yml"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument("source", type=Path, metavar="IN", help="what to read")
    parser.add_argument("target", type=prefix, metavar="OUT", help="what to write")
    parser.add_argument(
        "--network", type=Path, metavar="N.yml", help="whose NPUs and dims; for 1.0 texts"
    )
    parser.add_argument(
        "--mode", choices=list(HEADERLESS_MODES), help="of a text without header lines"
    )
    parser.add_argument(
        "--iterations",
        type=whole,
        default=1,
        metavar="N",
        help="of a 1.0 text (default 1; antiphon run makes "
        f"{WorkloadSettings.iterations} of the text itself)",
    )
    parser.add_argument("--gzip", action="store_true", help="compress the traces of a prefix")


def _format(path: Path) -> str:
    """The ending that tells the format, or "prefix"."""
    return next((e for e in (".et.gz", ".et", ".json", ".txt") if path.name.endswith(e)), "prefix")


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Read and write."""
    source, ending = _format(arguments.source), _format(arguments.target)
    (check_prefix if ending == "prefix" else check_file)("OUT", arguments.target)
    if source == ".txt":
        nodes, ranks = _from_text(arguments, ending)
    elif ending == ".txt":
        raise InputError("OUT cannot be a 1.0 text: a trace has no layers")
    elif source == "prefix":
        nodes, ranks = _from_prefix(arguments, ending)
    else:
        if ending == "prefix":
            raise InputError("OUT must be one file, .et, .et.gz or .json, as IN is")
        trace = _read(arguments.source, source)
        _write(trace, arguments.target, ending)
        nodes, ranks = len(trace.nodes), 1
    output.data = {"nodes": nodes, "ranks": ranks}
    output.show(f"{arguments.target}: {nodes:,} nodes, {ranks:,} ranks")
    return True


def _from_text(arguments: argparse.Namespace, target: str) -> tuple[int, int]:
    from sw_model.workload import astra_text

    mode = None if arguments.mode is None else HEADERLESS_MODES[arguments.mode]
    workload = astra_text.read(arguments.source, headerless_mode=mode)
    if target == ".txt":
        write_whole(arguments.target, astra_text.format_text(workload).encode())
        return len(workload.layers), 1
    if target != "prefix":
        raise InputError("OUT must be a prefix for the traces of all ranks, or a 1.0 text (.txt)")
    if arguments.network is None:
        raise InputError("--network must be given: the traces name its dims")
    from sw_model.chakra.files import encode_trace
    from sw_model.chakra.from_layers import trace_of_layers
    from sw_model.network import read_network

    network = read_network(arguments.network)
    made = trace_of_layers(workload, network, iterations=arguments.iterations)
    trace, topology = made.trace, made.topology
    if topology != network:
        raise InputError(
            "the network's dims must end where the workload's model-parallel group does: "
            f"give a network of {' x '.join(str(dim.size) for dim in topology.dims)} NPUs",
            path=arguments.network,
        )
    ending = ".et.gz" if arguments.gzip else ".et"
    check_traces("OUT", arguments.target, range(network.npus), ending)
    data = encode_trace(trace, compress=arguments.gzip)
    with WholeFiles() as files:
        for rank in range(network.npus):
            files.write(Path(f"{arguments.target}.{rank}{ending}"), data)
    return len(trace.nodes) * network.npus, network.npus


def _from_prefix(arguments: argparse.Namespace, target: str) -> tuple[int, int]:
    from sw_model.chakra.files import encode_trace, read_trace
    from sw_model.chakra.workload import rank_files

    files = rank_files(arguments.source)
    if not files:
        raise InputError(
            "is no trace, and no prefix of traces PREFIX.RANK.et", path=arguments.source
        )
    if target != "prefix":
        raise InputError("OUT must be a prefix, as IN is, not a single file")
    ending = ".et.gz" if arguments.gzip else ".et"
    check_traces("OUT", arguments.target, files, ending)
    nodes = 0
    with WholeFiles() as written:
        for rank, path in files.items():
            trace = read_trace(path)
            nodes += len(trace.nodes)
            data = encode_trace(trace, compress=arguments.gzip)
            written.write(Path(f"{arguments.target}.{rank}{ending}"), data)
    return nodes, len(files)


def _read(path: Path, ending: str) -> Trace:
    from sw_model.chakra.files import Trace, read_trace
    from sw_model.chakra.messages import message

    if ending != ".json":
        return read_trace(path)
    import json

    from google.protobuf.json_format import ParseDict, ParseError

    try:
        contents: Any = json.loads(path.read_text(encoding="utf-8"))
        metadata = ParseDict(contents["metadata"], message("GlobalMetadata")())
        nodes = [ParseDict(node, message("Node")()) for node in contents["nodes"]]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"must be JSON: {error.msg}", path=path, line=error.lineno, column=error.colno
        ) from None
    except (ParseError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"must be a Chakra trace as JSON, with 'metadata' and 'nodes': {error}", path=path
        ) from None
    return Trace(metadata, nodes, str(path))


def _write(trace: Trace, path: Path, ending: str) -> None:
    from sw_model.chakra.files import encode_trace

    if ending != ".json":
        write_whole(path, encode_trace(trace, compress=ending == ".et.gz"))
        return
    import json

    from google.protobuf.json_format import MessageToDict

    contents = {
        "metadata": MessageToDict(trace.metadata, preserving_proto_field_name=True),
        "nodes": [MessageToDict(node, preserving_proto_field_name=True) for node in trace.nodes],
    }
    write_whole(path, (json.dumps(contents, indent=1) + "\n").encode())

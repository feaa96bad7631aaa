"""ASTRA-sim's ResNet-50 in its 1.0 text, read in nanoseconds.

The peer's own converter writes these nanoseconds into a field of microseconds, so its replay
computes a thousand times as long. The times are those of the text workload that was released with
ASTRA-sim 1.0 (``Resnet50_DataParallel.txt``, 54 layers); gradients play no part in this figure.
"""

from __future__ import annotations

from sim_top.reproduce.registry import Row
from sw_model.astra.system import SystemConfig
from sw_model.chakra.from_layers import trace_of_layers
from sw_model.chakra.graph import build_graph
from sw_model.chakra.workload import assemble
from sw_model.replay.run import Semantics, replay_trace
from sw_model.topology import Topology
from sw_model.workload.astra_text import parse

__all__ = ["row", "text"]

#: Nanoseconds of forward pass, input gradient and weight gradient, by kind of layer.
_KINDS = {
    "a": (13_003, 12_864, 32_291),
    "b": (3_456, 3_648, 7_488),
    "c": (3_456, 3_456, 7_488),
    "d": (10_944, 10_368, 14_144),
    "e": (3_648, 3_456, 9_984),
    "f": (2_592, 2_592, 6_144),
    "g": (3_648, 3_520, 9_984),
    "h": (6_480, 5_840, 6_656),
    "i": (2_336, 2_592, 5_120),
    "j": (2_592, 2_336, 4_096),
    "k": (3_146, 2_592, 5_120),
    "l": (5_664, 5_664, 3_856),
    "m": (3_539, 3_146, 4_096),
    "n": (6_372, 6_372, 2_756),
    "o": (2_832, 3_539, 2_832),
    "p": (3_539, 2_832, 1_476),
    "q": (12_583, 3_539, 2_832),
    "r": (17_952, 17_952, 10_632),
    "s": (14_156, 12_583, 2_952),
    "t": (20_196, 20_196, 9_826),
    "u": (8_976, 14_156, 6_536),
    "v": (14_156, 8_976, 4_706),
    "w": (12_288, 14_156, 6_536),
    "x": (16_416, 27_708, 9_220),
}
#: The layers in order.
_LAYERS = "abcdbedbedbfg" + 3 * "hij" + "hklm" + 5 * "nop" + "nqrs" + "tuvtuvt" + "wx"


def text() -> str:
    """The workload, with a gradient of a KiB in every layer."""
    lines = ["DATA", str(len(_LAYERS))]
    for number, kind in enumerate(_LAYERS):
        forward, inputs, weights = _KINDS[kind]
        lines.append(
            f"layer{number} -1 {forward} NONE 0 {inputs} NONE 0 {weights} ALLREDUCE 1024 0"
        )
    return "\n".join(lines) + "\n"


def row(network: Topology) -> Row:
    """Computing in an iteration; the first layer needs no gradient of its input."""
    made = trace_of_layers(parse(text()), network, iterations=1)
    graphs = [build_graph(made.trace)] * network.npus
    found = replay_trace(
        assemble("resnet50", graphs, made.topology), SystemConfig(), semantics=Semantics.ASTRA_SIM
    )
    return Row(
        "ResNet-50 as 1.0 text: computing of an iteration",
        found.latest.compute,
        1_082_450,
        "released with ASTRA-sim 1.0: the sum of its times",
        0,
        "ns",
    )

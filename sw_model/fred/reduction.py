"""What a configuration computes: an independent reading of the modes, wire by wire.

The routing decides in which order the inputs of a flow are combined; this module follows it, for
numbers, NumPy arrays or symbols alike. It knows nothing of how the modes were found, so it also
proves that they carry the flows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.modes import CentreMode, Kind

__all__ = ["RoutingError", "Tree", "check", "evaluate", "leaves", "reduction_trees"]

Value = TypeVar("Value")

Tree = int | tuple["Tree", "Tree"]
"""A reduction tree: an input port, or the pair (left, right) that an adder combines."""


class RoutingError(ValueError):
    """The modes of a configuration do not carry its flows."""


def evaluate(
    configuration: Configuration,
    values: Mapping[int, Value],
    combine: Callable[[Value, Value], Value],
) -> dict[int, Value]:
    """The value at every output port that hears something.

    Parameters
    ----------
    values : by input port; an absent port is idle
    combine : called as ``combine(left, right)``, the lower input of the micro-switch on the left

    Raises
    ------
    RoutingError
        where two values are driven into the same way, or one would be dropped.
    """
    construction = configuration.construction
    wires: dict[int, Value] = {
        wire: values[port] for port, wire in enumerate(construction.inputs) if port in values
    }
    for switch, mode in zip(construction.switches, configuration.modes, strict=True):
        # For every output of the switch, the inputs that the mode combines into it.
        if isinstance(mode, CentreMode):
            sources = list(mode.sources)
        elif switch.kind in (Kind.REDUCE, Kind.DEMULTIPLEX):
            sources = [
                tuple(side for side, way in enumerate(mode) if way == output)
                for output in range(len(switch.outputs))
            ]
        else:
            sources = [() if way is None else (way,) for way in mode]
        heard = set()
        for output, sides in enumerate(sources):
            present = [side for side in sides if switch.inputs[side] in wires]
            if len(present) not in (0, len(sides)):
                raise RoutingError(
                    f"{switch.kind.value} switch {switch.position} at {switch.path} must have "
                    f"both operands of its reduction"
                )
            heard.update(present)
            operands = [wires[switch.inputs[side]] for side in present]
            if operands:
                value = operands[0] if len(operands) == 1 else combine(*operands)
                wires[switch.outputs[output]] = value
        for side, wire in enumerate(switch.inputs):
            if wire in wires and side not in heard:
                raise RoutingError(
                    f"{switch.kind.value} switch {switch.position} at {switch.path} drops what "
                    f"arrives at its input {side}"
                )
    return {port: wires[wire] for port, wire in enumerate(construction.outputs) if wire in wires}


def reduction_trees(configuration: Configuration) -> dict[Flow, Tree]:
    """For every flow the order in which its inputs are combined, equal at all its outputs.

    Raises
    ------
    RoutingError
        where an output of a flow does not hear exactly the flow's inputs, outputs of a flow
        differ, or an output of no flow hears something.
    """
    active: dict[int, Tree] = {port: port for flow in configuration.flows for port in flow.inputs}
    outputs = evaluate(configuration, active, _pair)
    trees: dict[Flow, Tree] = {}
    for flow in configuration.flows:
        for port in flow.outputs:
            tree = outputs.pop(port, None)
            if tree is None or sorted(leaves(tree)) != list(flow.inputs):
                raise RoutingError(
                    f"output {port} of flow {flow} must hear inputs {list(flow.inputs)}, "
                    f"not {tree!r}"
                )
            if trees.setdefault(flow, tree) != tree:
                raise RoutingError(
                    f"all outputs of flow {flow} must hear {trees[flow]!r}, not {tree!r}"
                )
    if outputs:
        raise RoutingError(f"outputs {sorted(outputs)} must be idle, not driven")
    return trees


def check(configuration: Configuration) -> Configuration:
    """The configuration, if its modes carry its flows and nothing else (else RoutingError)."""
    reduction_trees(configuration)
    return configuration


def _pair(left: Tree, right: Tree) -> Tree:
    return (left, right)


def leaves(tree: Tree) -> list[int]:
    """The inputs of a tree, from left to right."""
    return [tree] if isinstance(tree, int) else leaves(tree[0]) + leaves(tree[1])

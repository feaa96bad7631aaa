"""A workload on a real network: which dims its collectives span, and what they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sw_model.collective.plan import ELEMENT_BYTES, Collective, Operation
from sw_model.errors import InputError
from sw_model.topology import DimKind, Topology
from sw_model.workload.layers import Part, Pass, Span, Workload
from sw_model.workload.pipeline import Handover
from sw_model.workload.program import iteration
from sw_model.workload.steps import Issue

__all__ = ["collectives_of", "issued", "span_dims", "split_for_group"]


def span_dims(
    span: Span, topology: Topology, model_parallel_npus: int | None = None
) -> tuple[int, ...]:
    """Indices of the dims of ``topology`` that ``span`` means, ascending.

    Raises
    ------
    InputError
        where the model-parallel group is no product of inner sizes: `split_for_group` comes first.
    """
    count = len(topology.dims)
    inner = 0
    if span in (Span.INNER, Span.OUTER):
        inner = _inner_dims(topology, model_parallel_npus or 1)
    dims: dict[Span, range] = {
        Span.NONE: range(0),
        Span.ALL: range(count),
        Span.FIRST: range(min(1, count)),
        Span.REST: range(1, count),
        Span.INNER: range(inner),
        Span.OUTER: range(inner, count),
    }
    return tuple(dims[span])


def split_for_group(topology: Topology, workload: Workload) -> Topology:
    """The topology in which ``workload``'s model-parallel group is a product of inner sizes.

    Where the group ends inside a dim, that dim becomes two of the same kind, bandwidth and
    latency, each with a queue of its own, as in ASTRA-sim 1.0: that the two share their links is
    not modelled. A Switch or a FullyConnected dim can be cut so; a Ring cut in two would need
    other wires, and is refused.

    Raises
    ------
    InputError
        where no cut gives the group.
    """
    group = workload.model_parallel_npus
    if not workload.mode.is_transformer or group is None:
        return topology
    if _is_tree(topology):
        if topology.npus % group:
            raise InputError(
                f"model_parallel_NPU_group must divide the {topology.npus} NPUs of the tree of "
                f"switches, not {group}",
                path=workload.path,
                line=1,
            )
        _check_stages(topology, workload, group)
        return topology
    dims = []
    left = group
    for number, dim in enumerate(topology.dims, start=1):
        if left > 1 and left % dim.size == 0:
            left //= dim.size
        elif left > 1:
            if dim.size % left:
                raise InputError(
                    f"model_parallel_NPU_group must be a product of inner sizes of the network, "
                    f"or divide the size of the dim in which it ends: {group} leaves {left} for "
                    f"dim {number} of {dim.size} NPUs",
                    path=workload.path,
                    line=1,
                )
            if dim.kind not in (DimKind.SWITCH, DimKind.FULLY_CONNECTED):
                raise InputError(
                    f"model_parallel_NPU_group {group} ends inside dim {number}, and only a "
                    f"Switch or FullyConnected dim can be split, not a {dim.kind.value}",
                    path=workload.path,
                    line=1,
                )
            dims.append(replace(dim, size=left))
            dim = replace(dim, size=dim.size // left)
            left = 1
        dims.append(dim)
    if left > 1:
        raise InputError(
            f"model_parallel_NPU_group must be at most the {topology.npus} NPUs of the network, "
            f"not {group}",
            path=workload.path,
            line=1,
        )
    return Topology(tuple(dims))


def _check_stages(topology: Topology, workload: Workload, group: int) -> None:
    pipeline = workload.pipeline
    if pipeline is None:
        return
    if topology.npus % (group * pipeline.stages):
        raise InputError(
            f"pipeline.stages must divide the {topology.npus // group} groups of "
            f"{group} NPUs on the tree of switches, not be {pipeline.stages}",
            path=workload.path,
        )
    if pipeline.stages > len(workload.layers):
        raise InputError(
            f"pipeline.stages must be at most the {len(workload.layers)} layers, "
            f"not {pipeline.stages}",
            path=workload.path,
        )


def collectives_of(
    workload: Workload, topology: Topology, data_type: str
) -> dict[tuple[int, Part], Collective]:
    """The collective of each pass of each layer that has one: something to send, and a group of
    more than one rank; and what the stages of a pipeline hand over, by the layer that it comes
    from.

    Raises
    ------
    InputError
        where a payload is no whole number of elements.
    """
    workload.check_elements(data_type)
    out: dict[tuple[int, Part], Collective] = {}
    stages = workload.stages
    for index, layer in enumerate(workload.layers):
        for part in Pass:
            communication = layer.communication(part)
            if communication.operation is None or communication.bytes == 0:
                continue
            span = workload.span(index, part)
            groups: tuple[tuple[int, ...], ...] = ()
            dims: tuple[int, ...] = ()
            if _is_tree(topology):
                groups = _groups(span, topology.npus, workload, stages[index])
            else:
                dims = tuple(
                    dim
                    for dim in span_dims(span, topology, workload.model_parallel_npus)
                    if topology.dims[dim].size > 1
                )
            if not dims and not groups:
                continue
            out[index, part] = Collective(
                operation=communication.operation,
                elements=communication.bytes // ELEMENT_BYTES[data_type],
                data_type=data_type,
                traffic_class="dp" if part is Pass.WEIGHT_GRADIENT else "mp",
                dims=dims,
                groups=groups,
                name=f"{layer.name} {part.value}",
            )
    if workload.pipeline is not None:
        out.update(_handed_over(workload, topology.npus, data_type))
    return out


def issued(
    workload: Workload, collectives: Mapping[tuple[int, Part], Collective]
) -> list[Collective]:
    """All that an iteration issues, each as often as it does, in the order that is the same for
    all ranks (`sw_model.workload.program`)."""
    steps = (step for step in iteration(workload) if isinstance(step, Issue))
    places = ((step.layer, step.part) for step in steps)
    return [collectives[place] for place in places if place in collectives]


def _handed_over(
    workload: Workload, npus: int, data_type: str
) -> Iterator[tuple[tuple[int, Part], Collective]]:
    """From each rank of a stage to the one in its place in the next, and back."""
    pipeline, tensor = workload.pipeline, workload.model_parallel_npus or 1
    assert pipeline is not None
    stages = workload.stages
    for layer in range(1, len(stages)):
        if stages[layer] == stages[layer - 1]:
            continue
        pairs = tuple(
            (rank, rank + tensor)
            for rank in range(npus)
            if workload.stage_of(rank) == stages[layer - 1]
        )
        for source, part, root in (
            (layer - 1, Handover.ACTIVATIONS, 0),
            (layer, Handover.GRADIENTS, 1),
        ):
            yield (
                (source, part),
                Collective(
                    operation=Operation.SEND,
                    elements=pipeline.boundary // ELEMENT_BYTES[data_type],
                    data_type=data_type,
                    traffic_class="pp",
                    groups=pairs,
                    root=root,
                    target=1 - root,
                    name=f"{workload.layers[source].name} {part.value}",
                ),
            )


def _is_tree(topology: Topology) -> bool:
    return topology.dims[0].tree is not None


def _groups(span: Span, npus: int, workload: Workload, stage: int) -> tuple[tuple[int, ...], ...]:
    """The groups of a span on a tree of switches, where groups need not end where switches do:
    so many consecutive NPUs share a layer, and those in the same place of each share data; of a
    pipeline those of the layer's stage."""
    everyone = range(npus)
    tensor = workload.model_parallel_npus or 1
    stages = 1 if workload.pipeline is None else workload.pipeline.stages
    sets: list[range] = []
    if span in (Span.ALL, Span.FIRST):
        sets = [everyone]
    elif span is Span.INNER:
        firsts = range(tensor * stage, npus, tensor * stages)
        sets = [everyone[first : first + tensor] for first in firsts]
    elif span is Span.OUTER:
        first = tensor * stage
        sets = [everyone[first + place :: tensor * stages] for place in range(tensor)]
    return tuple(tuple(ranks) for ranks in sets if len(ranks) > 1)


def _inner_dims(topology: Topology, group: int) -> int:
    size = 1
    for number, dim in enumerate(topology.dims):
        if size == group:
            return number
        size *= dim.size
    if size == group:
        return len(topology.dims)
    sizes = " x ".join(str(dim.size) for dim in topology.dims)
    raise InputError(
        f"the model-parallel group must be a product of the inner sizes of the network "
        f"({sizes}), not {group}"
    )

"""``antiphon run --explain``: the collective that costs most, phase by phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sw_model.errors import InputError

if TYPE_CHECKING:
    from sw_model.astra.system import SystemConfig
    from sw_model.experiment import Experiment
    from sw_model.replay.run import TraceResult
    from sw_model.report.phases import Explanation
    from sw_model.results import RunResult
    from sw_model.workload.layers import Workload

__all__ = ["explain_run", "explain_trace"]


def explain_run(
    result: RunResult, experiment: Experiment, workload: Workload
) -> Explanation | None:
    """Of a run on the platform's engines: of the layer that exposes most its largest collective;
    None where there is none."""
    from sw_model.report.phases import explain
    from sw_model.schedule.phases import Turn
    from sw_model.workload.spans import collectives_of

    topology = experiment.platform().topology
    found = collectives_of(workload, topology, experiment.workload.data_type)
    if not found:
        return None
    layers = result.training.layers
    chosen = max(found, key=lambda key: (layers[key[0]].exposed, found[key].elements, -key[0]))
    return explain(found[chosen].name, found[chosen], topology, turn=Turn.MERGED)


def explain_trace(result: TraceResult, config: SystemConfig) -> Explanation | None:
    """Of a replayed trace: of the layer that exposes most the largest collective; None where there
    is none.

    Raises
    ------
    InputError
        where an algorithm of the user's own stands in the place of phases.
    """
    from sw_model.collective.plan import Collective
    from sw_model.replay.plans import own_algorithms
    from sw_model.replay.shapes import shape_of
    from sw_model.report.phases import explain
    from sw_model.schedule.phases import Turn

    workload, rank = result.workload, result.latest.rank
    exposed = {node.name: node.exposed for node in result.nodes}
    graph = workload.graphs[rank]
    nodes = graph.nodes
    found = [
        (exposed.get(graph.layer(position), 0), node.size, -position)
        for position, node in enumerate(nodes)
        if node.operation is not None and node.size
    ]
    if not found:
        return None
    node = nodes[-max(found)[2]]
    assert node.operation is not None
    if config.custom_algorithm(node.operation, node.number) is not None:
        raise InputError(f"--explain: {node} has an algorithm of its own, which has no phases")
    shape = shape_of(workload.topology, workload.members(rank, node))
    collective = Collective(node.operation, -(-node.size // 2), "fp16", dims=shape.dims)
    algorithms, _ = own_algorithms(config, node.operation, shape.topology)
    return explain(
        node.name, collective, shape.topology, turn=Turn.IN_NETWORK, algorithms=algorithms
    )

"""Layer workloads from their settings."""

from __future__ import annotations

from dataclasses import replace

from sw_model.chakra.workload import is_chakra
from sw_model.topology import Topology
from sw_model.workload import astra_text
from sw_model.workload.layers import Mode, Workload
from sw_model.workload.settings import WorkloadSettings
from sw_model.workload.spans import split_for_group

__all__ = ["load_layers", "made_of_traces"]


def made_of_traces(settings: WorkloadSettings) -> bool:
    """Whether a workload can only be replayed: it is not made of layers that every rank has."""
    if settings.file is None:
        return settings.layers is None
    traces = is_chakra(settings.file)
    if traces and settings.pipeline is not None:
        raise settings.error(
            "pipeline", "pipeline cuts layers into stages; Chakra traces have theirs already"
        )
    return traces


def load_layers(settings: WorkloadSettings, network: Topology) -> Workload:
    """The layers of a text, or those written out, checked against data type and network.

    Raises
    ------
    InputError
        with file and line; where the workload is not made of layers.
    """
    if settings.layers is not None:
        workload = settings.layers
    elif settings.file is not None:
        workload = astra_text.read(settings.file, headerless_mode=settings.mode)
    else:
        what = "model" if settings.model is not None else "jobs"
        raise settings.error(
            what, f"{what!r} cannot run on the platform's engines: give a file or layers here"
        )
    if settings.pipeline is not None:
        if workload.mode is not Mode.HYBRID_TRANSFORMER:
            raise settings.error(
                "pipeline",
                f"pipeline is for mode HYBRID_TRANSFORMER, not for mode {workload.mode.value}",
            )
        if network.dims[0].tree is None:
            raise settings.error("pipeline", "pipeline is for a tree of FRED switches")
        if workload.checkpoints:
            raise settings.error("pipeline", "pipeline does not go with checkpoints")
        workload = replace(workload, pipeline=settings.pipeline)
    workload.check_elements(settings.data_type)
    split_for_group(network, workload)
    return workload

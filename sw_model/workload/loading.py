"""Layer workloads from their settings."""

from __future__ import annotations

from sw_model.chakra.workload import is_chakra
from sw_model.topology import Topology
from sw_model.workload import astra_text
from sw_model.workload.layers import Workload
from sw_model.workload.settings import WorkloadSettings
from sw_model.workload.spans import split_for_group

__all__ = ["load_layers", "made_of_traces"]


def made_of_traces(settings: WorkloadSettings) -> bool:
    """Whether a workload can only be replayed: it is not made of layers that every rank has."""
    if settings.file is not None:
        return is_chakra(settings.file)
    return settings.layers is None


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
    workload.check_elements(settings.data_type)
    split_for_group(network, workload)
    return workload

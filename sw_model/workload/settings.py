"""What is to be trained, as settings: a section of an experiment, or a document of its own.

A workload is one of four things: a ``file`` (an ASTRA-sim 1.0 text, or the prefix of Chakra
traces), ``layers`` written out, a ``model`` that is generated from its public shape, or several
``jobs`` on one network, each with a workload of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from sw_model.errors import InputError
from sw_model.workload.layers import Mode, Workload
from sw_model.workload.pipeline import Pipeline
from sw_model.workload.traffic import TrafficClass
from sw_model.workload.variation import Variation

__all__ = [
    "HEADERLESS_MODES",
    "JobSettings",
    "ModelSettings",
    "WorkloadSettings",
    "check_ranks_named",
]

#: Modes that a text without header lines may be given.
HEADERLESS_MODES = {mode.value: mode for mode in Mode if not (mode.is_dlrm or mode.is_transformer)}


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A model of `sw_model.workload.catalogue`, how it is divided, and the NPU that computes it.

    Parameters
    ----------
    name : of the model
    tp, pp, dp : ranks of a tensor-parallel group, stages, replicas
    microbatches : as many as stages by default
    zero, schedule, recompute : see `sw_model.workload.parallel.Parallelism`
    batch : samples of a replica; the model's own by default
    peak_tflops, efficiency, memory_bandwidth, roofline : see `sw_model.workload.machine.Machine`
    """

    name: str
    tp: int = 1
    pp: int = 1
    dp: int = 1
    microbatches: int | None = None
    zero: int = 0
    schedule: str = "gpipe"
    recompute: bool = False
    batch: int | None = None
    peak_tflops: Fraction = Fraction(120)
    efficiency: Fraction = Fraction(1, 2)
    memory_bandwidth: Fraction = Fraction(900 * 10**9)
    roofline: bool = True


@dataclass(frozen=True)
class WorkloadSettings:
    """What is trained; one of ``file``, ``layers``, ``model`` and ``jobs``.

    Parameters
    ----------
    file : an ASTRA-sim 1.0 text, or the prefix of Chakra traces
    iterations : of the training loop; not of Chakra traces, which say it themselves
    data_type : of every element that is sent
    ranks : how many ranks the workload is for, where the network shall be checked against it
    mode : of a text without header lines
    compute_scale, jitter, seed : see `Variation`
    layers : written out
    model : to be generated
    jobs : several workloads on one network
    pipeline : cuts the layers of a file or those written out into stages
    comm_group : file of the communicators of Chakra traces
    priorities : classes of communication, the first goes before the others; none: in order of entry
    classes : of the collectives of a communicator, by its name
    lines : of keys, for messages
    path : of the document, for messages
    """

    file: Path | None = None
    iterations: int = 2
    data_type: str = "fp16"
    ranks: int | None = None
    mode: Mode | None = None
    compute_scale: Mapping[int, Fraction] = field(default_factory=dict)
    jitter: Fraction = Fraction(0)
    seed: int = 0
    layers: Workload | None = None
    model: ModelSettings | None = None
    jobs: tuple[JobSettings, ...] = ()
    pipeline: Pipeline | None = None
    comm_group: Path | None = None
    priorities: tuple[TrafficClass, ...] = ()
    classes: Mapping[str, TrafficClass] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    path: str = field(default="", compare=False, repr=False)

    @property
    def variation(self) -> Variation:
        """Of the compute times."""
        return Variation(compute_scale=self.compute_scale, jitter=self.jitter, seed=self.seed)

    @property
    def name(self) -> str:
        """For titles."""
        return str(self.file) if self.file is not None else self.path or "workload"

    def error(self, key: str, message: str) -> InputError:
        """An error that points to the line of ``key``, or of the first key."""
        line = self.lines.get(key, min(self.lines.values(), default=0)) or None
        return InputError(message, path=self.path or None, line=line)


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """One of several workloads on a network.

    Parameters
    ----------
    name : for reports; no two jobs have one
    ranks : of the network, in the order of the job's own ranks
    workload : its own
    priority : its communication goes before that of jobs with less
    """

    name: str
    ranks: tuple[int, ...]
    workload: WorkloadSettings
    priority: int = 0


def check_ranks_named(settings: WorkloadSettings, npus: int) -> None:
    """Refuse a compute scale of a rank, or a job on a rank, that a network of ``npus`` has not.

    Raises
    ------
    InputError
        with file and line.
    """
    for rank in settings.compute_scale:
        if rank >= npus:
            raise settings.error(
                "compute_scale",
                f"workload.compute_scale must name ranks in 0..{npus - 1}, not {rank}",
            )
    names = [job.name for job in settings.jobs]
    for job in settings.jobs:
        if names.count(job.name) > 1:
            raise settings.error("jobs", f"jobs must have names of their own; two are {job.name!r}")
        if max(job.ranks) >= npus:
            raise settings.error(
                "jobs",
                f"the ranks of job {job.name!r} must be in 0..{npus - 1}, not {max(job.ranks)}",
            )
        wanted = job.workload.ranks
        if wanted is not None and wanted != len(job.ranks):
            raise settings.error(
                "jobs",
                f"job {job.name!r} must have the {wanted} ranks of its workload, "
                f"not {len(job.ranks)}",
            )
        check_ranks_named(job.workload, len(job.ranks))

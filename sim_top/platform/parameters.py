"""From the description of a platform to the parameters of its components."""

from __future__ import annotations

from itertools import product

from rtl.ace.parameters import AceParameters, DimParameters
from rtl.common.packet import DataType, Operator, TrafficClass
from sim_top.configurations import FlowTable
from sw_model.endpoint.timing import ACE_TIMING
from sw_model.platform import EngineParameters, Platform
from sw_model.topology import Dim, DimKind

__all__ = ["classes_of", "data_types_of", "engine_parameters", "flow_table", "operators_of"]


def classes_of(platform: Platform) -> tuple[TrafficClass, ...] | None:
    """The classes with a channel of their own on every link; None where all share one."""
    return tuple(TrafficClass[name.upper()] for name in platform.engine.classes) or None


def data_types_of(engine: EngineParameters) -> frozenset[DataType]:
    """What the reduction units of engines and switches are built for."""
    return frozenset(DataType[name.upper()] for name in engine.data_types)


def operators_of(engine: EngineParameters) -> frozenset[Operator]:
    """What the reduction units of engines and switches do."""
    return frozenset(Operator[name.upper()] for name in engine.operators)


def flow_table(dim: Dim, engine: EngineParameters) -> FlowTable:
    """What the configuration memories of the switches of a FRED dim hold."""
    kinds = product(engine.data_types, engine.operators)
    return FlowTable(dim.size, dim.middle_copies, kinds=kinds, classes=engine.classes or ("dp",))


def engine_parameters(platform: Platform) -> AceParameters:
    """Parameters of every engine of ``platform``.

    Raises
    ------
    ValueError
        where the engine cannot be built so.
    """
    engine = platform.engine
    dims = tuple(
        DimParameters(
            grants=dim.kind is not DimKind.FRED,
            rate=platform.links[number].rate,
            credits=platform.buffer_flits(number),
            depth=platform.buffer_flits(number),
            ports=dim.links,
        )
        for number, dim in enumerate(platform.topology.dims)
    )
    flits = engine.lanes * engine.lane_flits
    return AceParameters(
        flit_bytes=engine.flit_bytes,
        dims=dims,
        sram_flits=-(-flits // engine.sram_banks) * engine.sram_banks,
        buffers=engine.buffer_count,
        sram_banks=engine.sram_banks,
        contexts=engine.contexts,
        classes=classes_of(platform),
        packet_bytes=engine.packet_bytes,
        program_steps=engine.program_steps,
        queue_depth=engine.queue_depth,
        doorbells=16,
        data_types=data_types_of(engine),
        operators=operators_of(engine),
        adder_depth=ACE_TIMING.adder_depth,
    )

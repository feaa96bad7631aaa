"""Engines by name: the same on the RTL, in the model, and in files."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from rtl.ace.parameters import DimParameters
from rtl.ace.presets import PRESETS, preset
from sim_top.emit import TOPS
from sim_top.platform.parameters import engine_parameters
from sw_model.endpoint.presets import ENGINE_PRESETS
from sw_model.errors import InputError
from sw_model.experiment import read_experiment
from sw_model.platform import LinkParameters, Platform
from sw_model.topology import Dim, DimKind, Topology

RING = DimParameters(grants=True)

EXPERIMENT = """\
workload: {file: layers.txt}
network:
  dims:
    - {kind: Ring, size: 4, bandwidth_per_npu: 20 GB/s, latency: 8 ns}
engine: NAME
"""


def test_the_paper_engine_has_the_capacities_of_the_paper() -> None:
    """Recalled from section 4 of ACE: 4 MiB of SRAM, 16 state machines, chunks of 64 KiB."""
    engine = preset("paper", (RING,) * 3)
    assert engine.sram_flits * engine.flit_bytes == 4 * 2**20
    assert engine.contexts == 16
    assert engine.sram_banks >= 16
    model = ENGINE_PRESETS["paper"]
    assert model.chunk_flits * model.flit_bytes == 64 * 2**10
    # Nothing more of that kind would fit.
    row = sum(p.flits for p in model.partitions)
    assert 0 <= engine.sram_flits - 23 * row < row


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_preset_is_one_engine_everywhere(name: str) -> None:
    engine = preset(name, (RING,))
    platform = Platform(
        Topology((Dim(DimKind.RING, 4, Fraction(20 * 10**9), 8000),)),
        (LinkParameters(rate=Fraction(1), latency=10),),
        engine=ENGINE_PRESETS[name],
    )
    built = engine_parameters(platform)
    # A platform cuts its SRAM to what the partitions need.
    assert built.sram_flits <= engine.sram_flits
    assert built.buffers == engine.buffers
    shared = {f: getattr(engine, f) for f in PRESETS[name] if f not in ("sram_flits", "doorbells")}
    assert {f: getattr(built, f) for f in shared} == shared
    emitted = TOPS["ace"].presets[name]
    assert {f: emitted[f] for f in PRESETS[name]} == PRESETS[name]


def test_experiments_name_them(tmp_path: Path) -> None:
    path = tmp_path / "experiment.yaml"
    for name, engine in ENGINE_PRESETS.items():
        found = read_experiment(path, text=EXPERIMENT.replace("NAME", name))
        assert found.engine == engine
    with pytest.raises(InputError) as error:
        read_experiment(path, text=EXPERIMENT.replace("NAME", "large"))
    assert "engine must be one of sim, paper, not 'large'" in str(error.value)


def test_unknown_names_and_changes_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^the preset must be sim or paper, not 'large'$"):
        preset("large", (RING,))
    engine = preset("paper", (RING,))
    for change, text in (
        ({"flit_bytes": 192}, r"^flit_bytes must be "),
        ({"contexts": 17}, r"^contexts must be a power of two, not 17$"),
        ({"sram_flits": 2**21}, r"^sram_flits must be a multiple of 32 banks of at most 2\*\*20, "),
        ({"buffers": 257}, r"^buffers must be in 1\.\.256, not 257$"),
        ({"dims": ()}, r"^dims must be 1 to 15 dims, not 0$"),
    ):
        with pytest.raises(ValueError, match=text):
            replace(engine, **change)

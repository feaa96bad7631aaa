"""``antiphon reproduce themis``: figures with few chunks."""

from sim_top.reproduce import themis_chunks
from sw_model.schedule.evaluation import NETWORKS, evaluation_instance
from sw_model.schedule.starts import equal_pieces


def test_rows_of_few_chunks():
    rows = themis_chunks.rows()
    assert all(row.ok and not row.reason for row in rows)
    assert len({(row.name, row.reference) for row in rows}) == len(rows)
    found = {row.name: row.ours for row in rows}
    # Nothing beats the bound, and more chunks and a search are no worse.
    shares = [found[f"balanced, at most {c} chunks: mean share of the bound"] for c in (4, 8, 16)]
    assert shares == sorted(shares)
    assert shares[-1] <= 100
    assert shares[1] > found["a linear program's shares, 8 chunks, SCF: mean share of the bound"]
    assert shares[1] > found["mean utilisation, Themis + SCF, 8 chunks"]


def test_equal_pieces_of_a_linear_program():
    """All of the payload, in pieces of an order that differ by no more than rounding, and on every
    dim what the bound says."""
    for name in NETWORKS:
        instance = evaluation_instance(name, 1000 * 2**20)
        candidate = equal_pieces(instance, 64)
        assert sum(candidate.extents) == instance.payload.extent
        assert len(candidate.phases) <= 64
        sizes: dict[object, list[int]] = {}
        for phases, extent in zip(candidate.phases[:-1], candidate.extents[:-1], strict=True):
            sizes.setdefault(phases, []).append(extent)
        for alike in sizes.values():
            assert max(alike) - min(alike) <= 2 * instance.grain
        assert instance.seconds(instance.run(candidate).end) >= instance.bound_seconds

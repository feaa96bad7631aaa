"""What an engine's SRAM does for a byte of payload, and what headers take of a link.

Counted in the steps of the rings: the TX DMA writes a chunk and the RX DMA reads it; a reduction
reads its operand; what is received is written; the first message of an op, and what a phase has for
itself, is read. What is sent on comes from beside the SRAM (docs/ace.md). An engine may also keep a
sum that is only passed on out of the SRAM; ours writes it.
"""

from __future__ import annotations

from fractions import Fraction

from sim_top.reproduce.registry import Row
from sw_model.collective.plan import Operation, RankSteps
from sw_model.collective.ring import ring_steps
from sw_model.endpoint.design_space import TorusPlatform

__all__ = ["accesses", "rows"]

_SIZES = (4, 4, 4)
#: Of a byte, in quanta that leave every shard of every phase whole.
_PAYLOAD = 64
_GB = 10**9


def accesses(*, passes_by: bool) -> Fraction:
    """SRAM accesses for a byte of the paper's all-reduce on 4 x 4 x 4: a reduce-scatter and an
    all-gather on the local ring, an all-reduce on each of the others.

    Parameters
    ----------
    passes_by : whether a sum that is only passed on is not written
    """
    local, vertical, horizontal = _SIZES
    shard = _PAYLOAD // local
    total = 2 * _PAYLOAD  # TX DMA, RX DMA
    for operation, size, whole in (
        (Operation.REDUCE_SCATTER, local, _PAYLOAD),
        (Operation.ALL_REDUCE, vertical, shard),
        (Operation.ALL_REDUCE, horizontal, shard),
        (Operation.ALL_GATHER, local, _PAYLOAD),
    ):
        bounds = tuple(whole * place // size for place in range(size + 1))
        total += _phase(ring_steps(operation, 0, bounds), passes_by)
    return Fraction(total, _PAYLOAD)


def _phase(steps: RankSteps, passes_by: bool) -> int:
    total = 0
    for send in steps.sends:
        total += send.length if send.after is None else 0
        total += send.length if send.copy_offset is not None else 0
    for receive in steps.receives:
        total += receive.length if receive.reduce else 0
        only_passed = receive.reduce and not receive.into_destination
        total += 0 if only_passed and passes_by else receive.length
    return total


def rows() -> list[Row]:
    """All figures."""
    by, ours = accesses(passes_by=True), accesses(passes_by=False)
    payload = TorusPlatform(torus=_SIZES).payload_rate
    note = "derived, about"
    what = "SRAM accesses for a payload byte, 4 x 4 x 4"
    written = float(ours - by)
    return [
        Row(f"{what}, sums that are passed on not written", float(by), 5.4, note, 0.15),
        Row(
            f"{what}, this engine",
            float(ours),
            5.4,
            note,
            0.15,
            reason=f"it also writes the sums that it only passes on, {written:g} of a payload byte",
        ),
        Row(
            "SRAM rate, 4 x 4 x 4, sums that are passed on not written",
            float(by * payload / _GB),
            700,
            "derived",
            0,
            "GB/s",
            at_least=True,
        ),
        *(
            Row(
                f"share of the headers, packets of 256 B, flits of {flit} B",
                100 * flit / (256 + flit),
                share,
                "derived; the paper's links lose 6 %",
                0.5,
                "%",
            )
            for flit, share in ((64, 20), (16, 6))
        ),
    ]

"""What a cross-check left in its JSON, read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sw_model.errors import InputError
from sw_model.results import Crosscheck, CrosscheckCase

__all__ = ["read_crosscheck"]


def read_crosscheck(path: Path) -> Crosscheck:
    """The cases in a file of ``antiphon crosscheck --json``; those under random stalls come last.

    Raises
    ------
    InputError
        where it is none.
    """
    try:
        found = json.loads(path.read_text())
        timed = [_case(case, timed=True) for case in found["cases"]]
        return Crosscheck((*timed, *(_case(case, timed=False) for case in found["stalled"])))
    except OSError as error:
        raise InputError(f"--from must be a file that can be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"--from must be what antiphon crosscheck --json writes: {error!r}", path=path
        ) from None


def _case(found: dict[str, Any], *, timed: bool) -> CrosscheckCase:
    return CrosscheckCase(
        name=found["name"],
        data_ok=found["data_ok"],
        counters_ok=found["counters_ok"],
        rtl_cycles=found["rtl_cycles"],
        tlm_cycles=found["tlm_cycles"],
        notes=tuple(found["notes"]),
        timed=timed,
        bank_collisions=found["bank_collisions"],
        packet_cycles=found["packet_cycles"],
        one_chunk=found["one_chunk"],
    )

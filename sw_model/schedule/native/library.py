"""Compiles ``search.cpp`` once, and calls it.

C++ through ctypes and not Numba, decided here: it needs no package, the compiler is the one that
Verilator needs anyway, and it starts in a millisecond. The library lies in ``build/native`` (or
``$ANTIPHON_BUILD/native``) under the content of its source, so a change of the source makes a new
one.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Found", "Library", "library"]

_SOURCE = Path(__file__).with_name("search.cpp")
_HEADERS = tuple(_SOURCE.with_name(name) for name in ("annealing.h", "model.h", "state.h"))
_FLAGS = ("-std=c++17", "-O2", "-shared", "-fPIC")
_PROGRESS = ctypes.CFUNCTYPE(None, ctypes.c_double)


@dataclass(frozen=True)
class Found:
    """What a search came to: the time, and by chunk its order, its size, and the keys of its ops.

    ``judged`` states were simulated; ``late`` says that processor time ended it, not its budget.
    """

    end: int
    order: tuple[int, ...]
    size: tuple[int, ...]
    key: tuple[float, ...]
    judged: int
    late: bool


class Library:
    """The compiled functions."""

    def __init__(self, path: Path) -> None:
        loaded = ctypes.CDLL(str(path))
        self._run = loaded.antiphon_run
        self._run.restype = ctypes.c_int64
        self._search = loaded.antiphon_search
        self._search.restype = ctypes.c_int64

    def run(self, chunks: Sequence[Sequence[tuple[int, int, int]]], dims: int, scf: bool) -> int:
        """`sw_model.schedule.minimal.run_minimal`, its end only."""
        stride = max((len(ops) for ops in chunks), default=0) or 1
        stages, dim = array("i"), array("i")
        busy, latency, key = array("q"), array("q"), array("d")
        for ops in chunks:
            stages.append(len(ops))
            for d, time, after in ops:
                dim.append(d)
                busy.append(time)
                latency.append(after)
                key.append(time if scf else 0)
            for _ in range(stride - len(ops)):
                for values in (dim, busy, latency, key):
                    values.append(0)
        return int(
            self._run(
                len(chunks), stride, dims, *(_pointer(v) for v in (stages, dim, busy, latency, key))
            )
        )

    def search(
        self,
        *,
        dims: int,
        orders: Sequence[Sequence[tuple[int, int, int]]],
        scatters: Sequence[int],
        starts: Sequence[tuple[Sequence[int], Sequence[int], Sequence[Sequence[float]]]],
        budget: int,
        seconds: float,
        seed: int,
        target: int,
        serial: bool = False,
        progress: Callable[[float], object] | None = None,
    ) -> Found:
        """Anneal from several starts.

        Parameters
        ----------
        orders : ops of a chunk of one grain, by number of the order
        scatters : how many of them come before the all-gather, by order
        starts : (order, grains, factors of each op's time that give its key) by chunk; all of them
            have the same number of chunks, of which empty ones do nothing
        budget : simulated ops
        seconds : of processor time, at most
        target : end at which it stops
        serial : the latency of an op holds its dim
        progress : gets the share that is done, now and then
        """
        chunks = len(starts[0][0])
        stride = max(len(ops) for ops in orders)
        stages, dim = array("i", [len(ops) for ops in orders]), array("i")
        before = array("i", scatters)
        busy, latency = array("q"), array("q")
        for ops in orders:
            padded = [*ops, *[(0, 0, 0)] * (stride - len(ops))]
            dim.extend(op[0] for op in padded)
            busy.extend(op[1] for op in padded)
            latency.extend(op[2] for op in padded)
        order, size, factor = array("i"), array("q"), array("d")
        for numbers, grains, factors in starts:
            order.extend(numbers)
            size.extend(grains)
            for row in factors:
                factor.extend([*row, *[1.0] * (stride - len(row))])
        figures = array("q", [0, 0, 0])
        end = self._search(
            chunks,
            dims,
            len(orders),
            stride,
            *(_pointer(v) for v in (stages, before, dim, busy, latency)),
            int(serial),
            len(starts),
            *(_pointer(v) for v in (order, size, factor)),
            ctypes.c_int64(budget),
            ctypes.c_double(seconds),
            ctypes.c_uint64(seed),
            ctypes.c_int64(target),
            _PROGRESS() if progress is None else _PROGRESS(progress),
            _pointer(figures),
        )
        return Found(
            end=int(end),
            order=tuple(order[:chunks]),
            size=tuple(size[:chunks]),
            key=tuple(factor[: chunks * stride]),
            judged=figures[0],
            late=bool(figures[2]),
        )


def _pointer(values: array) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.buffer_info()[0])


@cache
def library() -> Library | None:
    """The compiled library, or None where there is no compiler."""
    sources = b"".join(path.read_bytes() for path in (_SOURCE, *_HEADERS))
    key = hashlib.sha256(sources + " ".join(_FLAGS).encode()).hexdigest()[:16]
    root = Path(os.environ.get("ANTIPHON_BUILD") or Path(__file__).resolve().parents[3] / "build")
    path = root / "native" / f"search-{key}.so"
    if not path.exists():
        compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
        if compiler is None:
            return None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            path = Path(tempfile.mkdtemp(prefix="antiphon-")) / path.name
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        command = [*compiler.split(), *_FLAGS, "-o", str(partial), str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            return None
        partial.replace(path)
    return Library(path)

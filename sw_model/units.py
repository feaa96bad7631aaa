"""Quantities as people write them, read exactly.

kB, MB and GB are powers of 10, KiB, MiB and GiB powers of 2. Bandwidth may be in bytes (``GB/s``,
``GiB/s``) or in bits (``Gb/s``). Nothing passes through binary floating point, so that equal
quantities are equal and ties in a schedule stay ties.

Errors are ``ValueError`` with what would be right; readers of files add the position. What is
larger than any machine (`LARGEST_SIZE` and the like, decided here) is refused as well, so that sums
of it stay in the range of the counters and figures of it in that of a float.
"""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = [
    "BANDWIDTH_UNITS",
    "FREQUENCY_UNITS",
    "LARGEST_BANDWIDTH",
    "LARGEST_COUNT",
    "LARGEST_FREQUENCY",
    "LARGEST_SIZE",
    "LARGEST_TIME_NS",
    "LARGEST_TIME_PS",
    "SIZE_UNITS",
    "TIME_UNITS",
    "LimitError",
    "format_bandwidth",
    "format_size",
    "format_time_ns",
    "parse_bandwidth",
    "parse_frequency",
    "parse_number",
    "parse_size",
    "parse_time_ps",
    "shown",
]

LARGEST_SIZE = 2**60
"""Bytes."""
LARGEST_TIME_PS = 10**18
"""Picoseconds: 10^6 s."""
LARGEST_TIME_NS = LARGEST_TIME_PS // 1000
LARGEST_BANDWIDTH = 10**18
"""Bytes per second."""
LARGEST_FREQUENCY = 10**12
"""Hertz."""
LARGEST_COUNT = 2**31
"""Of anything that is counted: layers, iterations, chunks, ranks."""
_LONGEST = 100  # characters of a number
_LARGEST_EXPONENT = 99

_PREFIXES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
#: Bytes in one of each unit of size.
SIZE_UNITS = {f"{prefix}B": Fraction(factor) for prefix, factor in _PREFIXES.items()}
#: Bytes per second in one of each unit of bandwidth; a small b is a bit.
BANDWIDTH_UNITS = {f"{prefix}B/s": Fraction(factor) for prefix, factor in _PREFIXES.items()} | {
    f"{prefix}b/s": Fraction(factor, 8) for prefix, factor in _PREFIXES.items()
}
#: Picoseconds in one of each unit of time.
TIME_UNITS = {
    "ps": Fraction(1),
    "ns": Fraction(10**3),
    "us": Fraction(10**6),
    "µs": Fraction(10**6),
    "ms": Fraction(10**9),
    "s": Fraction(10**12),
}

#: Hertz in one of each unit of frequency.
FREQUENCY_UNITS = {f"{prefix}Hz": Fraction(_PREFIXES[prefix]) for prefix in ("", "k", "M", "G")}

_EXAMPLES = {
    "size": "64MiB",
    "bandwidth": "150 GB/s",
    "time": "500 ns",
    "frequency": "1.25 GHz",
}
_EXPONENT = re.compile(r"[eE]([+-]?\d+)")
_QUANTITY = re.compile(
    r"\s*(?P<number>[+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>[^\s\d].*?)?\s*"
)


class LimitError(ValueError):
    """A quantity larger than any that is computed with."""


def shown(text: object) -> str:
    """``text`` for a message, quoted, and cut where it is very long."""
    if not isinstance(text, str) or len(text) <= _LONGEST:
        return repr(text)
    return f"{text[:20] + '...'!r} of {len(text)} characters"


def _exact(text: str) -> Fraction:
    """A number as written. Huge ones are refused before anything is computed."""
    exponent = _EXPONENT.search(text)
    if len(text) > _LONGEST or (exponent is not None and abs(int(exponent[1])) > _LARGEST_EXPONENT):
        raise LimitError(
            f"a number must have at most {_LONGEST} characters and an exponent of at most "
            f"{_LARGEST_EXPONENT}, not {shown(text)}"
        )
    return Fraction(text)


def parse_number(text: str | int | float) -> Fraction:
    """A decimal number as a fraction, exactly as written (``0.1`` is one tenth).

    Raises
    ------
    ValueError
        "X is not a number"; a `LimitError` where it is too long to be one of use.
    """
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a number")
    try:
        # repr() of a float gives back the decimal digits that were written.
        return _exact(text if isinstance(text, str) else repr(text))
    except LimitError:
        raise
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{shown(text)} is not a number") from None


def _parse(
    text: str | int,
    what: str,
    units: dict[str, Fraction],
    default: str | None,
    largest: int,
    limit: str,
) -> Fraction:
    example = _EXAMPLES[what]
    match = None if isinstance(text, bool) else _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(
            f"{what} must be a number and a unit such as {example!r}, not {shown(text)}"
        )
    unit = match["unit"] or default
    if unit is None:
        raise ValueError(f"{what} must have a unit, such as {example!r}, not {shown(text)}")
    if unit not in units:
        raise ValueError(
            f"the unit of a {what} must be one of {', '.join(units)}, not {unit!r} in {shown(text)}"
        )
    value = _exact(match["number"].replace("_", "")) * units[unit]
    if value < 0:
        raise ValueError(f"{what} must not be negative, not {shown(text)}")
    if value > largest:
        raise LimitError(f"{what} must be at most {limit}, not {shown(text)}")
    return value


def parse_size(text: str | int) -> int:
    """Whole bytes from ``1048576``, ``64MiB`` or ``1.5GB``; a bare number counts bytes.

    Raises
    ------
    ValueError
        where it is no size, has an unknown unit, is negative, is no whole number of bytes, or is
        larger than `LARGEST_SIZE`.
    """
    value = _parse(text, "size", SIZE_UNITS, "B", LARGEST_SIZE, "2^60 bytes")
    if value.denominator != 1:
        raise ValueError(f"size must be a whole number of bytes, not {shown(text)}")
    return int(value)


def parse_bandwidth(text: str) -> Fraction:
    """Bytes per second, exactly, from ``150 GB/s``, ``150 GiB/s`` or ``1200 Gb/s``.

    The unit is required: a bare number has meant both 10^9 and 2^30 in formats of this field.

    Raises
    ------
    ValueError
        where it is no bandwidth, has no unit or an unknown one, is not positive, or is larger than
        `LARGEST_BANDWIDTH`.
    """
    value = _parse(text, "bandwidth", BANDWIDTH_UNITS, None, LARGEST_BANDWIDTH, "10^18 B/s")
    if value == 0:
        raise ValueError(f"bandwidth must be positive, not {shown(text)}")
    return value


def parse_time_ps(text: str) -> int:
    """Whole picoseconds from ``500 ns`` or ``1.5 us``. The unit is required, but for zero.

    Raises
    ------
    ValueError
        where it is no time, has no unit or an unknown one, is negative, is no whole number of
        picoseconds, or is longer than `LARGEST_TIME_PS`.
    """
    default = "ps" if str(text).strip() in ("0", "0.0") else None
    value = _parse(text, "time", TIME_UNITS, default, LARGEST_TIME_PS, "10^6 s")
    if value.denominator != 1:
        raise ValueError(f"time must be a whole number of picoseconds, not {shown(text)}")
    return int(value)


def parse_frequency(text: str) -> int:
    """Whole hertz from ``1.25 GHz``. The unit is required.

    Raises
    ------
    ValueError
        where it is no frequency, has no unit or an unknown one, is not positive, is no whole number
        of hertz, or is higher than `LARGEST_FREQUENCY`.
    """
    value = _parse(text, "frequency", FREQUENCY_UNITS, None, LARGEST_FREQUENCY, "10^12 Hz")
    if value == 0 or value.denominator != 1:
        raise ValueError(f"frequency must be a positive whole number of hertz, not {shown(text)}")
    return int(value)


def _scaled(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def format_size(count: int) -> str:
    """For people: ``51.1 MB``. Powers of 10."""
    for factor, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= factor:
            return _scaled(count / factor, unit)
    return f"{count} B"


def format_bandwidth(bytes_per_second: Fraction) -> str:
    """For people: ``20 GB/s``, 10^9."""
    return _scaled(float(bytes_per_second / 10**9), "GB/s")


def format_time_ns(nanoseconds: float | Fraction) -> str:
    """For people: ``1.234 ms``."""
    value = float(nanoseconds)
    for factor, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if value >= factor:
            return _scaled(value / factor, unit)
    return _scaled(value, "ns")

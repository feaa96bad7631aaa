"""Quantities: exact values, and every message word for word."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from sw_model import units


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1048576", 1 << 20),
        (1048576, 1 << 20),
        ("64MiB", 64 << 20),
        ("64 MiB", 64 << 20),
        ("1.5GB", 1_500_000_000),
        ("1.5 GiB", 3 << 29),
        ("2kB", 2000),
        ("2KiB", 2048),
        ("0", 0),
        ("1e3 B", 1000),
        ("1_000 B", 1000),
        ("0.5KiB", 512),
    ],
)
def test_sizes(text, count) -> None:
    assert units.parse_size(text) == count


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("150 GB/s", Fraction(150 * 10**9)),
        ("150 GiB/s", Fraction(150 * 2**30)),
        ("1200 Gb/s", Fraction(150 * 10**9)),
        ("0.1GB/s", Fraction(10**8)),
        ("12.5 Gib/s", Fraction(25 * 2**30, 16)),
    ],
)
def test_bandwidths_are_exact(text, value) -> None:
    assert units.parse_bandwidth(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("500 ns", 500_000), ("1.5 us", 1_500_000), ("1.5µs", 1_500_000), ("7ps", 7), ("0", 0)],
)
def test_times(text, value) -> None:
    assert units.parse_time_ps(text) == value


@pytest.mark.parametrize(
    ("function", "text", "message"),
    [
        ("size", "many", "size must be a number and a unit such as '64MiB', not 'many'"),
        ("size", "", "size must be a number and a unit such as '64MiB', not ''"),
        ("size", True, "size must be a number and a unit such as '64MiB', not True"),
        (
            "size",
            "3 MW",
            "the unit of a size must be one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, "
            "not 'MW' in '3 MW'",
        ),
        ("size", "-1", "size must not be negative, not '-1'"),
        ("size", "0.3", "size must be a whole number of bytes, not '0.3'"),
        ("bandwidth", "20", "bandwidth must have a unit, such as '150 GB/s', not '20'"),
        ("bandwidth", 20, "bandwidth must have a unit, such as '150 GB/s', not 20"),
        ("bandwidth", "0 GB/s", "bandwidth must be positive, not '0 GB/s'"),
        ("bandwidth", "-2 GB/s", "bandwidth must not be negative, not '-2 GB/s'"),
        ("time_ps", "20", "time must have a unit, such as '500 ns', not '20'"),
        (
            "time_ps",
            "20 min",
            "the unit of a time must be one of ps, ns, us, µs, ms, s, not 'min' in '20 min'",
        ),
        (
            "time_ps",
            "0.1 ps",
            "time must be a whole number of picoseconds, not '0.1 ps'",
        ),
        ("number", "x", "'x' is not a number"),
        ("number", True, "True is not a number"),
    ],
)
def test_messages(function, text, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        getattr(units, f"parse_{function}")(text)


def test_a_small_b_is_a_bit() -> None:
    assert units.parse_bandwidth("8 Gb/s") == units.parse_bandwidth("1 GB/s")
    message = re.escape("must be one of B/s, kB/s")
    with pytest.raises(ValueError, match=message):
        units.parse_bandwidth("8 gb/s")


def test_numbers_are_read_as_written() -> None:
    assert units.parse_number(0.1) == Fraction(1, 10)
    assert units.parse_number("1/64") == Fraction(1, 64)
    assert units.parse_number(3) == 3


def test_formats() -> None:
    assert units.format_size(51_114_064) == "51.11 MB"
    assert units.format_size(12) == "12 B"
    assert units.format_bandwidth(Fraction(20 * 10**9)) == "20 GB/s"
    assert units.format_time_ns(1234) == "1.234 us"
    assert units.format_time_ns(0) == "0 ns"
    assert units.format_time_ns(5_000_000_000_000) == "5,000 s"

"""Binary floating-point formats, by the data type codes of packets and records."""

from dataclasses import dataclass

from rtl.common.packet import DataType, Operator, PacketHeader

__all__ = [
    "DATA_TYPE_BITS",
    "ELEMENT_BITS",
    "FLOAT_FORMATS",
    "OPERATOR_BITS",
    "FloatFormat",
    "check_data_types",
    "check_operators",
]  # fmt: skip

# Ports carry the codes as wide as packet headers do.
DATA_TYPE_BITS = PacketHeader.as_shape()["data_type"].width
OPERATOR_BITS = PacketHeader.as_shape()["operator"].width


@dataclass(frozen=True)
class FloatFormat:
    """An IEEE-754 style interchange format: sign, biased exponent, mantissa without hidden bit.

    Parameters
    ----------
    exponent : bits of the exponent field
    mantissa : bits of the mantissa field
    """

    exponent: int
    mantissa: int

    @property
    def width(self) -> int:
        """Bits of an element."""
        return 1 + self.exponent + self.mantissa

    @property
    def top_exponent(self) -> int:
        """The exponent field of infinities and NaNs."""
        return (1 << self.exponent) - 1

    @property
    def infinity(self) -> int:
        """+infinity."""
        return self.top_exponent << self.mantissa

    @property
    def nan(self) -> int:
        """The canonical quiet NaN, the only one that a unit ever produces (docs/arithmetic.md)."""
        return self.infinity | 1 << (self.mantissa - 1)


FLOAT_FORMATS = {
    DataType.FP16: FloatFormat(exponent=5, mantissa=10),
    DataType.BF16: FloatFormat(exponent=8, mantissa=7),
    DataType.FP32: FloatFormat(exponent=8, mantissa=23),
}

ELEMENT_BITS = {DataType.INT32: 32} | {key: f.width for key, f in FLOAT_FORMATS.items()}


def check_data_types(data_types: object) -> frozenset[DataType]:
    """Validate the parameter ``data_types`` of a unit.

    Raises
    ------
    ValueError
        unless it is a non-empty collection of :class:`DataType`.
    """
    return _check_codes("data_types", data_types, DataType)


def check_operators(operators: object) -> frozenset[Operator]:
    """Validate the parameter ``operators`` of a unit.

    Raises
    ------
    ValueError
        unless it is a non-empty collection of :class:`Operator`.
    """
    return _check_codes("operators", operators, Operator)


def _check_codes(name: str, codes: object, kind: type) -> frozenset:
    if (
        not isinstance(codes, set | frozenset | tuple | list)
        or not codes
        or not all(isinstance(code, kind) for code in codes)
    ):
        raise ValueError(f"{name} must be a non-empty set of {kind.__name__}, not {codes!r}")
    return frozenset(codes)

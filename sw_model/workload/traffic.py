"""Classes of communication, by what it is for."""

from __future__ import annotations

import enum

__all__ = ["TrafficClass", "parse_classes"]


class TrafficClass(enum.Enum):
    """What communication is for.

    Members
    -------
    MODEL : activations and their gradients, inside a layer: tensor parallelism and expert exchange
    PIPELINE : activations and their gradients, from stage to stage
    DATA : gradients and parameters, between replicas
    """

    MODEL = "mp"
    PIPELINE = "pp"
    DATA = "dp"


def parse_classes(text: str) -> tuple[TrafficClass, ...]:
    """An order of classes from ``mp,pp,dp``.

    Raises
    ------
    ValueError
        where a class is unknown, or stands twice.
    """
    known = {one.value: one for one in TrafficClass}
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise ValueError(
                f"must be some of {', '.join(known)}, such as 'mp,pp,dp', not {name!r}"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"must name each class once, not {text!r}")
    return tuple(known[name] for name in names)

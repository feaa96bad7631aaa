"""Classes of communication, by what it is for."""

from __future__ import annotations

import enum

__all__ = ["TrafficClass"]


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

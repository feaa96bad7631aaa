"""The rules under which a tree of switches runs, each of which can be left out."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PUBLISHED", "Rules"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The switch's rules (docs/fred.md). Without any one of the first five there are deadlocks.

    Parameters
    ----------
    by_flow : a flow is ready alone; without it the switch stays with the first flow in priority
        and order of which some input holds a packet, until that is ready
    private_buffers : each class has its buffer at the end of every link; without it they share one
        queue of the same size in all
    agreed_order : all ranks start the collectives of a class in the global order; without it each
        in an order of its own
    trunk_order : the router keeps apart, by up links, flows of a class that share no input
    whole_credit : a flow takes the credits of all its outputs at once, when it starts; without it
        each as soon as there is one
    all_ports : the published rule of switching over: a phase (class) begins when every port of the
        switch holds a packet of it
    starvation_bound : packets that may pass a ready one of a lower class; None for no bound
    """

    by_flow: bool = True
    private_buffers: bool = True
    agreed_order: bool = True
    trunk_order: bool = True
    whole_credit: bool = True
    all_ports: bool = False
    starvation_bound: int | None = 4


PUBLISHED = Rules(all_ports=True)
"""Ours in all, but for when to switch over (FRED, ISCA 2025, taken literally)."""

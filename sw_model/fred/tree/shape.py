"""The shape of a tree of FRED switches, and which port of which switch each link has.

An L1 switch has its NPUs on its first ports and its up links behind them. Up link k of every L1
switch leads to L2 switch ``k % tops``, which has the up links of one L1 switch side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

from sw_model.fred.construction import check_size
from sw_model.fred.tree.case import Tree

__all__ = ["TreePorts", "TreeShape"]


@dataclass(frozen=True)
class TreeShape:
    """What every L1 switch of a tree has.

    Parameters
    ----------
    ranks : NPUs below it
    ups : up links
    tops : L2 switches, over which the up links are spread evenly

    Raises
    ------
    ValueError
        for counts that do not fit together.
    """

    ranks: int
    ups: int
    tops: int

    def __post_init__(self) -> None:
        for name in ("ranks", "ups", "tops"):
            if getattr(self, name) < 1:
                raise ValueError(f"tree.{name} must be at least 1, not {getattr(self, name)!r}")
        if self.ups % self.tops:
            raise ValueError(
                f"tree.ups must be a multiple of the {self.tops} L2 switches, not {self.ups}"
            )

    def tree(self, size: int) -> Tree:
        """The tree over ``size`` NPUs.

        Raises
        ------
        ValueError
            where they are not two L1 switches or more, all full.
        """
        if size % self.ranks or size < 2 * self.ranks:
            raise ValueError(
                f"a tree with {self.ranks} NPUs below each L1 switch must have a multiple of that, "
                f"{2 * self.ranks} or more, not {size}"
            )
        return Tree(switches=size // self.ranks, ranks=self.ranks, ups=self.ups, tops=self.tops)


@dataclass(frozen=True)
class TreePorts:
    """Ports of all switches of a tree. A switch is named by its level, ``"L1"`` or ``"L2"``, and
    its number.

    Parameters
    ----------
    tree : L1 switches, what is below and above them
    middle_copies : the m of every switch

    Raises
    ------
    ValueError
        where a switch cannot be built, saying which.
    """

    tree: Tree
    middle_copies: int = 3

    def __post_init__(self) -> None:
        for level in ("L1", "L2"):
            try:
                check_size(self.ports(level), self.middle_copies)
            except ValueError as error:
                raise ValueError(
                    f"an {level} switch of {self.ports(level)} ports: {error}"
                ) from None

    def ports(self, level: str) -> int:
        """P of the switches of a level."""
        tree = self.tree
        return tree.ranks + tree.ups if level == "L1" else tree.switches * self.shared

    @property
    def shared(self) -> int:
        """Up links of one L1 switch that lead to one L2 switch."""
        return self.tree.ups // self.tree.tops

    @property
    def switches(self) -> tuple[tuple[str, int], ...]:
        """All switches: L1 before L2."""
        l1 = [("L1", number) for number in range(self.tree.switches)]
        return (*l1, *(("L2", number) for number in range(self.tree.tops)))

    def down(self, rank: int) -> tuple[int, int]:
        """L1 switch and port of an NPU."""
        return divmod(rank, self.tree.ranks)

    def up(self, link: int) -> int:
        """Port of up link ``link`` of an L1 switch."""
        return self.tree.ranks + link

    def top(self, switch: int, link: int) -> tuple[int, int]:
        """L2 switch and port at the other end of an up link of L1 switch ``switch``."""
        number, place = link % self.tree.tops, link // self.tree.tops
        return number, switch * self.shared + place

"""The fabrics of the wafer, link by link.

Twenty NPUs of 3 TB/s a direction. The *mesh* has five rows of four with 750 GB/s links between
neighbours and X-Y routing. In the *tree* each row of four is under an L1 switch, and the L1
switches meet in L2: the links of one L1 to all L2 switches are one trunk here, since the flows
are spread evenly over them.

====== =============== ================ ==========
name   NPU to L1       trunk of an L1   in-network
====== =============== ================ ==========
mesh   750 GB/s a link                  no
A      3 TB/s          1.5 TB/s         no
B      3 TB/s          1.5 TB/s         yes
C      3 TB/s          12 TB/s          no
D      3 TB/s          12 TB/s          yes
====== =============== ================ ==========

A link is a tuple that names it; all have one direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["COLUMNS", "FABRICS", "IO_CONTROLLERS", "NPUS", "ROWS", "Fabric", "broadcast_uses"]

ROWS, COLUMNS = 5, 4
NPUS = ROWS * COLUMNS
_GB = 10**9
#: One on every NPU side that lies on the edge of the mesh.
IO_CONTROLLERS = 2 * (ROWS + COLUMNS)


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """One variant.

    Parameters
    ----------
    name : as in the table above
    mesh_link : bytes per second between neighbours, 0 where the fabric is a tree
    npu_link, trunk : bytes per second between an NPU and its L1, and of an L1 to all L2
    in_network : switches reduce and multicast
    """

    name: str
    mesh_link: int = 0
    npu_link: int = 0
    trunk: int = 0
    in_network: bool = False

    def capacity(self) -> dict[Hashable, Fraction]:
        """Bytes per second of every link."""
        out: dict[Hashable, Fraction] = {}
        if self.mesh_link:
            for row in range(ROWS):
                for column in range(COLUMNS):
                    for to in ((row, column + 1), (row + 1, column)):
                        if to[0] < ROWS and to[1] < COLUMNS:
                            out["mesh", (row, column), to] = Fraction(self.mesh_link)
                            out["mesh", to, (row, column)] = Fraction(self.mesh_link)
            return out
        for npu in range(NPUS):
            out["up", npu] = out["down", npu] = Fraction(self.npu_link)
        for switch in range(ROWS):
            out["trunk up", switch] = out["trunk down", switch] = Fraction(self.trunk)
        return out

    def path(self, source: int, target: int) -> list[Hashable]:
        """Links from NPU to NPU: X before Y on the mesh."""
        if source == target:
            return []
        if self.mesh_link:
            return _xy(divmod(source, COLUMNS), divmod(target, COLUMNS))
        across: list[Hashable] = []
        if source // COLUMNS != target // COLUMNS:
            across = [("trunk up", source // COLUMNS), ("trunk down", target // COLUMNS)]
        return [("up", source), *across, ("down", target)]

    def in_network_uses(self, group: tuple[int, ...]) -> Counter[Hashable]:
        """Links of an all-reduce inside the switches: every one once.

        Raises
        ------
        ValueError
            where the fabric does not reduce.
        """
        if not self.in_network:
            raise ValueError(f"fabric {self.name} must reduce in the network to be used so")
        out: Counter[Hashable] = Counter()
        switches = {npu // COLUMNS for npu in group}
        for npu in group:
            out["up", npu] += 1
            out["down", npu] += 1
        if len(switches) > 1:
            for switch in switches:
                out["trunk up", switch] += 1
                out["trunk down", switch] += 1
        return out


def _xy(source: tuple[int, int], target: tuple[int, int]) -> list[Hashable]:
    out: list[Hashable] = []
    row, column = source
    while column != target[1]:
        after = column + (1 if target[1] > column else -1)
        out.append(("mesh", (row, column), (row, after)))
        column = after
    while row != target[0]:
        below = row + (1 if target[0] > row else -1)
        out.append(("mesh", (row, column), (below, column)))
        row = below
    return out


FABRICS = {
    fabric.name: fabric
    for fabric in (
        Fabric(name="mesh", mesh_link=750 * _GB),
        Fabric(name="A", npu_link=3000 * _GB, trunk=1500 * _GB),
        Fabric(name="B", npu_link=3000 * _GB, trunk=1500 * _GB, in_network=True),
        Fabric(name="C", npu_link=3000 * _GB, trunk=12000 * _GB),
        Fabric(name="D", npu_link=3000 * _GB, trunk=12000 * _GB, in_network=True),
    )
}


def broadcast_uses(rows: int, columns: int) -> Counter[Hashable]:
    """How many I/O streams each link of a mesh carries when every one goes to all NPUs.

    A controller stands at each outer side of an edge NPU. A stream from the left or the right
    runs along its row and from there through the columns; one from the top or the bottom runs
    along its column and from there through the rows, so that neither direction has all of them.
    """
    out: Counter[Hashable] = Counter()
    for row in range(rows):
        for start in (0, columns - 1):
            for column in range(columns):
                if column != columns - 1:
                    _line(out, (row, column), (row, column + 1), forward=start == 0)
                for r in range(rows - 1):
                    _line(out, (r, column), (r + 1, column), forward=r >= row)
    for column in range(columns):
        for start in (0, rows - 1):
            for row in range(rows):
                if row != rows - 1:
                    _line(out, (row, column), (row + 1, column), forward=start == 0)
                for c in range(columns - 1):
                    _line(out, (row, c), (row, c + 1), forward=c >= column)
    return out


def _line(
    uses: Counter[Hashable], one: tuple[int, int], other: tuple[int, int], *, forward: bool
) -> None:
    uses["mesh", one if forward else other, other if forward else one] += 1

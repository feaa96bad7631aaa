"""Ranges of memory against regions, up to the largest that a record can name."""

import cocotb

from rtl.ace.memory_port import ADDRESS_BITS
from rtl.ace.regions import Region, Regions
from testbenches import parameters, random_generator
from testbenches.ace_records import encode
from testbenches.bench import Bench

_END = 1 << ADDRESS_BITS

Area = tuple[int, int, int, int]
"""Of a region: its first flit, its last, whether it may be read, and written."""


def _inside(areas: list[Area], first: int, flits: int, use: int) -> bool:
    """In numbers without an end: every flit of the range is one of a region with that use."""
    return flits == 0 or any(
        area[use] and area[0] <= first and first + flits - 1 <= area[1] for area in areas
    )


@cocotb.test(timeout_time=1000, timeout_unit="us")
async def ranges(dut):
    """Corners of sizes, of regions and of the address space, and numbers at random."""
    count, bits = parameters()["regions"], parameters()["flits_bits"]
    largest = (1 << bits) - 1
    generator = random_generator("ranges")
    bench = Bench(dut)
    for name in ("regions", "first", "flits", "more"):
        getattr(dut, name).value = 0
    await bench.reset()
    # Sums that would come out small in 32 bits, in the bits of the field, or with a sign.
    sizes = {0, 1, 2, largest, largest - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1}
    sizes |= {n for n in (_END - 1, _END, _END + 1, 2 * _END - 1, _END // 2) if n <= largest}
    seen = {True: 0, False: 0}
    for turn in range(24):
        areas: list[Area] = []
        for number in range(count):
            base = generator.choice([0, 1, _END // 2, _END - 1, generator.randrange(_END)])
            limit = generator.choice([base, _END - 1, generator.randrange(base, _END)])
            read, write = (1, 0) if number == 0 else (generator.randrange(2), 1)
            areas.append((base, limit, read, write))
        restricted = int(turn > 0)
        word = sum(
            encode(Region, dict(zip(("base", "limit", "read", "write"), area, strict=True)))
            << (number * Region.as_shape().size)
            for number, area in enumerate(areas)
        )
        layout = Regions(count)
        dut.regions.value = restricted | word << layout["regions"].offset
        await bench.step(2)
        for base, limit, *_ in areas:
            places = {0, base, limit, _END - 1, max(base - 1, 0), min(limit + 1, _END - 1)}
            own = {limit - base + 1, limit - base + 2, limit - base, generator.randrange(largest)}
            for first in places:
                for flits in sorted(n for n in sizes | own if n <= largest):
                    for more in (0, 1):
                        dut.first.value = first
                        dut.flits.value = flits
                        dut.more.value = more
                        await bench.step()
                        for use, name in ((2, "may_read"), (3, "may_write")):
                            right = not restricted or _inside(areas, first, flits + more, use)
                            seen[right] += 1
                            found = bool(int(getattr(dut, name).value))
                            assert found == right, (areas, first, flits, more, name)
    assert min(seen.values()) > 1000, seen

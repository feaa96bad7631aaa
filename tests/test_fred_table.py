"""Entries of the configuration memory, and who gets which index."""

import re

import pytest

from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.modes import STRAIGHT, CentreMode
from sw_model.fred.patterns import all_reduce, reduce_scatter
from sw_model.fred.routing import route
from sw_model.fred.table import ConfigurationTable, entry_bits, entry_image, entry_words


def refused(text, error=ValueError):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


def test_the_image_lays_the_fields_side_by_side():
    configuration = route(2, 2, [Flow((0, 1), (1,), "pp", "int32", "max")])
    assert configuration.modes == (CentreMode.ADD_1,)
    # inputs: member, flow 0 twice; outputs: none, then member, flow 0
    # flow 0: class 1, type 3, operator 1; flow 1: none; mode 4
    fields = [(1, 1), (0, 1), (1, 1), (0, 1), (0, 1), (0, 1), (1, 1), (0, 1),
              (1, 2), (3, 3), (1, 2), (0, 7), (4, 4)]  # fmt: skip
    image = shift = 0
    for value, bits in fields:
        image |= value << shift
        shift += bits
    assert entry_bits(2, 2) == shift
    assert entry_image(configuration) == image
    assert entry_words(configuration) == (image,)


def test_equal_flow_sets_share_an_entry():
    table = ConfigurationTable(4, 3)
    ring = [step[0] for step in reduce_scatter(range(4))]
    first = table.add([all_reduce(range(4))[0][0]])
    assert list(first.values()) == [0]
    assert list(table.add(ring).values()) == [1, 2, 3, 4]
    assert table.add(reversed(ring)) == table.add(ring)
    assert len(table.entries) == 5


def test_a_full_memory_is_refused():
    table = ConfigurationTable(4, 3, capacity=3)
    with refused("a configuration memory of 3 entries must not be given 4"):
        table.add([step[0] for step in reduce_scatter(range(4))])


def test_the_number_of_modes_is_checked():
    with refused("a configuration of FRED_2(4) must have 6 modes, not 1"):
        Configuration(4, 2, (), (STRAIGHT,))

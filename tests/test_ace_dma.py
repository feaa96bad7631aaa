"""TX DMA and RX DMA."""

import re

import pytest
from amaranth.lib.wiring import In, Out

from rtl.ace.rx_dma import RxDma
from rtl.ace.tx_dma import TxDma
from sim_top.simulator import simulate
from sw_model.endpoint.timing import ACE_TIMING

TX = {
    "flit_bytes": 16,
    "address_bits": 12,
    "queue_depth": 4,
    "burst_beats": 8,
    "read_beats": 32,
}
RX = {"flit_bytes": 16, "address_bits": 9, "queue_depth": 4, "write_beats": 24}


def test_tx_dma():
    simulate(TxDma(**TX), testbench="testbenches.tb_ace_tx_dma", parameters=TX)


def test_rx_dma():
    timing = {"store_read": ACE_TIMING.store_read, "completion": ACE_TIMING.completion}
    simulate(RxDma(**RX), testbench="testbenches.tb_ace_rx_dma", parameters=RX | timing)


def test_signatures():
    tx, rx = TxDma(**TX).signature.members, RxDma(**RX).signature.members
    assert {n: m.flow for n, m in tx.items() if n in ("load", "memory", "write", "freed")} == {
        "load": In,
        "memory": Out,
        "write": Out,
        "freed": Out,
    }
    assert {n: m.flow for n, m in rx.items() if n in ("store", "memory", "read", "filled")} == {
        "store": In,
        "memory": Out,
        "read": Out,
        "filled": Out,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"burst_beats": 0}, "burst_beats must be an integer in 1..256, not 0"),
        ({"burst_beats": 257}, "burst_beats must be an integer in 1..256, not 257"),
        ({"read_beats": 7}, "read_beats must be at least 8 burst_beats, not 7"),
        ({"queue_depth": 0}, "queue_depth must be a positive integer, not 0"),
    ],
)
def test_tx_parameters(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        TxDma(**TX | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"write_beats": 0}, "write_beats must be a positive integer, not 0"),
        ({"queue_depth": 0}, "queue_depth must be a positive integer, not 0"),
    ],
)
def test_rx_parameters(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        RxDma(**RX | change)

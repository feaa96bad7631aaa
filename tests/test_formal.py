"""Proofs of small blocks, and that each of them fails on a faulty design."""

import re
import shutil
from fractions import Fraction

import pytest
from amaranth.hdl import Assert, Cover, Signal
from amaranth.lib.wiring import In

import rtl.ace.rx_dma
import rtl.ace.tx_dma
import rtl.axi.read_master
import rtl.axi.write_master
import rtl.common.fifo
import rtl.fred.micro_switch
import rtl.fred.scheduler
import rtl.link.link
import rtl.link.receiver
import rtl.link.transmitter
from rtl.axi.parameters import AxiParameters
from sim_top.simulator.toolchain import BuildError
from testbenches.formal.dma import (
    RxDmaStaysInside,
    TxDmaStaysInside,
    WriteMasterStaysInside,
)
from testbenches.formal.fifo import FifoIsAQueue
from testbenches.formal.link import (
    LinkConservesCredits,
    ReceiverReturnsCredits,
    TransmitterIsFair,
)
from testbenches.formal.micro_switch import SMALL_ADDER, MicroSwitchComputesItsMode
from testbenches.formal.property import Property
from testbenches.formal.prove import ProofError, prove
from testbenches.formal.scheduler import SchedulerIsFair, SchedulerIsSafe
from tests.mutants import mutant


class Counter(Property):
    """For the runner's own tests: counts to ``limit``, and says that it stays below ``claim``."""

    def __init__(self, *, limit=5, claim=6, reach=5, path=None):
        self.limit, self.claim, self.reach, self.path = limit, claim, reach, path
        super().__init__({"step": In(1)})

    def state(self, m):
        count = Signal(4)
        with m.If(self.step & (count < self.limit)):
            m.d.sync += count.eq(count + 1)
        m.d.comb += [Assert(count < self.claim), Cover(count == self.reach)]
        if self.path:
            m.d.comb += Assert(self.probe(m, self.path, 4) == count)


def test_a_proof_says_what_it_has_shown():
    proof = prove(Counter(path="count"), mode="bmc", depth=8)
    assert (proof.mode, proof.depth) == ("bmc", 8)
    assert "Checking assertions in step 7" in proof.log


@pytest.mark.parametrize(
    ("changes", "mode", "depth", "message"),
    [
        ({"limit": 6}, "bmc", 8, r"fails: \S*test_formal.py:\d+"),
        ({"reach": 6}, "cover", 9, r"not reached: \S*test_formal.py:\d+"),
        # From 7, which cannot be reached but is not excluded, a step leads out.
        ({"limit": 8, "claim": 8}, "prove", 2, r"the induction does not close: .*py:\d+\S*"),
    ],
)
def test_what_does_not_hold_is_named(changes, mode, depth, message):
    with pytest.raises(ProofError, match=rf"^{message}; see \S+$"):
        prove(Counter(**changes), mode=mode, depth=depth)


class Ring(Property):
    """Three bits that turn in some cycles, from ``init``; says that no neighbours are both set."""

    def __init__(self, init):
        self.init = init
        super().__init__({"go": In(1)})

    def state(self, m):
        ring = Signal(3, init=self.init)
        with m.If(self.go):
            m.d.sync += ring.eq(ring.rotate_left(1))
        m.d.comb += [Assert(~ring.all()), Assert(~(ring[0] & ring[1]))]


def test_an_invariant_is_found_where_no_induction_closes():
    """From 110, which is not excluded, two steps lead out, after as many that stand still."""
    with pytest.raises(ProofError, match=r"^the induction does not close"):
        prove(Ring(1), mode="prove", depth=4)
    always(Ring(1))


@pytest.mark.parametrize(("init", "cycle"), [(7, 0), (5, 1), (6, 2)])
def test_what_does_not_hold_for_ever_fails_in_a_cycle(init, cycle):
    with pytest.raises(ProofError, match=rf"^fails: in cycle {cycle}; see \S+$"):
        always(Ring(init))


def test_a_probe_that_names_nothing_is_an_error():
    with pytest.raises(BuildError, match=r"parse set rhs expression .*nowhere"):
        prove(Counter(path="nowhere"), mode="bmc", depth=2)


def test_the_mode_must_be_known():
    message = "mode must be one of ('prove', 'invariant', 'bmc', 'cover'), not 'live'"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        prove(Counter(), mode="live", depth=2)


def proved(wrapper, depth, covered):
    prove(wrapper, mode="prove", depth=depth)
    prove(wrapper, mode="cover", depth=covered)


def always(wrapper):
    """For all times, whatever an induction would have to know."""
    if shutil.which("berkeley-abc") is None and shutil.which("yosys-abc") is None:
        pytest.skip("the Debian package berkeley-abc is not installed")
    prove(wrapper, mode="invariant")


# The stream buffer


def fifo(module, depth, shape=2):
    return FifoIsAQueue(module.StreamFifo(shape=shape, depth=depth))


@pytest.mark.parametrize(
    "depth", [3, *(pytest.param(d, marks=pytest.mark.full) for d in (1, 2, 4, 5, 8, 17))]
)
def test_a_stream_fifo_is_a_queue(depth):
    proved(fifo(rtl.common.fifo, depth), 2, 2 * depth + 2)


FIFO_FAULTS = [
    ("(pop & (level == 1))", "(pop & (level == 2))"),
    ("m.d.sync += came_directly.eq(direct)", "m.d.sync += came_directly.eq(1)"),
    ("Mux(push, within, without)", "Mux(push, level + 1, without)"),
    ("level != self.depth)", "level != self.depth - 1)"),
    ("write.en.eq(self.i.ready if", "write.en.eq(self.i.ready & (level != 2) if"),
]


@pytest.mark.parametrize(
    ("old", "new"),
    [FIFO_FAULTS[0], *(pytest.param(*fault, marks=pytest.mark.full) for fault in FIFO_FAULTS[1:])],
)
def test_a_faulty_stream_fifo_is_none(old, new):
    with pytest.raises(ProofError, match=r"^fails: "):
        prove(fifo(mutant("rtl.common.fifo", old, new), 3), mode="bmc", depth=9)


@pytest.mark.full
def test_a_faulty_memory_of_a_stream_fifo_is_none():
    faulty = mutant("rtl.common.fifo", "else push & (level != 0)", "else push & (level != 2)")
    with pytest.raises(ProofError, match=r"^fails: "):
        prove(fifo(faulty, 17), mode="bmc", depth=9)


# Credits


def receiver(module=rtl.link.receiver, depth=3):
    return ReceiverReturnsCredits(module.LinkReceiver(flit_bytes=16, depth=depth))


@pytest.mark.parametrize(
    "depth", [3, *(pytest.param(d, marks=pytest.mark.full) for d in (1, 2, 8))]
)
def test_an_input_buffer_never_overflows_and_returns_its_credits(depth):
    proved(receiver(depth=depth), 2, 2 * depth + 4)


RECEIVER_FAULTS = [
    ("credit[c].eq(o.valid & o.ready)", "credit[c].eq(o.ready)"),
    ("credit[c].eq(o.valid & o.ready)", "credit[c].eq(buffer.i.valid)"),
]


@pytest.mark.full
@pytest.mark.parametrize(("old", "new"), RECEIVER_FAULTS)
def test_a_faulty_input_buffer_does(old, new):
    with pytest.raises(ProofError, match=r"^fails: "):
        prove(receiver(mutant("rtl.link.receiver", old, new)), mode="bmc", depth=9)


def link(latency, credits):
    return LinkConservesCredits(
        rtl.link.link.Link(flit_bytes=16, rate=Fraction(1), latency=latency, credits=credits)
    )


@pytest.mark.parametrize(
    ("latency", "credits"), [(1, 3), pytest.param(2, 4, marks=pytest.mark.full)]
)
def test_a_link_conserves_its_credits(latency, credits):
    proved(link(latency, credits), latency + 2, 2 * latency + 2 * credits + 4)


@pytest.mark.full
def test_a_longer_link_conserves_its_credits():
    """Its flight is a memory, whose fill the induction does not know."""
    always(link(4, 5))


LINK_FAULTS = [
    ("Transmitter", "take[c] != self.o.credit[c]", "take[c] | self.o.credit[c]"),
    ("Receiver", "credit[c].eq(o.valid & o.ready)", "credit[c].eq(o.ready)"),
    ("Delay", "self._delay_pulses(m, pulses, self.latency - 1)", "pulses"),
]


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [LINK_FAULTS[0], *(pytest.param(*fault, marks=pytest.mark.full) for fault in LINK_FAULTS[1:])],
)
def test_a_faulty_link_does_not(monkeypatch, part, old, new):
    faulty = getattr(mutant(f"rtl.link.{part.lower()}", old, new), f"Link{part}")
    monkeypatch.setattr(rtl.link.link, f"Link{part}", faulty)
    with pytest.raises(ProofError, match=r"^fails: "):
        prove(link(2, 3), mode="bmc", depth=10)


def transmitter(module, channels, bound):
    return TransmitterIsFair(
        module.LinkTransmitter(
            flit_bytes=16,
            credits=2,
            rate=Fraction(1),
            channels=channels,
            starvation_bound=bound,
        )
    )


@pytest.mark.parametrize("bound", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_transmitter_is_fair(bound):
    """For all times; and some channel does wait for as many packets as the bound says."""
    always(transmitter(rtl.link.transmitter, 3, bound))
    prove(transmitter(rtl.link.transmitter, 3, bound), mode="cover", depth=9)


TRANSMITTER_FAULTS = [
    # Two channels that are due in turn would keep out the third.
    ("Mux((due & behind).any(), due & behind, due)", "due"),
    ("urgent[c].eq(passed == self.starvation_bound)", "urgent[c].eq(0)"),
]


@pytest.mark.parametrize(
    ("old", "new"),
    [TRANSMITTER_FAULTS[0], pytest.param(*TRANSMITTER_FAULTS[1], marks=pytest.mark.full)],
)
def test_an_unfair_transmitter_is_found(old, new):
    with pytest.raises(ProofError, match=r"^fails: "):
        always(transmitter(mutant("rtl.link.transmitter", old, new), 3, 1))


# The micro-switches


def micro_switch(kind, copies=3, adder_depth=1, module=rtl.fred.micro_switch):
    adder = {**SMALL_ADDER, "adder_depth": adder_depth}
    size = {"middle_copies": copies, "flit_bytes": SMALL_ADDER["flit_bytes"]}
    design = {
        "R": lambda: module.ReduceSwitch(middle_copies=copies, **adder),
        "D": lambda: module.DistributeSwitch(**size),
        "RD": lambda: module.ReduceDistributeSwitch(**adder),
        "demux": lambda: module.Demultiplexer(adder_depth=adder_depth, **size),
        "mux": lambda: module.Multiplexer(**size),
    }[kind]()
    return MicroSwitchComputesItsMode(kind, design), design.latency


@pytest.mark.parametrize(
    ("kind", "copies", "adder_depth"),
    [
        ("R", 2, 1),
        *(
            pytest.param(kind, copies, adder_depth, marks=pytest.mark.full)
            for kind, copies, adder_depth in [
                ("R", 3, 2), ("R", 5, 1), ("R", 2, 3), ("RD", 2, 1), ("RD", 2, 2), ("RD", 2, 3),
                ("D", 2, 1), ("D", 3, 1), ("D", 5, 1), ("demux", 2, 1), ("demux", 3, 2),
                ("mux", 2, 1), ("mux", 5, 1),
            ]
        ),
    ],
)  # fmt: skip
def test_a_micro_switch_computes_its_mode(kind, copies, adder_depth):
    wrapper, latency = micro_switch(kind, copies, adder_depth)
    proved(wrapper, latency + 1, latency + 1)


MICRO_SWITCH_FAULTS = [
    # a way that is one off, a lost and a doubled flit, a header that is summed, a mode too early
    ("R", "side == way + 1", "side == way"),
    ("R", "with m.If(around[0].valid & around[1].valid):", "with m.If(around[0].valid):"),
    ("RD", "CentreMode.ADD_BOTH: (both, both)", "CentreMode.ADD_BOTH: (both, first)"),
    ("RD", "CentreMode.CROSS: (second, first)", "CentreMode.CROSS: (second, second)"),
    ("RD", "with m.If(around[0].flit.head):", "with m.If(0):"),
    ("RD", "chosen = register", "chosen = source"),
    ("D", "self.mode[side], output,", "self.mode[0], output,"),
    ("demux", "mode = register", "mode = self.mode"),
]


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        MICRO_SWITCH_FAULTS[0],
        *(pytest.param(*fault, marks=pytest.mark.full) for fault in MICRO_SWITCH_FAULTS[1:]),
    ],
)
def test_a_faulty_micro_switch_does_not(kind, old, new):
    faulty = mutant("rtl.fred.micro_switch", old, new)
    wrapper, latency = micro_switch(kind, module=faulty)
    with pytest.raises(ProofError, match=r"^fails: "):
        prove(wrapper, mode="bmc", depth=latency + 2)


# The scheduler of a FRED switch: flows of two ports as inputs, outputs, channel

PAIR, STRAIGHT, CROSS = (
    [((0, 1), (0, 1), 0)],
    [((0,), (0,), 0), ((1,), (1,), 0)],
    [((0,), (1,), 0), ((1,), (0,), 0)],
)
ONE_CLASS = (PAIR, CROSS, STRAIGHT)
TWO_CLASSES = (PAIR, [((0,), (1,), 0), ((1,), (0,), 1)], [((0, 1), (1,), 1)])
THREE_CLASSES = tuple([((0, 1), (0, 1), channel)] for channel in range(3))


def two_flows(channels):
    """Each class alone, with two flows, which may start in one cycle."""
    return tuple([((0,), (0,), c), ((1,), (1,), c)] for c in range(channels))


def scheduler(channels, bound=1, module=rtl.fred.scheduler):
    return module.FlowScheduler(
        ports=2, most_flits=3, credits=4, channels=channels, starvation_bound=bound
    )


@pytest.mark.parametrize(
    ("channels", "configurations", "covered"),
    [(2, TWO_CLASSES, 9), pytest.param(1, ONE_CLASS, 12, marks=pytest.mark.full)],
)
def test_a_scheduler_starts_what_may_start(channels, configurations, covered):
    """For all times."""
    always(SchedulerIsSafe(scheduler(channels), configurations))
    prove(SchedulerIsSafe(scheduler(channels), configurations), mode="cover", depth=covered)


FAIR = [
    # channels, starvation bound, configurations, cycles until a class has waited for the bound
    (2, 1, TWO_CLASSES, 5),
    (2, 2, TWO_CLASSES, 9),
    (2, 1, two_flows(2), 5),
    (2, 2, two_flows(2), 11),
    (3, 1, THREE_CLASSES, 14),
    (3, 1, two_flows(3), 14),
]


@pytest.mark.parametrize(
    ("channels", "bound", "configurations", "covered"),
    [*FAIR[2:3], *(pytest.param(*c, marks=pytest.mark.full) for c in FAIR if c is not FAIR[2])],
)
def test_a_scheduler_is_fair(channels, bound, configurations, covered):
    """For all times; and some class does wait for as many packets as the bound says."""
    always(SchedulerIsFair(scheduler(channels, bound), configurations))
    prove(
        SchedulerIsFair(scheduler(channels, bound), configurations),
        mode="cover",
        depth=covered,
        timeout_seconds=1800,
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        # two configurations at once, headers that differ, no credit, a flit too many, a busy port
        ("scheduler", "(~busy & (chosen", "((chosen"),
        ("matcher", "complete[p] & aligned[p] &", "complete[p] &"),
        ("matcher", "(~packet.outputs | covered).all()", "1"),
        ("scheduler", "last.eq(left == 2)", "last.eq(left == 3)"),
        ("scheduler", "ready[k] & (~head.payload.inputs | port_free).all()", "ready[k]"),
    ],
)
def test_an_unsafe_scheduler_is_found(monkeypatch, part, old, new):
    faulty = mutant(f"rtl.fred.{part}", old, new)
    module = faulty
    if part == "matcher":
        monkeypatch.setattr(rtl.fred.scheduler, "FlowMatcher", faulty.FlowMatcher)
        module = rtl.fred.scheduler
    with pytest.raises(ProofError, match=r"^fails: "):
        always(SchedulerIsSafe(scheduler(1, module=module), ONE_CLASS))


UNFAIR = [
    (
        2,
        TWO_CLASSES,
        "for chosen, due in ((early, waits & overdue), (turn, waits & urgent)):",
        "for chosen, due in ((early, Const(0)), (turn, Const(0))):",
    ),
    # Those that have started in the cycle before are never counted.
    (2, TWO_CLASSES, "left.eq(Mux(urgent[c], 0, left - passed))", "left.eq(left)"),
    # Two channels that are due in turn would keep out the third.
    (3, THREE_CLASSES, "Mux((due & behind).any(), due & behind, due)", "due"),
]


@pytest.mark.parametrize(
    ("channels", "configurations", "old", "new"),
    [UNFAIR[0], *(pytest.param(*fault, marks=pytest.mark.full) for fault in UNFAIR[1:])],
)
def test_an_unfair_scheduler_is_found(channels, configurations, old, new):
    faulty = scheduler(channels, module=mutant("rtl.fred.scheduler", old, new))
    with pytest.raises(ProofError, match=r"^fails: "):
        always(SchedulerIsFair(faulty, configurations))


# The DMA stays within base and length

AXI = AxiParameters(burst_beats=2, reads=2, writes=2, gather_cycles=1)


def tx(dma=rtl.ace.tx_dma, master=None, queue=1, **options):
    """With an AXI master behind it where there is one."""
    return TxDmaStaysInside(
        dma.TxDma(flit_bytes=2, address_bits=6, queue_depth=queue, burst_beats=2, read_beats=4),
        None if master is None else master.AxiReadMaster(flit_bytes=2, axi=AXI),
        **options,
    )


def rx(dma=rtl.ace.rx_dma, queue=1, **options):
    return RxDmaStaysInside(
        dma.RxDma(flit_bytes=2, address_bits=6, queue_depth=queue, write_beats=4), **options
    )


def writes(master=rtl.axi.write_master):
    return WriteMasterStaysInside(master.AxiWriteMaster(flit_bytes=2, axi=AXI))


@pytest.mark.full
def test_tx_dma_reads_only_what_its_records_name():
    """For all times and all records, as far as the AXI bursts."""
    prove(tx(master=rtl.axi.read_master, inside=True), mode="prove", depth=2, timeout_seconds=1800)
    prove(tx(master=rtl.axi.read_master), mode="cover", depth=12)


def test_rx_dma_writes_only_what_its_records_name():
    """For all times and all records, byte by byte, as far as the memory port."""
    prove(rx(inside=True), mode="prove", depth=2, timeout_seconds=1800)
    prove(rx(), mode="cover", depth=10)


@pytest.mark.full
def test_write_bursts_write_only_what_was_asked_for_some_cycles():
    """Between the port and the bursts lie buffers that an induction would have to know; bursts of
    both lengths end within these cycles."""
    prove(writes(), mode="bmc", depth=6)
    prove(writes(), mode="cover", depth=9)


#: Wrapper, module, depth, and a fault of the module with which the DMA leaves its bounds: a burst
#: that is always whole, addresses in memory and in SRAM that are one too far; a record of one flit
#: that goes on, strobes of the first and of the last byte; a burst beyond its request, across a
#: page; one that holds what does not follow, one whose last beat comes late.
DMA_FAULTS = [
    ("tx", "ace.tx_dma", 4, "beats.eq(Mux(last_burst,", "beats.eq(Mux(0,"),
    ("tx", "ace.tx_dma", 5, "request.payload.address.eq(", "request.payload.address.eq(1 + "),
    ("tx", "ace.tx_dma", 6, "current.sram_address + index)", "current.sram_address + index + 1)"),
    ("rx", "ace.rx_dma", 8, " last.eq(", " last.eq((index != 0) & "),
    ("rx", "ace.rx_dma", 8, "Mux(index == 0, record.shift, 0)", "0"),
    ("rx", "ace.rx_dma", 8, "(result.tag.end > number)", "(result.tag.end >= number)"),
    ("ar", "axi.read_master", 6, "Mux(remaining < limit, remaining, limit)", "limit"),
    ("ar", "axi.read_master", 7, "Mux(left < most, left, most)", "most"),
    ("aw", "axi.write_master", 7, "(taken & ~continues)", "(taken & 0)"),
    ("aw", "axi.write_master", 7, "beat + 1 == sending.o.payload)",
     "beat == sending.o.payload)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wrapper", "module", "depth", "old", "new"),
    [
        pytest.param(*fault, marks=() if fault in DMA_FAULTS[3:4] else pytest.mark.full)
        for fault in DMA_FAULTS
    ],
)
def test_a_faulty_dma_leaves_its_bounds(wrapper, module, depth, old, new):
    faulty = mutant(f"rtl.{module}", old, new)
    design = {
        "tx": lambda: tx(faulty),
        "rx": lambda: rx(faulty),
        "ar": lambda: tx(master=faulty),
        "aw": lambda: writes(faulty),
    }[wrapper]()
    with pytest.raises(ProofError, match=r"^fails: "):
        prove(design, mode="bmc", depth=depth)

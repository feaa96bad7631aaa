"""The training loop against a backend of closed-form durations."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Sequence
from fractions import Fraction

import pytest

from sw_model.backend import Completion
from sw_model.collective.plan import Collective, Operation
from sw_model.errors import DeadlockError, InputError
from sw_model.results import union_length
from sw_model.topology import Dim, DimKind, Topology
from sw_model.training import to_cycles, train
from sw_model.workload import astra_text
from sw_model.workload.layers import Pass
from sw_model.workload.spans import collectives_of
from sw_model.workload.variation import Variation

TOPOLOGY = Topology(
    (
        Dim(DimKind.RING, 2, Fraction(20 * 10**9), 0),
        Dim(DimKind.FRED, 2, Fraction(15 * 10**9), 0),
    )
)
#: One cycle is one nanosecond.
CLOCK = 10**9


class FakeBackend:
    """One collective at a time, in order of entry, one cycle per element, once all are there."""

    def __init__(self, representatives: Sequence[int] = (0,), start: int = 0) -> None:
        self.now = start
        self.representatives = representatives
        self.issued: list[tuple[int, str, tuple[int, ...]]] = []
        self.lost: set[int] = set()
        self._entries: list[tuple[Collective, set[int]]] = []
        self._position = dict.fromkeys(representatives, 0)
        self._ends: list[int] = []

    def issue(self, collective: Collective, ranks: Sequence[int]) -> int:
        self.issued.append((self.now, collective.name, tuple(ranks)))
        numbers = {self._position[rank] for rank in ranks}
        assert len(numbers) == 1, "one call names ranks of one collective"
        number = numbers.pop()
        if number == len(self._entries):
            self._entries.append((collective, set()))
        assert self._entries[number][0] is collective
        for rank in ranks:
            self._position[rank] += 1
            self._entries[number][1].add(rank)
        if self._entries[number][1] == set(self.representatives):
            assert number == len(self._ends)
            begin = max([self.now, *self._ends[-1:]])
            self._ends.append(begin + collective.elements)
        return number

    async def wait(self, until: int | None) -> list[Completion]:
        ends = [
            end
            for number, end in enumerate(self._ends)
            if end > self.now and number not in self.lost
        ]
        if not ends and until is None:
            return []
        self.now = min(ends + ([] if until is None else [until]))
        return [
            Completion(number, rank, self.now)
            for number, end in enumerate(self._ends)
            if end == self.now and number not in self.lost
            for rank in self.representatives
        ]


def workload(*lines: str, header: str = "DATA"):
    return astra_text.parse("\n".join([header, str(len(lines)), *lines]))


def run(work, backend, **options):
    options = {"iterations": 1, "clock_hz": CLOCK} | options
    return asyncio.run(train(work, TOPOLOGY, backend, **options))


#: name, forward 10 and 20, input gradient 11 and 21, weight gradient 12 and 22; 50 and 30 elements.
TWO_LAYERS = workload(
    "a -1 10 NONE 0 11 NONE 0 12 ALLREDUCE 100 3",
    "b -1 20 NONE 0 21 NONE 0 22 ALLREDUCE 60 2",
)


def test_one_iteration_by_hand() -> None:
    backend = FakeBackend()
    result = run(TWO_LAYERS, backend)
    # Forward 10 + 20; weights of b until 52, issued; input gradient of b until 73, weights of a
    # until 85, issued. b's collective 52..82, a's 85..135; the updates end at 84 and 138.
    assert backend.issued == [(52, "b weight gradient", (0,)), (85, "a weight gradient", (0,))]
    assert result.total == 138
    assert result.iterations == (138,)
    latest = result.latest
    assert (latest.compute, latest.exposed, latest.update) == (85, 50, 3)
    a, b = result.layers
    assert (a.compute, a.communication, a.exposed, a.update, a.bytes) == (22, 50, 50, 3, 100)
    assert (b.compute, b.communication, b.exposed, b.update, b.bytes) == (63, 30, 0, 0, 60)


def test_second_iteration_waits_for_the_first_ones_gradients() -> None:
    result = run(TWO_LAYERS, FakeBackend(), iterations=2)
    # The rank waits from 85 until 135 for a, until 138 for its update, and begins again.
    assert result.iterations == (138, 138)
    assert result.total == 276
    assert result.latest.exposed == 100
    assert [(c.iteration, c.layer, c.cycles) for c in result.collectives] == [
        (0, 1, 30),
        (0, 0, 50),
        (1, 1, 30),
        (1, 0, 50),
    ]


def test_time_is_counted_from_the_start_of_the_run() -> None:
    late = run(TWO_LAYERS, FakeBackend(start=1000))
    assert late == run(TWO_LAYERS, FakeBackend())


def test_intervals_make_up_the_whole_time_of_a_rank() -> None:
    result = run(TWO_LAYERS, FakeBackend(), iterations=3)
    own = [i for i in result.intervals if i.kind != "communication"]
    assert own[0].start == 0
    assert own[-1].end == result.total
    assert all(a.end == b.start for a, b in itertools.pairwise(own))


def test_update_of_a_collective_that_ended_long_ago_is_hidden() -> None:
    work = workload(
        "a -1 10 NONE 0 0 NONE 0 10 ALLREDUCE 2 1000",
        "b -1 500 NONE 0 0 NONE 0 500 ALLREDUCE 2 3",
    )
    result = run(work, FakeBackend(), iterations=2)
    # a's update of iteration 1 is waited for at once, b's has ended while a computed.
    assert [i.layer for i in result.intervals if i.kind == "update"] == [0, 0]


def test_ranks_that_are_alike_enter_together() -> None:
    backend = FakeBackend(representatives=(0, 1, 2, 3))
    result = run(TWO_LAYERS, backend, iterations=2)
    assert [ranks for _, _, ranks in backend.issued] == [(0, 1, 2, 3)] * 4
    assert len({(r.finish, r.compute, r.exposed) for r in result.ranks}) == 1
    assert result.total == run(TWO_LAYERS, FakeBackend(), iterations=2).total


def test_a_straggler_delays_the_others() -> None:
    backend = FakeBackend(representatives=(0, 1))
    result = run(TWO_LAYERS, backend, variation=Variation(compute_scale={1: Fraction(2)}))
    # Rank 1 computes 170 and enters a's collective then, rank 0 at 85; ends at 170 + 50.
    assert backend.issued == [
        (52, "b weight gradient", (0,)),
        (85, "a weight gradient", (0,)),
        (104, "b weight gradient", (1,)),
        (170, "a weight gradient", (1,)),
    ]
    fast, slow = result.ranks
    assert (slow.compute, slow.exposed, slow.update, slow.finish) == (170, 50, 6, 226)
    assert (fast.compute, fast.exposed, fast.update, fast.finish) == (85, 135, 3, 223)
    assert result.latest is slow
    assert result.collectives[1].first_issue == 85
    assert result.collectives[1].last_issue == 170
    assert result.collectives[1].cycles == 50


def test_activations_are_awaited_at_once_and_weights_are_not() -> None:
    work = workload(
        "a -1 10 ALLREDUCE 20 10 ALLREDUCE 40 10 ALLREDUCE 60 0",
        "b -1 10 ALLGATHER 20 10 REDUCESCATTER 40 10 NONE 0 0",
        header="HYBRID_DATA_MODEL",
    )
    collectives = collectives_of(work, TOPOLOGY, "fp16")
    assert {key: c.dims for key, c in collectives.items()} == {
        (0, Pass.FORWARD): (0,),
        (0, Pass.INPUT_GRADIENT): (0,),
        (0, Pass.WEIGHT_GRADIENT): (1,),
        (1, Pass.FORWARD): (0,),
        (1, Pass.INPUT_GRADIENT): (0,),
    }
    assert collectives[1, Pass.INPUT_GRADIENT].operation is Operation.REDUCE_SCATTER
    backend = FakeBackend()
    result = run(work, backend)
    # Forward: 10 + (10) + 10 + (10). Backward b: 10, issue 20 elements at 50, weights until 60,
    # wait until 70. a: 10; the first layer sends no input gradient; weights until 90, issue 30.
    assert [cycle for cycle, _, _ in backend.issued] == [10, 30, 50, 90]
    assert (result.total, result.latest.exposed) == (120, 10 + 10 + 10 + 30)


def test_checkpoints_compute_forward_again() -> None:
    lines = [f"l{i} -1 1 NONE 0 10 NONE 0 100 NONE 0 0" for i in range(4)]
    header = (
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 "
        "checkpoints: 2 0 2 checkpoint_initiates: 2 3 1"
    )
    result = run(workload(*lines, header=header), FakeBackend())
    # 4 forward, 4 x (10 + 100) backward, and again layer 2 (before 3) and layer 0 (before 1).
    assert result.total == 4 + 440 + 2


def test_dlrm_overlaps_the_embeddings_exchange_with_the_bottom_layers() -> None:
    work = workload(
        "emb -1 1 ALLTOALL 20 1 ALLTOALL 20 1 NONE 0 0",
        "bot -1 4 NONE 0 1 NONE 0 1 NONE 0 0",
        "top -1 1 NONE 0 1 NONE 0 1 NONE 0 0",
        header="HYBRID_DLRM 1",
    )
    backend = FakeBackend()
    result = run(work, backend)
    # Exchange 1..11, awaited from 5; top until 12; weights, input of top until 14, exchange
    # 14..24; bottom until 16, awaited until 24; embedding until 25.
    assert [cycle for cycle, _, _ in backend.issued] == [1, 14]
    assert (result.total, result.latest.exposed) == (25, 14)


def test_a_forward_only_micro_line_runs() -> None:
    work = workload("a -1 5 ALLREDUCE 20 5 NONE 0 5 NONE 0 0", header="MICRO")
    result = run(work, FakeBackend(), iterations=2)
    assert (result.total, result.iterations) == (20, (10, 10))
    assert result.latest.compute == 0


def test_nothing_to_send_is_not_sent() -> None:
    alone = Topology((Dim(DimKind.RING, 1, Fraction(1), 0),))
    assert collectives_of(TWO_LAYERS, alone, "fp16") == {}
    empty = workload("a -1 10 NONE 0 11 NONE 0 12 ALLREDUCE 0 3")
    assert collectives_of(empty, TOPOLOGY, "fp16") == {}
    assert run(empty, FakeBackend()).total == 22


def test_deadlock_names_what_is_waited_for() -> None:
    backend = FakeBackend(representatives=(0, 1))
    backend.lost = {1}
    with pytest.raises(DeadlockError) as caught:
        run(TWO_LAYERS, backend)
    assert str(caught.value) == (
        "nothing can happen any more\n"
        "rank 0, iteration 1, waits for the all-reduce 'a weight gradient' of 50 fp16 elements, "
        "entered in cycle 85\n"
        "rank 1, iteration 1, waits for the all-reduce 'a weight gradient' of 50 fp16 elements, "
        "entered in cycle 85"
    )


def test_a_backends_own_deadlock_message_is_kept() -> None:
    class Stuck(FakeBackend):
        async def wait(self, until: int | None) -> list[Completion]:
            if until is None:
                raise DeadlockError("endpoint 3 waits for a credit on dim 1")
            return await super().wait(until)

    with pytest.raises(DeadlockError, match="endpoint 3 waits for a credit on dim 1\nrank 0, iter"):
        run(TWO_LAYERS, Stuck())


def test_a_backend_that_mixes_numbers_up_is_caught() -> None:
    class Confused(FakeBackend):
        def issue(self, collective: Collective, ranks: Sequence[int]) -> int:
            super().issue(collective, ranks)
            return 0

    with pytest.raises(RuntimeError, match="gave number 0 to two collectives: 'b weight gradient'"):
        run(TWO_LAYERS, Confused())


def test_progress_rises_to_one() -> None:
    seen: list[float] = []
    run(TWO_LAYERS, FakeBackend(), iterations=2, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": 0}, "iterations must be at least 1, not 0"),
        ({"clock_hz": 0}, "clock_hz must be at least 1, not 0"),
        (
            {"variation": Variation(compute_scale={5: Fraction(2)})},
            "compute_scale must name ranks that the backend simulates, not rank 5",
        ),
    ],
)
def test_wrong_parameters(options, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        run(TWO_LAYERS, FakeBackend(), **options)


def test_payload_of_no_whole_elements() -> None:
    with pytest.raises(InputError) as caught:
        run(workload("a -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 7 0"), FakeBackend())
    assert str(caught.value) == (
        "<text>:3: the weight gradient communication of layer 'a' must be a multiple of 2 bytes, "
        "one fp16 element, not 7"
    )


def test_to_cycles_rounds_to_nearest() -> None:
    assert [to_cycles(ns, 1_250_000_000) for ns in (0, 1, 2, 3, 4)] == [0, 1, 3, 4, 5]
    assert to_cycles(Fraction(1, 5), 1_250_000_000) == 0
    assert to_cycles(Fraction(2, 5), 1_250_000_000) == 1


def test_union_length() -> None:
    assert union_length([]) == 0
    assert union_length([(0, 10), (2, 5), (8, 12), (20, 21)]) == 13


def test_jitter_is_reproducible_and_within_its_bounds() -> None:
    """Drawn from seed, rank and place: not from the order of the simulation."""
    one = Variation(jitter=Fraction(1, 10), seed=7)
    factors = [one.factor(rank, "pass", place) for rank in range(4) for place in range(500)]
    assert factors == [
        Variation(jitter=Fraction(1, 10), seed=7).factor(rank, "pass", place)
        for rank in range(4)
        for place in range(500)
    ]
    assert len(set(factors)) == len(factors)
    assert all(Fraction(9, 10) <= factor < Fraction(11, 10) for factor in factors)
    # Uniform: the mean of 2,000 has a standard deviation of 0.1 / sqrt(3 x 2,000) = 0.0013.
    assert abs(float(sum(factors) / len(factors)) - 1) < 0.005
    other = Variation(jitter=Fraction(1, 10), seed=8)
    assert other.factor(0, "pass", 0) != factors[0]
    slow = Variation(jitter=Fraction(1, 10), seed=7, compute_scale={2: Fraction(3)})
    assert slow.factor(2, "pass", 5) == 3 * one.factor(2, "pass", 5)
    assert not Variation(compute_scale={1: Fraction(1)})
    assert one
    assert slow


@pytest.mark.parametrize("jitter", [Fraction(-1, 10), Fraction(1)])
def test_wrong_jitter(jitter) -> None:
    with pytest.raises(ValueError, match=r"jitter must be at least 0 and below 1, not "):
        Variation(jitter=jitter)


def test_wrong_scale() -> None:
    with pytest.raises(ValueError, match="compute_scale of rank 0 must be positive, not "):
        Variation(compute_scale={0: Fraction(0)})


def test_jitter_in_the_loop() -> None:
    """Every pass takes its own factor, to the nearest cycle."""
    variation = Variation(jitter=Fraction(1, 4), seed=3)
    backend = FakeBackend((0, 1))
    result = run(TWO_LAYERS, backend, variation=variation)
    passes = [i for i in result.intervals if i.kind == "compute" and i.rank == 1]
    for number, interval in enumerate(passes):
        nominal = TWO_LAYERS.layers[interval.layer].compute_ns(interval.part)
        expected = to_cycles(nominal * variation.factor(1, "pass", number), 10**9)
        assert interval.end - interval.start == expected
    assert passes

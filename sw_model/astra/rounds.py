"""Collectives message by message: what the closed forms of `sw_model.astra.cost` leave out.

An algorithm is a list of rounds for every member. In a round a member waits the endpoint delay,
sends, and goes on when everything it expects has come and been reduced; the endpoint delay stands
once more at the end. Without congestion this takes exactly the closed form.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from sw_model.astra.cost import reduction_ns
from sw_model.astra.links import Aware, Carrier
from sw_model.astra.system import AlgorithmName, SystemConfig
from sw_model.collective.plan import Operation
from sw_model.engine import EventKernel
from sw_model.topology import Topology

__all__ = ["LiveCollective", "Round", "congested_ns", "rounds_of"]


@dataclass(frozen=True)
class Round:
    """One member's part of one round.

    Parameters
    ----------
    peers : members (by place in the group) that it sends to
    size : bytes of each message
    expected : messages that must come
    reduced : bytes reduced at the end
    """

    peers: tuple[int, ...]
    size: int
    expected: int
    reduced: int = 0


def rounds_of(
    operation: Operation, algorithm: AlgorithmName, members: int, size: int, place: int
) -> list[Round]:
    """The rounds of the member at ``place``; see `sw_model.astra.cost.phase_ns`."""
    shard = size // members
    gathers = operation is not Operation.REDUCE_SCATTER
    scatters = operation in (Operation.REDUCE_SCATTER, Operation.ALL_REDUCE)
    own = size if operation is Operation.ALL_GATHER else shard
    if algorithm is AlgorithmName.HALVING_DOUBLING:
        return _halving_doubling(members, size, own, place, scatters, gathers)
    if algorithm is AlgorithmName.DIRECT:
        others = tuple((place + i) % members for i in range(1, members))
        out = [Round(others, shard, members - 1, shard)] if scatters else []
        return out + ([Round(others, own, members - 1)] if gathers else [])
    if algorithm is AlgorithmName.RING:
        following = ((place + 1) % members,)
        if operation is Operation.ALL_TO_ALL:
            return [Round(following, shard, 1)] * (members * (members - 1) // 2)
        out = [Round(following, shard, 1, shard)] * (members - 1) if scatters else []
        return out + ([Round(following, own, 1)] * (members - 1) if gathers else [])
    raise ValueError(f"algorithm must be ring, direct or halvingDoubling, not {algorithm.value}")


def _halving_doubling(
    members: int, size: int, own: int, place: int, scatters: bool, gathers: bool
) -> list[Round]:
    steps = members.bit_length() - 1
    out = []
    if scatters:
        for i in range(1, steps + 1):
            peer = (place ^ (members >> i),)
            out.append(Round(peer, size >> i, 1, size >> i if i > 1 else 0))
    if gathers:
        out += [Round((place ^ (1 << i),), own << i, 1) for i in range(steps)]
    return out


class _Member:
    """One rank that carries out one chunk after another, at most ``active`` at a time."""

    def __init__(self, run: LiveCollective, place: int) -> None:
        self.run = run
        self.place = place
        self.rounds = rounds_of(run.operation, run.algorithm, len(run.ranks), run.chunk, place)
        self.waiting = deque(range(run.chunks))
        self.at = [0] * run.chunks
        self.sent = [False] * run.chunks
        self.got: dict[tuple[int, int], int] = {}

    def begin(self, _: object = None) -> None:
        if self.waiting:
            self._enter(self.waiting.popleft())

    def _enter(self, chunk: int) -> None:
        self.run.kernel.after(self.run.system.endpoint_delay, self._send, chunk)

    def _send(self, chunk: int) -> None:
        index = self.at[chunk]
        if index == len(self.rounds):
            self.run.ended()
            self.begin()
            return
        self.sent[chunk] = True
        step, ranks = self.rounds[index], self.run.ranks
        for peer in step.peers:
            there = self.run.members[peer]
            self.run.carrier.send(
                ranks[self.place], ranks[peer], step.size, there.receive, (chunk, index)
            )
        self._settle(chunk)

    def receive(self, message: tuple[int, int]) -> None:
        self.got[message] = self.got.get(message, 0) + 1
        self.run.come()
        self._settle(message[0])

    def _settle(self, chunk: int) -> None:
        """End the round of ``chunk`` once it has sent and got everything."""
        index = self.at[chunk]
        if not self.sent[chunk] or self.got.get((chunk, index), 0) < self.rounds[index].expected:
            return
        self.sent[chunk] = False
        del self.got[chunk, index]
        self.at[chunk] += 1
        delay = reduction_ns(self.run.system, self.rounds[index].reduced)
        self.run.kernel.after(delay, self._enter, chunk)


class LiveCollective:
    """A collective that is carried out message by message beside whatever else goes on.

    Parameters
    ----------
    chunk, chunks : bytes of a chunk, and their number
    ranks : its members
    kernel, carrier : whose time and whose links it shares with others
    done : called when the last member has ended the last chunk
    tell : called now and then with the share of its messages that have come
    """

    def __init__(
        self,
        operation: Operation,
        algorithm: AlgorithmName,
        chunk: int,
        chunks: int,
        ranks: Sequence[int],
        system: SystemConfig,
        kernel: EventKernel,
        carrier: Carrier,
        done: Callable[[], object] = lambda: None,
        tell: Callable[[float], object] = lambda share: None,
    ) -> None:
        self.operation, self.algorithm = operation, algorithm
        self.chunk, self.chunks = chunk, chunks
        self.ranks, self.system = ranks, system
        self.kernel, self.carrier, self.done, self.tell = kernel, carrier, done, tell
        self.end = kernel.now
        self.left = chunks * len(ranks)
        self.got = 0  # messages, of all members
        self.members = [_Member(self, place) for place in range(len(ranks))]

    @property
    def sent(self) -> int:
        """Bytes sent by the member that sends most."""
        each = (sum(len(r.peers) * r.size for r in member.rounds) for member in self.members)
        return self.chunks * max(each)

    def begin(self) -> None:
        """All members enter now."""
        for _ in range(min(self.system.active_chunks, self.chunks)):
            for member in self.members:
                member.begin()

    @cached_property
    def messages(self) -> int:
        """In all."""
        return self.chunks * sum(r.expected for m in self.members for r in m.rounds)

    def come(self) -> None:
        """A message has come."""
        self.got += 1
        if self.got % 4096 == 0:
            self.tell(self.got / self.messages)

    def ended(self) -> None:
        """A member has ended a chunk."""
        self.end = self.kernel.now
        self.left -= 1
        if self.left == 0:
            self.done()


def congested_ns(
    operation: Operation,
    algorithm: AlgorithmName,
    chunk: int,
    chunks: int,
    ranks: Sequence[int],
    topology: Topology,
    system: SystemConfig,
) -> int:
    """Time of ``chunks`` chunks of ``chunk`` bytes among ``ranks`` with the network to themselves,
    with queues at the links.

    Raises
    ------
    InputError
        where the network has several dims.
    """
    kernel = EventKernel()
    carrier = Aware(topology, kernel)
    run = LiveCollective(operation, algorithm, chunk, chunks, ranks, system, kernel, carrier)
    run.begin()
    kernel.run()
    return run.end

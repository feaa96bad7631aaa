"""The arbiter of the memory's read port between its users and a memory."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from testbenches import seed
from testbenches.ace_memories import MemoryReadPort
from testbenches.bench import Bench
from testbenches.streams import StreamMonitor, StreamSink, StreamSource, random_stalls

__all__ = ["ReadArbiterBench"]


class ReadArbiterBench:
    """Flit ``a`` of memory holds ``3 * a``.

    Parameters
    ----------
    users : how many the arbiter has
    words, latency : of the memory
    stalls : share of cycles in which requests, memory and, with ``data_stalls``, users pause
    """

    def __init__(
        self,
        dut,
        *,
        users: int,
        words: int,
        latency: int,
        stalls: float = 0.0,
        data_stalls: bool = False,
    ):
        self.bench = Bench(dut)

        def pauses(number, share=stalls):
            return random_stalls(seed() + number, share)

        own = stalls if data_stalls else 0.0
        self.requests = [
            self.bench.add(StreamSource(dut, f"user__{n}__request", stalls=pauses(n)))
            for n in range(users)
        ]
        self.data = [
            self.bench.add(StreamSink(dut, f"user__{n}__data", stalls=pauses(users + n, own)))
            for n in range(users)
        ]
        self.memory = self.bench.add(
            MemoryReadPort(
                dut,
                "memory",
                {a: 3 * a for a in range(words)},
                latency=latency,
                request_stalls=pauses(2 * users),
                data_stalls=pauses(2 * users + 1),
            )
        )
        for name in ("memory__request", "memory__data"):
            self.bench.add(StreamMonitor(dut, name))

    def ask(self, user: int, bursts: Iterable[tuple[int, int]]) -> None:
        """Bursts, each an address and its beats, one behind the other."""
        self.requests[user].send(address | beats << 32 for address, beats in bursts)

    async def random_bursts(self, rng: Random, *, rounds: int, words: int) -> None:
        """Everybody gets what it asks for, in order."""
        await self.bench.reset()
        users = range(len(self.requests))
        expected: list[list[int]] = [[] for _ in users]
        for _ in range(rounds):
            for user in users:
                address, beats = rng.randrange(words), rng.randint(1, 20)
                self.ask(user, [(address, beats)])
                expected[user] += [3 * (address + i) for i in range(beats)]
        await self.bench.until(
            lambda: all(len(d.items) == len(e) for d, e in zip(self.data, expected, strict=True)),
            limit=20000,
            stuck="beats are missing",
        )
        assert [d.items for d in self.data] == expected

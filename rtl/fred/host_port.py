"""Loading configurations through words of 32 bits."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.fred.configuration import INDEX_BITS, Refusal, request_layout
from rtl.fred.modes import check_size

__all__ = ["ConfigurationWriter", "word_layout"]

WORD_BITS = 32


def word_layout(words: int) -> data.StructLayout:
    """One write of the host.

    Members
    -------
    commit : ``word`` is not a part of an entry: load what was written as entry number ``word``
    number : of the word in the entry, 0 for the least significant
    word : 32 bits
    """
    return data.StructLayout({"commit": 1, "number": range(words), "word": unsigned(WORD_BITS)})


class ConfigurationWriter(wiring.Component):
    """Puts entries together from 32-bit words, for a host with a narrow bus.

    The host writes the words of an entry (``sw_model.fred.table.entry_words``) in any order, then
    commits it under an index; words keep their value, so entries that differ in little take few
    writes. Writes are taken one per cycle, but while a commit is being dealt with, which takes
    4 cycles with the switch's memory. Words beyond the entry are ignored; an index beyond the
    memory's 12 bits is refused like one that the memory does not have.

    Parameters
    ----------
    ports, middle_copies : P and m of the switch

    Members
    -------
    write : In, stream of :func:`word_layout`
    configure : Out, to the ``configure`` of the switch
    configured, refusal : In, those of the switch
    busy : Out, a commit is being dealt with
    result : Out, how the last commit went; ``NONE`` after reset
    committed : Out, commits dealt with since reset, modulo 2**16
    """

    def __init__(self, *, ports: int, middle_copies: int):
        check_size(ports, middle_copies)
        self.ports = ports
        self.middle_copies = middle_copies
        request = request_layout(ports, middle_copies)
        self.words = -(-request["entry"].width // WORD_BITS)
        super().__init__(
            {
                "write": In(stream.Signature(word_layout(self.words))),
                "configure": Out(stream.Signature(request)),
                "configured": In(1),
                "refusal": In(Refusal),
                "busy": Out(1),
                "result": Out(Refusal),
                "committed": Out(16),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        words = [Signal(WORD_BITS, name=f"word_{k}") for k in range(self.words)]
        index = Signal(INDEX_BITS)
        offered = Signal()
        given = self.write.payload
        entry = self.configure.payload.entry.as_value()
        m.d.comb += [
            self.write.ready.eq(~self.busy),
            entry.eq(Cat(words)[: len(entry)]),
            self.configure.payload.index.eq(index),
            self.configure.valid.eq(offered),
        ]
        with m.If(self.write.valid & self.write.ready):
            with m.If(given.commit):
                # Too large an index must not be taken for a small one.
                m.d.sync += [
                    index.eq(given.word[:INDEX_BITS]),
                    offered.eq(~given.word[INDEX_BITS:].any()),
                    self.busy.eq(1),
                ]
                with m.If(given.word[INDEX_BITS:].any()):
                    m.d.sync += [
                        self.busy.eq(0),
                        self.result.eq(Refusal.INDEX),
                        self.committed.eq(self.committed + 1),
                    ]
            for number, word in enumerate(words):
                with m.If(~given.commit & (given.number == number)):
                    m.d.sync += word.eq(given.word)
        with m.If(self.configure.valid & self.configure.ready):
            m.d.sync += offered.eq(0)
        with m.If(self.busy & self.configured):
            m.d.sync += [
                self.busy.eq(0),
                self.result.eq(self.refusal),
                self.committed.eq(self.committed + 1),
            ]
        return m

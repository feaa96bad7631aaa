"""A dim's port on AXI4-Stream."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.engine import DimPort
from rtl.axi.link_sync import LinkSync
from rtl.axi.signatures import AxiStreamSignature
from rtl.common.fifo import StreamFifo
from rtl.common.front_fifo import front_queue
from rtl.common.packet import PacketHeader, TrafficClass, flit_layout

__all__ = ["AxiLinkPort", "GrantBeat"]


class GrantBeat(data.Struct):
    """One beat of a grant stream, 8 bits.

    Members
    -------
    value : of a sync beat a :class:`rtl.axi.link_sync.Sync`, else how many ops have started
    sync : it is a sync beat
    """

    value: 7
    sync: 1


class AxiLinkPort(wiring.Component):
    """Carries the flits of one dim over AXI4-Stream, a transfer per flit.

    ``tuser`` is the flit's ``head``, ``tlast`` its ``last``; all bytes of ``tdata`` are valid (a
    packet's header says its length). What credits do on Antiphon's own links, ``tready`` does
    here: it is high while the buffer of ``depth`` flits has room. A dim with grants has a second
    stream in the reverse direction with one byte per beat, and the two ends of its link agree
    after a reset by :class:`LinkSync`. Without grants (a switch is at the other end) nothing is
    agreed: the switch is reset with the engines around it.

    Parameters
    ----------
    flit_bytes : of a transfer
    depth : flits buffered on the way in
    grants : as of the dim

    Members
    -------
    port : In(DimPort)
    send : Out(AxiStreamSignature)
    receive : In(AxiStreamSignature)
    grant_send : Out(AxiStreamSignature)
        To where ``receive`` comes from (with grants only).
    grant_receive : In(AxiStreamSignature)
        From where ``send`` goes to (with grants only).
    restart : In(1)
        The engine is being reset. What stands on a stream stays until it is taken.
    used : In(1)
        The engine has been given something to do since it was reset.
    up : Out(1)
        Both links have both their ends.
    lost : Out(1)
        A neighbour was reset and this engine, which had been used, was not.

    Notes
    -----
    Two cycles from the engine to ``send``, two from ``receive`` to the engine. One flit per cycle.
    """

    def __init__(self, *, flit_bytes: int, depth: int, grants: bool):
        self.flit_bytes = flit_bytes
        self.depth = depth
        self.grants = grants
        stream = AxiStreamSignature(data_bytes=flit_bytes, user_bits=1)
        members = {
            "port": In(DimPort(flit_bytes=flit_bytes)),
            "send": Out(stream),
            "receive": In(stream),
            "restart": In(1),
            "used": In(1),
            "up": Out(1),
            "lost": Out(1),
        }
        if grants:
            members |= {
                "grant_send": Out(AxiStreamSignature(data_bytes=1)),
                "grant_receive": In(AxiStreamSignature(data_bytes=1)),
            }
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        flit = flit_layout(self.flit_bytes)
        m.submodules.outgoing = outgoing = StreamFifo(shape=flit, depth=2)
        m.submodules.incoming = incoming = front_queue(shape=flit, depth=self.depth)
        out, back = outgoing.o.payload, incoming.i.payload
        m.d.comb += [
            self.send.tvalid.eq(outgoing.o.valid),
            self.send.tdata.eq(out.data),
            self.send.tuser.eq(out.head),
            self.send.tlast.eq(out.last),
            outgoing.o.ready.eq(self.send.tready),
            incoming.i.valid.eq(self.receive.tvalid),
            back.data.eq(self.receive.tdata),
            back.head.eq(self.receive.tuser),
            back.last.eq(self.receive.tlast),
            self.receive.tready.eq(incoming.i.ready),
        ]
        if not self.grants:
            wiring.connect(m, wiring.flipped(self.port.o), outgoing.i)
            wiring.connect(m, incoming.o, wiring.flipped(self.port.i))
            m.d.comb += self.up.eq(1)
            return m

        m.submodules.send_sync = send_sync = LinkSync()
        m.submodules.receive_sync = receive_sync = LinkSync()
        m.d.comb += [
            send_sync.restart.eq(self.restart),
            receive_sync.restart.eq(self.restart),
            self.up.eq(send_sync.up & receive_sync.up),
            self.lost.eq(send_sync.lost | receive_sync.lost),
        ]
        flit_sent, flit_taken = self._flits(m, outgoing.i, incoming.o, send_sync, receive_sync)
        grants_sent, grants_taken = self._grants(m, send_sync, receive_sync)
        m.d.comb += [
            send_sync.used.eq(self.used | flit_sent | (grants_taken != 0)),
            receive_sync.used.eq(self.used | flit_taken | (grants_sent != 0)),
        ]
        return m

    def _flits(self, m, outgoing, incoming, send_sync, receive_sync):
        """The engine's flits while the link is up, sync flits before; whether one is sent or taken
        in this cycle."""
        sync_header = Signal(PacketHeader)
        sent, taken = Signal(), Signal()
        m.d.comb += [
            sync_header.traffic_class.eq(TrafficClass.CONTROL),
            sync_header.replay.eq(send_sync.send.payload),
        ]
        with m.If(send_sync.send.valid):
            m.d.comb += [
                outgoing.valid.eq(1),
                outgoing.payload.data.eq(sync_header),
                outgoing.payload.head.eq(1),
                outgoing.payload.last.eq(1),
                send_sync.send.ready.eq(outgoing.ready),
            ]
        with m.Else():
            m.d.comb += [
                outgoing.payload.eq(self.port.o.payload),
                outgoing.valid.eq(self.port.o.valid & send_sync.up),
                self.port.o.ready.eq(outgoing.ready & send_sync.up),
            ]

        header = data.View(PacketHeader, incoming.payload.data[: PacketHeader.as_shape().size])
        is_sync = incoming.payload.head & (header.traffic_class == TrafficClass.CONTROL)
        m.d.comb += [
            receive_sync.received.valid.eq(incoming.valid & is_sync),
            receive_sync.received.payload.eq(header.replay),
            self.port.i.payload.eq(incoming.payload),
            self.port.i.valid.eq(incoming.valid & ~is_sync & receive_sync.up),
            incoming.ready.eq(self.port.i.ready | is_sync | ~receive_sync.up),
            sent.eq(self.port.o.valid & self.port.o.ready),
            taken.eq(self.port.i.valid & self.port.i.ready),
        ]
        return sent, taken

    def _grants(self, m, send_sync, receive_sync):
        """Grants, counted, in the reverse direction; how many are sent and come in this cycle."""
        most = (1 << GrantBeat.as_shape()["value"].width) - 1
        m.submodules.grants_out = out = StreamFifo(shape=GrantBeat, depth=2)
        due = Signal(16)  # grants given by the engine and not yet sent
        amount = Signal(7)
        m.d.comb += [
            amount.eq(Mux(due > most, most, due)),
            self.grant_send.tvalid.eq(out.o.valid),
            self.grant_send.tdata.eq(out.o.payload),
            self.grant_send.tlast.eq(1),
            out.o.ready.eq(self.grant_send.tready),
        ]
        sent = Signal(7)
        with m.If(receive_sync.send.valid):
            m.d.comb += [
                out.i.valid.eq(1),
                out.i.payload.sync.eq(1),
                out.i.payload.value.eq(receive_sync.send.payload),
                receive_sync.send.ready.eq(out.i.ready),
            ]
        with m.Else():
            m.d.comb += [
                out.i.valid.eq(receive_sync.up & (due != 0)),
                out.i.payload.value.eq(amount),
                sent.eq(Mux(out.i.valid & out.i.ready, amount, 0)),
            ]
        m.d.sync += due.eq(Mux(self.restart, 0, due + self.port.grant - sent))

        beat = data.View(GrantBeat, self.grant_receive.tdata)
        came = Signal(16)  # grants received and not yet told to the engine
        arrived = Signal(7)
        m.d.comb += [
            self.grant_receive.tready.eq(1),
            send_sync.received.valid.eq(self.grant_receive.tvalid & beat.sync),
            send_sync.received.payload.eq(beat.value),
            self.port.granted.eq(came != 0),
        ]
        with m.If(self.grant_receive.tvalid & ~beat.sync & send_sync.up):
            m.d.comb += arrived.eq(beat.value)
        m.d.sync += came.eq(Mux(self.restart, 0, came + arrived - self.port.granted))
        return sent, arrived

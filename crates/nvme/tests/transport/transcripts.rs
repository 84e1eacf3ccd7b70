//! Transcripts: the bytes that Linux hosts send, and the answers that they require.

use super::world::{Source, pattern};
use nvme::queue::{FlowControl, TargetEvent};
use nvme::spec::Cqe;
use nvme::tcp::pdu::Digests;
use nvme::tcp::pdu::digest::crc32c;
use nvme::tcp::{TargetConnection, TargetLimits};

/// A dialogue with a target.
struct Script {
    target: TargetConnection<Vec<u8>>,
    source: Source,
    digests: Digests,
}

impl Script {
    fn new() -> Self {
        let target = TargetConnection::new(TargetLimits::default());
        Script { target, source: Source::plenty(), digests: Digests::default() }
    }

    /// The host sends `bytes`. Returns the events for the layer above.
    fn send(&mut self, bytes: &[u8]) -> Vec<TargetEvent<Vec<u8>>> {
        let mut events = Vec::new();
        let taken = self
            .target
            .on_bytes(bytes, &mut self.source, &mut events)
            .expect("a Linux host keeps to the protocol");
        assert_eq!(taken, bytes.len());
        events
    }

    /// The host sends a command capsule, as Linux writes it. Returns the data that was passed up.
    fn capsule(&mut self, opcode: u8, cid: u16, nsid: u32, sgl: [u8; 5], data: &[u8]) -> Option<Vec<u8>> {
        let Digests { header, data: data_digest } = self.digests;
        let header_end = if header { 76u8 } else { 72 };
        let trailer = if data_digest && !data.is_empty() { 4 } else { 0 };
        let flags = u8::from(header) | if trailer > 0 { 2 } else { 0 };
        let pdo = if data.is_empty() { 0 } else { header_end };
        let mut bytes = vec![0x04, flags, 72, pdo];
        bytes.extend((u32::from(header_end) + data.len() as u32 + trailer).to_le_bytes());
        bytes.extend([opcode, 0x40]);
        bytes.extend(cid.to_le_bytes());
        bytes.extend(nsid.to_le_bytes());
        bytes.extend([0; 16]);
        bytes.extend([0; 8]);
        bytes.extend(&sgl[1..]);
        bytes.extend([0, 0, 0, sgl[0]]);
        bytes.extend([0; 24]);
        if header {
            bytes.extend(crc32c(&bytes).to_le_bytes());
        }
        bytes.extend(data);
        if trailer > 0 {
            bytes.extend(crc32c(data).to_le_bytes());
        }
        match &mut self.send(&bytes)[..] {
            [TargetEvent::Command { sqe, data }] => {
                assert_eq!((sqe.opcode(), sqe.cid(), sqe.nsid()), (opcode, cid, nsid));
                data.take()
            }
            [] => None,
            other => panic!("{other:?}"),
        }
    }

    fn sent(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        self.target.poll_transmit(&mut wire);
        wire
    }

    /// ICReq as Linux writes it, with this DGST. ICResp must be what Linux expects.
    fn handshake(&mut self, dgst: u8) {
        let mut request = vec![0x00, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, dgst, 0, 0, 0, 0];
        request.resize(128, 0);
        self.digests = Digests::from_wire(dgst).expect("a digest choice");
        assert_eq!(self.send(&request), [TargetEvent::Initialized]);
        assert_eq!(self.target.digests(), self.digests);
        let response = self.sent();
        assert_eq!(response.len(), 128);
        assert_eq!(response[..12], [0x01, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, dgst]);
        let maxh2cdata = u32::from_le_bytes(response[12..16].try_into().expect("4 bytes"));
        assert!(maxh2cdata >= 4096 && maxh2cdata % 4 == 0);
    }

    /// Connect, 1024 bytes in the capsule; the queue gets `entries` entries.
    fn connect(&mut self, entries: u32) {
        let data = self.capsule(0x7f, 0x0000, 0x01, in_capsule(1024), &pattern(9, 1024));
        assert_eq!(data, Some(pattern(9, 1024)));
        self.target.set_queue(entries, FlowControl::Enabled);
        self.target.reply(Cqe::success(0).with_dw0(1));
        assert_eq!(self.sent()[8..24], [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], "CNTLID 1, SQHD 1");
    }
}

/// SGL of data in the capsule: identifier, length.
fn in_capsule(length: u32) -> [u8; 5] {
    let [a, b, c, d] = length.to_le_bytes();
    [0x01, a, b, c, d]
}

/// SGL of data that the transport moves: identifier, length.
fn transport(length: u32) -> [u8; 5] {
    let [a, b, c, d] = length.to_le_bytes();
    [0x5a, a, b, c, d]
}

#[test]
fn an_admin_queue_comes_up_and_goes_away() {
    let mut script = Script::new();
    script.handshake(0);
    script.connect(32);
    // PropertyGet CAP: no data, result in the completion.
    assert_eq!(script.capsule(0x7f, 0x1000, 0x04, transport(0), &[]), None);
    script.target.reply(Cqe::success(0x1000).with_result(0x0000_0820_0f00_03ff));
    let response = script.sent();
    assert_eq!(response[..8], [0x05, 0, 24, 0, 24, 0, 0, 0]);
    assert_eq!(response[8..16], 0x0000_0820_0f00_03ff_u64.to_le_bytes());
    assert_eq!(response[20..24], [0x00, 0x10, 0, 0]);
    // Identify: 4096 bytes in one C2HData that is also the completion.
    assert_eq!(script.capsule(0x06, 0x2001, 0, transport(4096), &[]), None);
    script.target.reply_with_data(Cqe::success(0x2001), pattern(1, 4096), 4096);
    let data = script.sent();
    assert_eq!(data[..8], [0x07, 0x0c, 24, 24, 0x18, 0x10, 0, 0]);
    assert_eq!(data[8..24], [0x01, 0x20, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0]);
    assert_eq!(data[24..], pattern(1, 4096));
    // One asynchronous event request stays outstanding until the end.
    assert_eq!(script.capsule(0x0c, 0x001f, 0, transport(0), &[]), None);
    assert_eq!(script.target.outstanding(), 1);
    assert!(script.sent().is_empty());
}

#[test]
fn a_write_of_4_kib_comes_in_the_capsule() {
    for dgst in 0..4 {
        let mut script = Script::new();
        script.handshake(dgst);
        let data = script.capsule(0x01, 0x101a, 1, in_capsule(4096), &pattern(3, 4096));
        assert_eq!(data, Some(pattern(3, 4096)), "DGST {dgst}");
        script.target.reply(Cqe::success(0x101a));
        let response = script.sent();
        assert_eq!((response[0], response[2]), (5, 24), "HLEN of every PDU to the host is 24");
        assert_eq!(response.len(), if dgst & 1 == 0 { 24 } else { 28 });
    }
}

#[test]
fn a_write_of_20_kib_is_asked_for_as_a_whole() {
    let mut script = Script::new();
    script.handshake(0);
    script.connect(128);
    assert_eq!(script.capsule(0x01, 0x1003, 1, transport(20480), &[]), None);
    let r2t = script.sent();
    assert_eq!(r2t[..8], [0x09, 0, 24, 0, 24, 0, 0, 0]);
    assert_eq!(r2t[8..10], [0x03, 0x10]);
    assert_eq!(r2t[12..24], [0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0]);
    let mut data = vec![0x06, 0x04, 24, 24, 0x18, 0x50, 0, 0, 0x03, 0x10, r2t[10], r2t[11]];
    data.extend([0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0]);
    data.extend(pattern(5, 20480));
    match &script.send(&data)[..] {
        [TargetEvent::Command { sqe, data: Some(data) }] => {
            assert_eq!((sqe.cid(), sqe.sgl_length()), (0x1003, 20480));
            assert_eq!(*data, pattern(5, 20480));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_deallocation_brings_4096_bytes_for_one_range() {
    let mut script = Script::new();
    script.handshake(3);
    let data = script.capsule(0x09, 0x0001, 1, in_capsule(4096), &pattern(0, 4096));
    assert_eq!(data.map(|data| data.len()), Some(4096));
}

#[test]
fn an_io_queue_may_sit_idle_after_its_handshake() {
    let mut script = Script::new();
    script.handshake(1);
    assert_eq!((script.target.outstanding(), script.target.paused(), script.sent().len()), (0, None, 0));
}

//! PDUs alone: bytes cut into headers and payload, headers laid into bytes. Without digests: those are another crate's loops.

use nvme::buffer::Outgoing;
use nvme::spec::Sqe;
use nvme::spec::opcode::nvm;
use nvme::tcp::pdu::{C2hData, CapsuleCmd, Digests, End, Framing, PduReader, Rules, Step};
use std::hint::black_box;
use std::ops::Range;

/// Bytes of data.
const DATA: u32 = 4096;
/// PDUs that arrive in one piece.
const AT_ONCE: u32 = 32;
const FRAMING: Framing = Framing { digests: Digests { header: false, data: false }, alignment: 4 };

/// The encoded bytes; the data is only pointed to, as a socket would.
#[derive(Default)]
struct Laid {
    bytes: Vec<u8>,
}

impl Outgoing<&[u8]> for Laid {
    fn header(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn payload(&mut self, buffer: &[u8], range: Range<usize>) {
        black_box(&buffer[range]);
    }

    fn room(&self) -> bool {
        true
    }
}

fn lay_command(laid: &mut Laid, cid: u16) {
    let sqe = Sqe::new(nvm::READ).with_cid(cid).with_nsid(1);
    FRAMING.header(laid, CapsuleCmd::new(black_box(sqe)), 0, 0);
}

fn lay_data(laid: &mut Laid, cid: u16, data: &[u8]) {
    FRAMING.header(laid, C2hData::new(black_box(cid), 0, DATA), 0, DATA);
    laid.payload(data, 0..data.len());
}

pub(crate) fn encode_commands(pdus: u32) {
    let mut laid = Laid::default();
    for n in 0..pdus {
        laid.bytes.clear();
        lay_command(&mut laid, n as u16);
        black_box(&laid.bytes);
    }
}

pub(crate) fn encode_data(pdus: u32) {
    let (mut laid, data) = (Laid::default(), vec![0; DATA as usize]);
    for n in 0..pdus {
        laid.bytes.clear();
        lay_data(&mut laid, n as u16, black_box(&data));
        black_box(&laid.bytes);
    }
}

pub(crate) fn decode_commands(pdus: u32) {
    let mut laid = Laid::default();
    (0..AT_ONCE).for_each(|n| lay_command(&mut laid, n as u16));
    decode(End::Controller, &laid.bytes, pdus);
}

pub(crate) fn decode_data(pdus: u32) {
    let (mut laid, data) = (Laid::default(), vec![0; DATA as usize]);
    for n in 0..AT_ONCE {
        lay_data(&mut laid, n as u16, &data);
        laid.bytes.extend_from_slice(&data);
    }
    decode(End::Host, &laid.bytes, pdus);
}

/// Cuts `bytes`, the PDUs that arrive in one piece, until `pdus` PDUs were cut.
fn decode(receiver: End, bytes: &[u8], pdus: u32) {
    let rules = Rules {
        receiver,
        handshake: false,
        digests: FRAMING.digests,
        alignment: FRAMING.alignment,
        in_capsule_max: 8192,
    };
    let mut reader = PduReader::new(rules);
    for _ in 0..pdus / AT_ONCE {
        let mut input = black_box(bytes);
        let mut headers = 0;
        while let Some(step) = reader.next(&mut input).expect("what was laid is in order") {
            headers += u32::from(matches!(step, Step::Header(_)));
            black_box(step);
        }
        assert_eq!(headers, AT_ONCE, "every PDU is found");
    }
}

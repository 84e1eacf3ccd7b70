//! PDUs: arbitrary bytes, and valid PDUs before and after one byte is changed.
//!
//! Holds: however the stream is split, it reads the same; the reader consumes all its input or names the
//!        violation; the peer can read the TermReq about it; `Rules` accept what `Framing` writes, with any field
//!        values, and read back the same fields; with digests, a changed byte in a header ends the connection, and a
//!        changed byte in the data is detected.

use crate::input::Input;
use crate::wire::{Listener, encode};
use nvme::spec::{Cqe, Sqe};
use nvme::tcp::pdu::common::{FLAG_LAST, FLAG_SUCCESS};
use nvme::tcp::pdu::term::{FatalStatus, TermReq, TermReqImage};
use nvme::tcp::pdu::{
    C2hData, CapsuleCmd, CapsuleResp, Digests, End, Framing, H2cData, Header, IcReq, IcResp, Layout,
    PduReader, PduType, R2t, Rules, Step, Violation,
};
use zerocopy::FromBytes;

/// Most bytes of data in the PDUs written here.
const DATA_MAX: usize = 300;
const IN_CAPSULE_MAX: u32 = 8192;

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let rules = rules(&mut input);
    if input.flag() {
        decode(rules, &mut input);
    } else {
        round_trip(rules, &mut input);
    }
}

fn rules(input: &mut Input<'_>) -> Rules {
    Rules {
        receiver: if input.flag() { End::Controller } else { End::Host },
        handshake: input.one_in(8),
        digests: Digests { header: input.flag(), data: input.flag() },
        alignment: (input.below(32) as u8 + 1) * 4,
        in_capsule_max: input.pick(&[0, 64, IN_CAPSULE_MAX, u32::MAX]),
    }
}

/// What a reader found in a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reading {
    headers: Vec<(Layout, Vec<u8>)>,
    payloads: Vec<Vec<u8>>,
    ends: Vec<bool>,
    violation: Option<Violation>,
    /// The bytes that a TermReq would copy.
    faulty: Vec<u8>,
}

fn read(rules: Rules, pieces: &mut dyn Iterator<Item = &[u8]>) -> Reading {
    let mut reader = PduReader::new(rules);
    let mut reading = Reading::default();
    for piece in pieces {
        let mut input = piece;
        loop {
            match reader.next(&mut input) {
                Ok(None) => break,
                Ok(Some(Step::Header(layout))) => {
                    let header = reader.header_bytes().to_vec();
                    assert_eq!(header.len(), usize::from(layout.pdu_type.header_length()), "{layout:?}");
                    assert_eq!(layout.pdu_type.receiver(), rules.receiver);
                    reading.headers.push((layout, header));
                    if layout.data_length > 0 {
                        reading.payloads.push(Vec::new());
                    }
                }
                Ok(Some(Step::Payload(chunk))) => {
                    assert!(!chunk.is_empty());
                    reading.payloads.last_mut().expect("a header came before").extend_from_slice(chunk);
                }
                Ok(Some(Step::End { layout, intact })) => {
                    let payload = reading.payloads.last().expect("a header came before");
                    assert_eq!(payload.len(), layout.data_length as usize);
                    reading.ends.push(intact);
                }
                Err(violation) => {
                    reading.faulty = reader.header_bytes().to_vec();
                    reading.violation = Some(violation);
                    return reading;
                }
            }
        }
        assert!(input.is_empty(), "{} bytes were not consumed", input.len());
    }
    reading
}

/// Any bytes at all, as a whole and in pieces.
fn decode(rules: Rules, input: &mut Input<'_>) {
    let piece = input.below(130) as usize + 1;
    let stream = input.rest();
    let whole = read(rules, &mut std::iter::once(stream));
    let cut = read(rules, &mut stream.chunks(piece));
    assert_eq!(whole, cut, "split into pieces of {piece}");
    let Some(violation) = whole.violation else { return };
    let image = TermReqImage::new(rules.receiver, violation, &whole.faulty);
    let peer = match rules.receiver {
        End::Controller => End::Host,
        End::Host => End::Controller,
    };
    let heard = Listener::new(Rules { receiver: peer, ..rules }).hear(image.bytes());
    let [term] = &heard[..] else { panic!("{heard:?} from one TermReq") };
    let (status, information) = TermReq::read_from_bytes(&term.header).expect("24 bytes").reason();
    assert_eq!(FatalStatus::from_wire(status), Some(violation.status));
    assert_eq!((information, &term.data[..]), (violation.information, &whole.faulty[..]));
}

/// A valid PDU with any field values, and then the same PDU with one byte changed.
fn round_trip(rules: Rules, input: &mut Input<'_>) {
    let framing = Framing { digests: rules.digests, alignment: rules.alignment };
    let rules = Rules { handshake: false, in_capsule_max: IN_CAPSULE_MAX, ..rules };
    let flags = input.pick(&[0, FLAG_LAST, FLAG_LAST | FLAG_SUCCESS]);
    let length = input.below(DATA_MAX as u32) as usize + 1;
    let data = &input.bytes(length)[..];
    match (rules.receiver, input.below(4)) {
        (End::Controller, 0) => check_round_trip(
            IcReq::new(input.byte(), input.byte(), input.word()),
            rules,
            framing,
            0,
            &[],
            input,
        ),
        (End::Controller, 1) => {
            let sqe = Sqe::read_from_bytes(&input.bytes(Sqe::SIZE)).expect("64 bytes");
            check_round_trip(CapsuleCmd::new(sqe), rules, framing, 0, &[], input);
        }
        (End::Controller, 2) => {
            let sqe = Sqe::read_from_bytes(&input.bytes(Sqe::SIZE)).expect("64 bytes");
            check_round_trip(CapsuleCmd::new(sqe), rules, framing, 0, data, input);
        }
        (End::Controller, _) => {
            let header = H2cData::new(input.half(), input.half(), input.word(), input.word());
            check_round_trip(header, rules, framing, flags & FLAG_LAST, data, input);
        }
        (End::Host, 0) => check_round_trip(
            IcResp::new(input.byte(), input.byte(), input.word()),
            rules,
            framing,
            0,
            &[],
            input,
        ),
        (End::Host, 1) => {
            let cqe = Cqe::read_from_bytes(&input.bytes(Cqe::SIZE)).expect("16 bytes");
            check_round_trip(CapsuleResp::new(cqe), rules, framing, 0, &[], input);
        }
        (End::Host, 2) => {
            check_round_trip(
                C2hData::new(input.half(), input.word(), input.word()),
                rules,
                framing,
                flags,
                data,
                input,
            );
        }
        (End::Host, _) => {
            let header = R2t::new(input.half(), input.half(), input.word(), input.word());
            check_round_trip(header, rules, framing, 0, &[], input);
        }
    }
}

fn check_round_trip<H: Header + Copy>(
    header: H,
    rules: Rules,
    framing: Framing,
    flags: u8,
    data: &[u8],
    input: &mut Input<'_>,
) {
    let handshake = matches!(H::TYPE, PduType::IcReq | PduType::IcResp);
    let framing = if handshake { Framing::HANDSHAKE } else { framing };
    let rules = if handshake { Rules { handshake, digests: framing.digests, ..rules } } else { rules };
    let mut bytes = encode(&framing, header, flags, data);
    let reading = read(rules, &mut std::iter::once(&bytes[..]));
    assert_eq!(reading.violation, None, "{bytes:02x?}");
    let [(layout, raw)] = &reading.headers[..] else { panic!("{reading:?} from one PDU") };
    assert_eq!(raw[8..], header.as_bytes()[8..], "a field changed");
    assert_eq!((layout.pdu_type, layout.data_length as usize), (H::TYPE, data.len()));
    assert_eq!(reading.payloads.concat(), data);
    assert!(reading.ends.iter().all(|intact| *intact));

    let at = input.below(bytes.len() as u32) as usize;
    bytes[at] ^= input.byte().max(1);
    let corrupt = read(rules, &mut std::iter::once(&bytes[..]));
    let header_end = usize::from(layout.header_end);
    if layout.header_digest() && at < header_end {
        assert!(corrupt.violation.is_some(), "a change of byte {at}, in the header, was not detected");
        assert!(corrupt.headers.is_empty());
    }
    if layout.data_digest() && at >= header_end + usize::from(layout.padding) {
        assert_eq!(
            (corrupt.violation, &corrupt.ends[..]),
            (None, &[false][..]),
            "a change of byte {at}, in the data, was not detected"
        );
    }
}

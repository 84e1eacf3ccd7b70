//! Tests: every layout survives emit, rules and reader; every wrong common header is refused.

use super::common::{FLAG_LAST, FLAG_SUCCESS};
use super::*;
use crate::buffer::Outgoing;
use crate::spec::{Cqe, Sgl, Sqe, Status};
use proptest::prelude::*;
use zerocopy::FromBytes;

const ALL_DIGESTS: [Digests; 4] = [
    Digests { header: false, data: false },
    Digests { header: true, data: false },
    Digests { header: false, data: true },
    Digests { header: true, data: true },
];

fn rules(receiver: End, digests: Digests, alignment: u8) -> Rules {
    Rules { receiver, handshake: false, digests, alignment, in_capsule_max: 8192 }
}

fn encode<H: Header>(framing: Framing, header: H, flags: u8, data: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    framing.header(&mut wire, header, flags, data.len() as u32);
    if !data.is_empty() {
        let digest = framing.data_digest(data);
        wire.payload(data.to_vec(), 0..data.len());
        if let Some(digest) = digest {
            wire.header(&digest);
        }
    }
    wire
}

/// The steps of the reader, with payloads joined.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Header(Layout, Vec<u8>),
    Payload(Vec<u8>),
    End(bool),
}

fn read(rules: Rules, pieces: &[&[u8]]) -> Result<Vec<Seen>, Violation> {
    let pieces: Vec<(&[u8], bool)> = pieces.iter().map(|piece| (*piece, false)).collect();
    read_or_place(rules, &pieces)
}

/// As `read`, but in pieces that are to be placed the bytes of a payload do not pass through the reader.
fn read_or_place(rules: Rules, pieces: &[(&[u8], bool)]) -> Result<Vec<Seen>, Violation> {
    let mut reader = PduReader::new(rules);
    let mut seen = Vec::new();
    let payload = |seen: &mut Vec<Seen>, bytes: &[u8]| match seen.last_mut() {
        Some(Seen::Payload(joined)) => joined.extend_from_slice(bytes),
        _ => seen.push(Seen::Payload(bytes.to_vec())),
    };
    for &(mut input, is_placed) in pieces {
        loop {
            if is_placed {
                let (placed, rest) = input.split_at(reader.payload_left().min(input.len()));
                reader.on_placed(placed);
                if !placed.is_empty() {
                    payload(&mut seen, placed);
                }
                input = rest;
            }
            match reader.next(&mut input)? {
                Some(Step::Header(layout)) => {
                    seen.push(Seen::Header(layout, reader.header_bytes().to_vec()));
                }
                Some(Step::Payload(chunk)) => payload(&mut seen, chunk),
                Some(Step::End { intact, .. }) => seen.push(Seen::End(intact)),
                None => break,
            }
        }
        assert!(input.is_empty(), "the reader consumes all of its input");
    }
    Ok(seen)
}

/// Writes `header`, reads it back, and checks that only the common part changed.
fn round_trip<H: Header + Copy>(header: H, receiver: End, flags: u8, data: &[u8]) {
    for digests in ALL_DIGESTS {
        for alignment in (0..=ic::ALIGNMENT_FIELD_MAX).map(ic::alignment_from_wire) {
            let bytes = encode(Framing { digests, alignment }, header, flags, data);
            let seen =
                read(rules(receiver, digests, alignment), &[&bytes]).expect("our own PDUs are accepted");
            let Seen::Header(layout, raw) = &seen[0] else { panic!("{seen:?}") };
            assert_eq!(raw[8..], header.as_bytes()[8..]);
            assert_eq!(layout.pdu_type, H::TYPE);
            assert_eq!(layout.data_length as usize, data.len());
            assert_eq!(layout.header_digest(), digests.header);
            if data.is_empty() {
                assert_eq!(seen.len(), 1);
                assert!(!layout.data_digest());
            } else {
                assert_eq!((layout.header_end + layout.padding) % alignment, 0);
                assert_eq!(seen[1..], [Seen::Payload(data.to_vec()), Seen::End(true)]);
            }
        }
    }
}

#[test]
fn every_layout_round_trips() {
    let data = [0xa5; 512];
    let sqe = Sqe::new(1).with_cid(0x101a).with_sgl(Sgl::InCapsule { offset: 0, length: 512 });
    round_trip(CapsuleCmd::new(sqe), End::Controller, 0, &data);
    round_trip(CapsuleCmd::new(Sqe::new(2)), End::Controller, 0, &[]);
    round_trip(CapsuleResp::new(Cqe::new(7, Status::INVALID_FIELD)), End::Host, 0, &[]);
    round_trip(H2cData::new(1, 2, 3, 512), End::Controller, FLAG_LAST, &data);
    round_trip(C2hData::new(1, 3, 512), End::Host, FLAG_LAST | FLAG_SUCCESS, &data);
    round_trip(R2t::new(1, 2, 3, 4), End::Host, 0, &[]);
}

#[test]
fn headers_lie_where_hosts_put_them() {
    let digests = Digests { header: true, data: true };
    let framing = Framing { digests, alignment: 4 };
    let capsule = encode(framing, CapsuleCmd::new(Sqe::new(1)), 0, &[1; 8]);
    assert_eq!(capsule[..8], [0x04, 0x03, 72, 76, 88, 0, 0, 0], "data in the capsule, both digests");
    let capsule = encode(framing, CapsuleCmd::new(Sqe::new(1)), 0, &[]);
    assert_eq!(capsule[..8], [0x04, 0x01, 72, 0, 76, 0, 0, 0], "no data, so no data digest");
    let capsule = encode(Framing::HANDSHAKE, CapsuleCmd::new(Sqe::new(1)), 0, &[]);
    assert_eq!(capsule[..8], [0x04, 0x00, 72, 0, 72, 0, 0, 0]);
    let request = encode(Framing::HANDSHAKE, IcReq::new(0, 3, 0), 0, &[]);
    assert_eq!(request[..16], [0x00, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]);
    assert_eq!(request.len(), 128);
    let response = encode(Framing::HANDSHAKE, IcResp::new(0, 3, 0x40_0000), 0, &[]);
    assert_eq!(response[..16], [0x01, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0x40, 0]);
    let data = encode(framing, H2cData::new(0x101a, 5, 4096, 4), FLAG_LAST, &[9; 4]);
    assert_eq!(
        data[..24],
        [6, 7, 24, 28, 36, 0, 0, 0, 0x1a, 0x10, 5, 0, 0, 16, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]
    );
}

#[test]
fn a_term_req_carries_status_information_and_the_faulty_header() {
    let image = term::TermReqImage::new(End::Controller, Violation::field(0x0102_0304), &[0xee; 200]);
    let bytes = image.bytes();
    assert_eq!(bytes.len(), 152);
    assert_eq!(bytes[..14], [3, 0, 24, 0, 152, 0, 0, 0, 1, 0, 4, 3, 2, 1]);
    let (parsed, copy) = TermReq::ref_from_prefix(bytes).expect("long enough");
    assert_eq!(parsed.reason(), (1, 0x0102_0304));
    assert_eq!(copy, [0xee; 128]);
    for value in 1..=6 {
        assert_eq!(FatalStatus::from_wire(value).map(|status| status as u16), Some(value));
    }
    assert_eq!((FatalStatus::from_wire(0), FatalStatus::from_wire(7)), (None, None));
}

#[test]
fn an_impossible_common_header_is_refused_at_the_field_that_is_wrong() {
    let both = Digests { header: true, data: true };
    let none = Digests::default();
    let controller = |digests| rules(End::Controller, digests, 4);
    let host = rules(End::Host, none, 4);
    let wide = rules(End::Controller, none, 128);
    let early = Rules { handshake: true, ..controller(none) };
    let field = Violation::field;
    #[rustfmt::skip]
    let cases = [
        ("reserved type",                       controller(none), [0x08, 0, 24, 0, 24, 0, 0, 0],       field(0)),
        ("type of the other direction",         controller(none), [0x05, 0, 24, 0, 24, 0, 0, 0],       field(0)),
        ("command to the host",                 host,             [0x04, 0, 72, 0, 72, 0, 0, 0],       field(0)),
        ("header digest not agreed",            controller(none), [0x04, 1, 72, 0, 76, 0, 0, 0],       field(1)),
        ("header digest agreed but missing",    controller(both), [0x04, 0, 72, 0, 72, 0, 0, 0],       field(1)),
        ("data digest not agreed",              controller(none), [0x04, 2, 72, 72, 80, 0, 0, 0],      field(1)),
        ("data digest without data",            controller(both), [0x04, 3, 72, 0, 76, 0, 0, 0],       field(1)),
        ("data digest agreed but missing",      controller(both), [0x04, 1, 72, 76, 80, 0, 0, 0],      field(1)),
        ("SUCCESS without LAST",                host,             [0x07, 8, 24, 24, 28, 0, 0, 0],      field(1)),
        ("digest flag in the handshake",        early,            [0x00, 1, 128, 0, 132, 0, 0, 0],     field(1)),
        ("HLEN too short",                      controller(none), [0x04, 0, 71, 0, 72, 0, 0, 0],       field(2)),
        ("HLEN too long",                       controller(none), [0x06, 4, 28, 28, 32, 0, 0, 0],      field(2)),
        ("HLEN of ICReq",                       early,            [0x00, 0, 127, 0, 128, 0, 0, 0],     field(2)),
        ("PDO inside the header",               controller(none), [0x06, 4, 24, 20, 32, 0, 0, 0],      field(3)),
        ("PDO inside the header digest",        controller(both), [0x04, 3, 72, 72, 96, 0, 0, 0],      field(3)),
        ("PDO no multiple of 4",                controller(none), [0x06, 4, 24, 26, 32, 0, 0, 0],      field(3)),
        ("PDO not aligned as asked",            wide,             [0x06, 4, 24, 24, 32, 0, 0, 0],      field(3)),
        ("PLEN shorter than the header",        controller(none), [0x04, 0, 72, 0, 71, 0, 0, 0],       field(4)),
        ("PLEN leaves no room for the digest",  controller(both), [0x04, 1, 72, 0, 72, 0, 0, 0],       field(4)),
        ("PLEN ends before PDO",                controller(none), [0x06, 4, 24, 32, 28, 0, 0, 0],      field(4)),
        ("PLEN ends at PDO",                    controller(none), [0x06, 4, 24, 32, 32, 0, 0, 0],      field(4)),
        ("H2CData without data",                controller(none), [0x06, 4, 24, 24, 24, 0, 0, 0],      field(4)),
        ("response with bytes after it",        host,             [0x05, 0, 24, 0, 28, 0, 0, 0],       field(4)),
        ("in-capsule data beyond the limit",    controller(none), [0x04, 0, 72, 72, 73, 32, 0, 0],     field(4)),
        ("PLEN at its largest",                 controller(none), [0x04, 0, 72, 72, 255, 255, 255, 255], field(4)),
        ("ICReq with extra bytes",              early,            [0x00, 0, 128, 0, 132, 0, 0, 0],     field(4)),
        ("TermReq with too long a copy",        controller(none), [0x02, 0, 24, 0, 153, 0, 0, 0],      field(4)),
        ("command before the handshake",        early,            [0x04, 0, 72, 0, 72, 0, 0, 0],       Violation::SEQUENCE),
        ("data before the handshake",           early,            [0x06, 4, 24, 24, 28, 0, 0, 0],      Violation::SEQUENCE),
        ("second handshake",                    controller(none), [0x00, 0, 128, 0, 128, 0, 0, 0],     Violation::SEQUENCE),
    ];
    for (what, rules, bytes, expected) in cases {
        let (common, _) = CommonHeader::ref_from_prefix(&bytes).expect("8 bytes");
        assert_eq!(rules.layout(common), Err(expected), "{what}");
    }
}

#[test]
fn what_was_said_of_a_header_is_forgotten_with_the_rules() {
    let bytes = encode(Framing::HANDSHAKE, CapsuleCmd::new(Sqe::new(2)), 0, &[]);
    let mut reader = PduReader::new(rules(End::Controller, Digests::default(), 4));
    for _ in 0..2 {
        assert!(matches!(reader.next(&mut &bytes[..]), Ok(Some(Step::Header(_)))));
    }
    reader.set_rules(rules(End::Controller, Digests { header: true, data: false }, 4));
    assert_eq!(reader.next(&mut &bytes[..]), Err(Violation::field(1)), "its digest is missing");
}

#[test]
fn a_corrupt_header_is_refused_and_a_corrupt_payload_is_reported() {
    let digests = Digests { header: true, data: true };
    let framing = Framing { digests, alignment: 4 };
    let rules = rules(End::Controller, digests, 4);
    let good = encode(framing, H2cData::new(1, 2, 0, 64), FLAG_LAST, &[7; 64]);
    let received = u32::from_le_bytes(good[24..28].try_into().expect("4 bytes"));
    for at in 8..24 {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert_eq!(read(rules, &[&bad]), Err(Violation::header_digest(received)), "byte {at}");
    }
    for at in 28..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        let seen = read(rules, &[&bad]).expect("a corrupt payload does not end the connection");
        assert_eq!(seen.last(), Some(&Seen::End(false)), "byte {at}");
    }
}

/// A stream of PDUs to a controller, with digests and padding.
fn stream() -> (Rules, Vec<u8>) {
    let digests = Digests { header: true, data: true };
    let framing = Framing { digests, alignment: 16 };
    let mut bytes = encode(framing, CapsuleCmd::new(Sqe::new(1).with_cid(1)), 0, &[0x11; 40]);
    bytes.extend(encode(framing, CapsuleCmd::new(Sqe::new(2).with_cid(2)), 0, &[]));
    bytes.extend(encode(framing, H2cData::new(3, 4, 0, 33), 0, &[0x22; 33]));
    bytes.extend(encode(framing, H2cData::new(3, 4, 33, 1), FLAG_LAST, &[0x33; 1]));
    (rules(End::Controller, digests, 16), bytes)
}

#[test]
fn every_cut_in_two_and_byte_by_byte_reads_the_same() {
    let (rules, bytes) = stream();
    let whole = read(rules, &[&bytes]).expect("valid");
    assert_eq!(whole.len(), 3 * 3 + 1);
    for cut in 0..=bytes.len() {
        let (front, back) = bytes.split_at(cut);
        for places in [(false, false), (false, true), (true, false), (true, true)] {
            let seen = read_or_place(rules, &[(front, places.0), (back, places.1)]);
            assert_eq!(seen.expect("valid"), whole, "cut at {cut}, placed: {places:?}");
        }
    }
    for is_placed in [false, true] {
        let singles: Vec<(&[u8], bool)> = bytes.chunks(1).map(|byte| (byte, is_placed)).collect();
        assert_eq!(read_or_place(rules, &singles).expect("valid"), whole, "placed: {is_placed}");
    }
}

proptest! {
    #![proptest_config(crate::random_cases(256))]

    #[test]
    fn any_fragmentation_reads_the_same(
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..20),
        last_is_placed: bool,
        corrupt in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let (rules, mut bytes) = stream();
        if let Some(at) = corrupt {
            let at = at.index(bytes.len());
            bytes[at] ^= 0x10;
        }
        let mut cuts: Vec<(usize, bool)> = cuts.iter().map(|(cut, place)| (cut.index(bytes.len()), *place)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for (cut, is_placed) in cuts {
            pieces.push((&bytes[from..cut], is_placed));
            from = cut;
        }
        pieces.push((&bytes[from..], last_is_placed));
        prop_assert_eq!(read_or_place(rules, &pieces), read(rules, &[&bytes]));
    }
}

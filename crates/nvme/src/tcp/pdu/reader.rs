//! Splits a byte stream into headers and payload, however the network has fragmented it.
//!
//!   bytes --> [header] --> [padding] --> [payload ...] --> [data digest] --+
//!                ^---------------------------------------------------------+
//!
//! The caller may also have the payload received where it belongs, past this reader, and then tell of it (`on_placed`).
//!
//! A header is short and is collected here. It is checked as early as possible: the first 8 bytes determine
//! the layout, then the header digest is checked. Payload is never collected: it is passed on as slices of
//! the input, and its digest is updated on the way. A PDU without data is only a header.
//!
//! Holds: however the input is fragmented, and placed or not, the steps are the same once payload is joined
//!        (`any_fragmentation_reads_the_same`).

use super::common::CommonHeader;
use super::digest::{Crc32c, DIGEST_SIZE, crc32c};
use super::rules::{Layout, Rules};
use super::term::Violation;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Longest header with its digest: ICReq and ICResp have none, all others are shorter.
const HEADER_MAX: usize = 128;

/// Most payload bytes to digest and pass on in one step. They are then still in the first-level cache when
/// the caller copies them.
const DIGESTED_AT_ONCE: usize = 8 << 10;

/// The next step in the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A header is complete; read it with `PduReader::header`. Payload follows if `data_length` is not 0.
    Header(Layout),
    /// The next bytes of the payload.
    Payload(&'a [u8]),
    /// The payload is complete.
    End {
        /// The layout of its PDU.
        layout: Layout,
        /// Whether the data digest matches; true if there is none.
        intact: bool,
    },
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Collecting the 8 common bytes.
    Common,
    /// Collecting the rest of the header.
    Specific(Layout),
    /// Skipping the bytes before the data.
    Padding { layout: Layout, left: usize },
    /// Passing on data.
    Payload { layout: Layout, left: u32 },
    /// Collecting the data digest.
    Digest { layout: Layout, bytes: [u8; DIGEST_SIZE], filled: usize },
}

/// Parses one direction of a connection.
#[derive(Debug)]
pub struct PduReader {
    rules: Rules,
    state: State,
    /// The common headers that came last, with their layouts by the rules: most PDUs of a stream begin with
    /// the same eight bytes. One entry is for capsules, one for data, as those take turns.
    latest: [Option<([u8; CommonHeader::SIZE], Layout)>; 2],
    header: [u8; HEADER_MAX],
    filled: usize,
    crc: Crc32c,
}

impl PduReader {
    /// A reader at the start of a stream.
    pub fn new(rules: Rules) -> Self {
        PduReader {
            rules,
            state: State::Common,
            latest: [None; 2],
            header: [0; HEADER_MAX],
            filled: 0,
            crc: Crc32c::default(),
        }
    }

    /// Changes the rules, starting with the next header.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
        self.latest = [None; 2];
    }

    /// The current rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether the next byte starts a PDU.
    pub fn at_boundary(&self) -> bool {
        matches!(self.state, State::Common) && (self.filled == 0 || self.header_just_delivered())
    }

    /// Bytes of the present payload that are still to come.
    pub fn payload_left(&self) -> usize {
        match self.state {
            State::Payload { left, .. } => left as usize,
            _ => 0,
        }
    }

    /// Takes `bytes`, the next of the present payload, which have arrived at their place. If they are its last, `next`
    /// continues, with or without input.
    pub fn on_placed(&mut self, bytes: &[u8]) {
        if let State::Payload { layout, left } = &mut self.state {
            *left = left.checked_sub(bytes.len() as u32).expect("no more than the payload was placed");
            if layout.data_digest() {
                self.crc.update(bytes);
            }
        } else {
            assert!(bytes.is_empty(), "there is no payload to place");
        }
    }

    /// The header of the last `Step::Header`, as type `H`. `H` must be the type in its layout.
    pub fn header<H: FromBytes + Immutable + KnownLayout + Unaligned>(&self) -> &H {
        let (header, _) =
            H::ref_from_prefix(&self.header).expect("every header fits into the collected bytes");
        header
    }

    /// The bytes of the current header collected so far, without the digest.
    pub fn header_bytes(&self) -> &[u8] {
        if self.filled <= CommonHeader::SIZE {
            return &self.header[..self.filled];
        }
        // HLEN was checked before the ninth byte was taken.
        &self.header[..self.filled.min(usize::from(self.header[2]))]
    }

    /// Whether a complete header without data was just delivered. (Eight bytes never stay in `State::Common`:
    /// they become a layout or end the connection.)
    fn header_just_delivered(&self) -> bool {
        self.filled >= CommonHeader::SIZE
    }

    /// The next step; consumes bytes from the front of `input`. `None` if more bytes are needed; all of
    /// `input` is then consumed.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Step<'a>>, Violation> {
        loop {
            match self.state {
                State::Common => {
                    if self.header_just_delivered() {
                        self.filled = 0;
                    }
                    if let Some(layout) = self.whole_header(input) {
                        return self.after_header(layout).map(Some);
                    }
                    if !self.collect_header(input, CommonHeader::SIZE) {
                        return Ok(None);
                    }
                    let (common, _) = CommonHeader::ref_from_prefix(&self.header).expect("8 bytes collected");
                    self.state = State::Specific(self.rules.layout(common)?);
                }
                State::Specific(layout) => {
                    if !self.collect_header(input, usize::from(layout.header_end)) {
                        return Ok(None);
                    }
                    return self.after_header(layout).map(Some);
                }
                State::Padding { layout, left } => {
                    let skipped = left.min(input.len());
                    *input = &input[skipped..];
                    if skipped < left {
                        self.state = State::Padding { layout, left: left - skipped };
                        return Ok(None);
                    }
                    self.begin_payload(layout);
                }
                State::Payload { layout, left: 0 } => {
                    if !layout.data_digest() {
                        self.finish();
                        return Ok(Some(Step::End { layout, intact: true }));
                    }
                    self.state = State::Digest { layout, bytes: [0; DIGEST_SIZE], filled: 0 };
                }
                State::Payload { layout, left } => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let mut length = input.len().min(left as usize);
                    if layout.data_digest() {
                        length = length.min(DIGESTED_AT_ONCE);
                        self.crc.update(&input[..length]);
                    }
                    let (chunk, rest) = input.split_at(length);
                    *input = rest;
                    self.state = State::Payload { layout, left: left - chunk.len() as u32 };
                    return Ok(Some(Step::Payload(chunk)));
                }
                State::Digest { layout, mut bytes, filled } => {
                    let taken = (DIGEST_SIZE - filled).min(input.len());
                    bytes[filled..filled + taken].copy_from_slice(&input[..taken]);
                    *input = &input[taken..];
                    if filled + taken < DIGEST_SIZE {
                        self.state = State::Digest { layout, bytes, filled: filled + taken };
                        return Ok(None);
                    }
                    self.finish();
                    let intact = u32::from_le_bytes(bytes) == self.crc.value();
                    return Ok(Some(Step::End { layout, intact }));
                }
            }
        }
    }

    /// Ends the PDU; the next byte starts another one.
    fn finish(&mut self) {
        self.state = State::Common;
        self.filled = 0;
    }

    /// Collects header bytes until there are `wanted`. Returns whether there are.
    fn collect_header(&mut self, input: &mut &[u8], wanted: usize) -> bool {
        let taken = (wanted - self.filled).min(input.len());
        self.header[self.filled..self.filled + taken].copy_from_slice(&input[..taken]);
        self.filled += taken;
        *input = &input[taken..];
        self.filled == wanted
    }

    /// Checks the digest of a complete header, and begins its padding or payload.
    fn after_header(&mut self, layout: Layout) -> Result<Step<'static>, Violation> {
        if layout.header_digest() {
            self.check_header_digest(usize::from(layout.header_end) - DIGEST_SIZE)?;
        }
        match (layout.data_length, layout.padding) {
            (0, _) => self.state = State::Common,
            (_, 0) => self.begin_payload(layout),
            (_, padding) => self.state = State::Padding { layout, left: usize::from(padding) },
        }
        Ok(Step::Header(layout))
    }

    fn begin_payload(&mut self, layout: Layout) {
        self.crc = Crc32c::default();
        self.state = State::Payload { layout, left: layout.data_length };
    }

    /// Takes a header that is in `input` as a whole, as most are, in one go. Otherwise, and if it breaks a rule, `input` stays as
    /// it is.
    fn whole_header(&mut self, input: &mut &[u8]) -> Option<Layout> {
        if self.filled > 0 {
            return None;
        }
        let common = *input.first_chunk()?;
        let latest = &mut self.latest[usize::from(common[0] >> 1 & 1)];
        let layout = match *latest {
            Some((header, layout)) if header == common => layout,
            _ => {
                let layout = self.rules.layout(zerocopy::transmute_ref!(&common)).ok()?;
                *latest = Some((common, layout));
                layout
            }
        };
        let (header, rest) = input.split_at_checked(usize::from(layout.header_end))?;
        self.header[..header.len()].copy_from_slice(header);
        self.filled = header.len();
        *input = rest;
        Some(layout)
    }

    /// Checks the digest after the `length` bytes of the header.
    fn check_header_digest(&self, length: usize) -> Result<(), Violation> {
        let (header, digest) = self.header.split_at(length);
        let received = u32::from_le_bytes(digest[..DIGEST_SIZE].try_into().expect("4 bytes"));
        if received == crc32c(header) { Ok(()) } else { Err(Violation::header_digest(received)) }
    }
}

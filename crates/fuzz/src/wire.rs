//! PDUs as bytes: writes them, and reads what a connection sends.

use core::ops::Range;
use nvme::buffer::{Buffer, Outgoing};
use nvme::tcp::pdu::{Digests, Framing, Header, IcReq, IcResp, Layout, PduReader, PduType, Rules, Step};

/// Bytes as the peer receives them, and the room left for more.
#[derive(Debug)]
pub(crate) struct Wire {
    /// Written so far.
    pub(crate) bytes: Vec<u8>,
    /// Headers, payloads and digests that may still be written.
    pub(crate) room: usize,
}

impl Wire {
    /// Room for `room` headers; the payload and digest of the last one may follow.
    pub(crate) fn with_room(room: usize) -> Wire {
        Wire { bytes: Vec::new(), room }
    }
}

impl<B: Buffer> Outgoing<B> for Wire {
    fn header(&mut self, bytes: &[u8]) {
        self.room = self.room.saturating_sub(1);
        self.bytes.extend_from_slice(bytes);
    }

    fn payload(&mut self, buffer: B, range: Range<usize>) {
        self.bytes.extend_from_slice(&buffer.bytes()[range]);
    }

    fn room(&self) -> bool {
        self.room > 0
    }
}

/// One PDU, as a peer that follows the protocol writes it.
pub(crate) fn encode<H: Header>(framing: &Framing, header: H, flags: u8, data: &[u8]) -> Vec<u8> {
    let mut wire = Wire::with_room(usize::MAX);
    let length = u32::try_from(data.len()).expect("inputs are short");
    Framing::header::<Vec<u8>, H>(framing, &mut wire, header, flags, length);
    if !data.is_empty() {
        wire.bytes.extend_from_slice(data);
        wire.bytes.extend(framing.data_digest(data).into_iter().flatten());
    }
    wire.bytes
}

/// A PDU that was read.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Type, flags, lengths.
    pub(crate) layout: Layout,
    /// The header without its digest.
    pub(crate) header: Vec<u8>,
    /// The data.
    pub(crate) data: Vec<u8>,
    /// Whether the data digest, if there is one, is correct.
    pub(crate) intact: bool,
}

/// Reads what a connection sends, which must follow the protocol. Follows the handshake itself.
#[derive(Debug)]
pub(crate) struct Listener {
    reader: PduReader,
    partial: Option<Seen>,
}

impl Listener {
    /// Starts at the beginning of a connection.
    pub(crate) fn new(rules: Rules) -> Listener {
        Listener { reader: PduReader::new(rules), partial: None }
    }

    /// Remembers the digests that a handshake has agreed on.
    fn agree(&mut self, layout: Layout) {
        let granted = match layout.pdu_type {
            PduType::IcReq => self.reader.header::<IcReq>().dgst,
            PduType::IcResp => self.reader.header::<IcResp>().dgst,
            _ => return,
        };
        self.use_digests(Digests::from_wire(granted).expect("the sender follows the protocol"));
    }

    /// The handshake is over and agreed on these digests.
    pub(crate) fn use_digests(&mut self, digests: Digests) {
        self.reader.set_rules(Rules { handshake: false, digests, ..*self.reader.rules() });
    }

    /// The PDUs that end within `bytes`.
    ///
    /// # Panics
    /// If they violate the protocol.
    pub(crate) fn hear(&mut self, mut bytes: &[u8]) -> Vec<Seen> {
        let mut whole = Vec::new();
        loop {
            match self.reader.next(&mut bytes) {
                Ok(None) => return whole,
                Ok(Some(Step::Header(layout))) => {
                    let header = self.reader.header_bytes().to_vec();
                    self.agree(layout);
                    let seen = Seen { layout, header, data: Vec::new(), intact: true };
                    if layout.data_length == 0 {
                        whole.push(seen);
                    } else {
                        self.partial = Some(seen);
                    }
                }
                Ok(Some(Step::Payload(chunk))) => {
                    self.partial.as_mut().expect("a header came before").data.extend_from_slice(chunk);
                }
                Ok(Some(Step::End { intact, .. })) => {
                    let seen = self.partial.take().expect("a header came before");
                    whole.push(Seen { intact, ..seen });
                }
                Err(violation) => {
                    panic!("the connection sent {bytes:02x?} …, which violates the protocol: {violation}")
                }
            }
        }
    }
}

impl Seen {
    /// The header as `H`, which must match its type.
    pub(crate) fn header_as<H: Header>(&self) -> H {
        assert_eq!(self.layout.pdu_type, H::TYPE);
        H::read_from_bytes(&self.header).expect("the header has the length of its type")
    }
}

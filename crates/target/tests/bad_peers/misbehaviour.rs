//! What a bad host does all the time, for tests that look at the others meanwhile.

use crate::OTHER;
use crate::common::{BLOCK, rw};
use crate::raw::Raw;
use nvme::pdu::{Digests, IcReq};
use nvme::spec::Sgl;
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::opcode::nvm;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where bad hosts come from.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misbehaviour {
    /// Two hundred connections that say nothing.
    SilentCrowd,
    /// Connects and closes, again and again.
    ConnectStorm,
    /// Connects a whole admin queue and resets it, again and again.
    AdminStorm,
    /// Sends nonsense, again and again.
    Nonsense,
    /// Asks for 127 reads of 128 KiB and never takes them; after two seconds once more.
    NeverReads,
    /// Announces 127 writes of 1 MiB and never sends them; after two seconds once more.
    NeverSends,
    /// Announces a write and sends its data byte by byte.
    Trickles,
    /// The same identifier, as fast as it can.
    DuplicateIdentifiers,
    /// Keeps 1023 reads of 128 KiB outstanding, whatever its credits are.
    IgnoresCredits,
    /// None: keeps 32 reads of 128 KiB outstanding, as a busy host does that everybody has to share with.
    Busy,
}

impl Misbehaviour {
    pub(super) const ALL: [Misbehaviour; 9] = [
        Misbehaviour::SilentCrowd,
        Misbehaviour::ConnectStorm,
        Misbehaviour::AdminStorm,
        Misbehaviour::Nonsense,
        Misbehaviour::NeverReads,
        Misbehaviour::NeverSends,
        Misbehaviour::Trickles,
        Misbehaviour::DuplicateIdentifiers,
        Misbehaviour::IgnoresCredits,
    ];

    /// Whether it keeps the SSD busy, of which a share is its due: others are to fare as beside `Busy`.
    pub(super) fn does_io(self) -> bool {
        matches!(self, Misbehaviour::NeverReads | Misbehaviour::IgnoresCredits | Misbehaviour::Busy)
    }

    /// Misbehaves until `stop`; tells by `begun` when it is well under way.
    pub(super) fn run(self, address: SocketAddr, begun: &AtomicBool, stop: &AtomicBool) {
        let mut crowd = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            // A target that refuses, closes or is too busy is what a bad host has to expect.
            let _ = self.once(address, &mut crowd, begun, stop);
            begun.store(true, Ordering::Relaxed);
        }
    }

    fn once(
        self,
        address: SocketAddr,
        crowd: &mut Vec<Raw>,
        begun: &AtomicBool,
        stop: &AtomicBool,
    ) -> Option<()> {
        let goes_on = || {
            begun.store(true, Ordering::Relaxed);
            !stop.load(Ordering::Relaxed)
        };
        let mut raw = Raw::open_from(SOURCE, address).ok()?;
        match self {
            Misbehaviour::SilentCrowd => {
                crowd.push(raw);
                while crowd.len() == 200 && goes_on() {
                    pause();
                }
            }
            Misbehaviour::ConnectStorm => {}
            Misbehaviour::Nonsense => raw.send(&[0xa5; 4096]),
            Misbehaviour::AdminStorm => {
                raw.enter(0, CNTLID_DYNAMIC, 32)?;
                raw.reset();
            }
            Misbehaviour::NeverReads | Misbehaviour::NeverSends => {
                let (_admin, mut io) = queue(raw, address, 128)?;
                let (opcode, blocks) =
                    if self == Misbehaviour::NeverReads { (nvm::READ, 32) } else { (nvm::WRITE, 256) };
                for cid in 0..127 {
                    let sgl = Sgl::Transport { length: (blocks * BLOCK) as u32 };
                    io.command(rw(opcode, 1, 0, blocks).with_cid(cid).with_sgl(sgl), &[]);
                }
                for _ in 0..400 {
                    if !goes_on() {
                        break;
                    }
                    pause();
                }
                drop(io);
            }
            Misbehaviour::Trickles => {
                let (_admin, mut io) = queue(raw, address, 128)?;
                let sgl = Sgl::Transport { length: 256 * BLOCK as u32 };
                io.command(rw(nvm::WRITE, 1, 0, 256).with_cid(1).with_sgl(sgl), &[]);
                let ttag = io.next_pdu().map(|r2t| u16::from_le_bytes([r2t[10], r2t[11]]))?;
                let data = nvme::pdu::H2cData::new(1, ttag, 0, 256 * BLOCK as u32);
                let data = io.pdu(data, nvme::pdu::common::FLAG_LAST, &vec![0; 256 * BLOCK]);
                for byte in data {
                    io.send(&[byte]);
                    if !goes_on() || io.has_been_closed() {
                        break;
                    }
                }
            }
            Misbehaviour::DuplicateIdentifiers => {
                let (_admin, mut io) = queue(raw, address, 128)?;
                let sgl = Sgl::Transport { length: BLOCK as u32 };
                let command = nvme::pdu::CapsuleCmd::new(rw(nvm::READ, 1, 0, 1).with_cid(1).with_sgl(sgl));
                let commands = io.pdu(command, 0, &[]).repeat(16);
                while goes_on() {
                    io.send(&commands);
                    for _ in 0..16 {
                        io.next_pdu()?;
                    }
                }
            }
            Misbehaviour::IgnoresCredits | Misbehaviour::Busy => {
                let entries: u16 = if self == Misbehaviour::Busy { 33 } else { 1024 };
                let (_admin, mut io) = queue(raw, address, u32::from(entries))?;
                let read = |cid: u16| {
                    let lba = u64::from(cid) * 32;
                    rw(nvm::READ, 1, lba, 32)
                        .with_cid(cid)
                        .with_sgl(Sgl::Transport { length: 32 * BLOCK as u32 })
                };
                (0..entries - 1).for_each(|cid| io.command(read(cid), &[]));
                while goes_on() {
                    let pdu = io.next_pdu()?;
                    io.command(read(u16::from_le_bytes([pdu[8], pdu[9]])), &[]);
                }
            }
        }
        Some(())
    }
}

/// An IO queue of the bad host, `raw` its admin queue.
fn queue(mut raw: Raw, address: SocketAddr, entries: u32) -> Option<(Raw, Raw)> {
    let controller_id = raw.enter(0, CNTLID_DYNAMIC, 32)?;
    raw.enable();
    let mut io = Raw::open_from(SOURCE, address).ok()?;
    io.enter(1, controller_id, entries)?;
    Some((raw, io))
}

impl Raw {
    /// Handshake and Connect of the bad host; the controller's identifier.
    fn enter(&mut self, queue_id: u16, controller_id: u16, entries: u32) -> Option<u16> {
        let request = self.pdu(IcReq::new(0, Digests::default().to_wire(), 0), 0, &[]);
        self.send(&request);
        self.next_pdu()?;
        let connect = self.connect_pdu(queue_id, entries, controller_id, OTHER, 0);
        self.send(&connect);
        let response = self.next_pdu()?;
        (response.len() == 24 && response[22..24] == [0, 0])
            .then(|| u16::from_le_bytes([response[8], response[9]]))
    }

    /// Whether the target has closed it, provided that it has nothing to say before.
    fn has_been_closed(&mut self) -> bool {
        self.stream.set_nonblocking(true).expect("a socket option");
        let is_over =
            matches!(self.stream.peek(&mut [0]), Ok(0)) || !matches!(self.stream.take_error(), Ok(None));
        self.stream.set_nonblocking(false).expect("a socket option");
        is_over
    }
}

/// Leaves the processor to the others: what a bad host does not do takes no time.
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

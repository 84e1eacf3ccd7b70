//! Bad hosts, for tests that measure other hosts meanwhile.

use crate::OTHER;
use crate::common::{BLOCK, rw};
use crate::raw::Raw;
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::opcode::nvm;
use nvme::spec::{Sgl, Sqe};
use nvme::tcp::pdu::{Digests, IcReq};
use socket2::SockRef;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// The address of bad hosts.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Misbehaviour {
    /// Opens two hundred connections that send nothing.
    SilentCrowd,
    /// Connects and closes in a loop.
    ConnectStorm,
    /// Connects an admin queue and resets its connection in a loop.
    AdminStorm,
    /// Sends nonsense in a loop.
    Nonsense,
    /// Asks for 127 reads of 128 KiB and never receives them, on a new connection every half second.
    NeverReads,
    /// Announces 127 writes of 1 MiB and never sends their data; repeats this every two seconds.
    NeverSends,
    /// Announces a write and sends its data byte by byte.
    Trickles,
    /// Reads the same block with the same identifier, as fast as it can: one command is outstanding, the others are refused.
    DuplicateIdentifiers,
    /// Keeps 1023 reads of 128 KiB outstanding and ignores its credits.
    IgnoresCredits,
    /// No misbehaviour: keeps 32 reads of 128 KiB outstanding, as a busy host does.
    Busy,
    /// No misbehaviour: reads one block in a loop.
    Modest,
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

    /// A good host with the same IO. Other hosts must get as much next to the bad host as next to this one. `None`: the bad host does no
    /// IO.
    pub(super) fn stand_in(self) -> Option<Misbehaviour> {
        match self {
            Misbehaviour::NeverReads | Misbehaviour::IgnoresCredits => Some(Misbehaviour::Busy),
            Misbehaviour::DuplicateIdentifiers => Some(Misbehaviour::Modest),
            _ => None,
        }
    }

    /// Misbehaves until `stop`. `begun` gets a message when it is in full progress.
    pub(super) fn run(self, address: SocketAddr, begun: &SyncSender<()>, stop: &AtomicBool) {
        let mut crowd = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            // A bad host must expect that the target refuses, closes or is busy.
            let _ = self.once(address, &mut crowd, begun, stop);
            let _ = begun.try_send(());
        }
    }

    fn once(
        self,
        address: SocketAddr,
        crowd: &mut Vec<Raw>,
        begun: &SyncSender<()>,
        stop: &AtomicBool,
    ) -> Option<()> {
        let goes_on = || {
            let _ = begun.try_send(());
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
            Misbehaviour::NeverReads => {
                // Some reads must always wait in the target; otherwise the other hosts would have the SSD for themselves.
                const QUEUES: usize = 8;
                let (admin, mut io) = queue(raw, address, 128)?;
                SockRef::from(&io.stream).set_recv_buffer_size(BLOCK).expect("a socket option");
                (0..127).for_each(|cid| io.command(large_read(cid, cid.into()), &[]));
                crowd.extend([admin, io]);
                crowd.drain(..crowd.len().saturating_sub(2 * QUEUES));
                pause_for(Duration::from_millis(500), goes_on);
            }
            Misbehaviour::NeverSends => {
                let (_admin, mut io) = queue(raw, address, 128)?;
                (0..127).for_each(|cid| io.command(transfer(nvm::WRITE, cid, 256), &[]));
                pause_for(Duration::from_secs(2), goes_on);
            }
            Misbehaviour::Trickles => {
                let (_admin, mut io) = queue(raw, address, 128)?;
                io.command(transfer(nvm::WRITE, 1, 256), &[]);
                let ttag = io.next_pdu().map(|r2t| u16::from_le_bytes([r2t[10], r2t[11]]))?;
                let data = nvme::tcp::pdu::H2cData::new(1, ttag, 0, 256 * BLOCK as u32);
                let data = io.pdu(data, nvme::tcp::pdu::common::FLAG_LAST, &vec![0; 256 * BLOCK]);
                for byte in data {
                    io.send(&[byte]);
                    if !goes_on() || io.has_been_closed() {
                        break;
                    }
                }
            }
            Misbehaviour::DuplicateIdentifiers => {
                let (_admin, mut io) = queue(raw, address, 128)?;
                let command = nvme::tcp::pdu::CapsuleCmd::new(transfer(nvm::READ, 1, 1));
                let command = io.pdu(command, 0, &[]);
                io.send(&command);
                let conflicts = command.repeat(15);
                while goes_on() {
                    // Does not wait for the outstanding read.
                    io.send(&conflicts);
                    for _ in 0..15 {
                        io.next_pdu()?;
                    }
                }
            }
            Misbehaviour::IgnoresCredits | Misbehaviour::Busy => {
                let entries: u16 = if self == Misbehaviour::Busy { 33 } else { 1024 };
                let (_admin, mut io) = queue(raw, address, u32::from(entries))?;
                (0..entries - 1).for_each(|cid| io.command(large_read(cid, cid.into()), &[]));
                let mut count = u64::from(entries - 1);
                while goes_on() {
                    let pdu = io.next_pdu()?;
                    io.command(large_read(u16::from_le_bytes([pdu[8], pdu[9]]), count), &[]);
                    count += 1;
                }
            }
            Misbehaviour::Modest => {
                let (_admin, mut io) = queue(raw, address, 128)?;
                while goes_on() {
                    io.command(transfer(nvm::READ, 1, 1), &[]);
                    io.next_pdu()?;
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

    /// Whether the target has closed the connection, if it sends nothing before.
    fn has_been_closed(&mut self) -> bool {
        self.stream.set_nonblocking(true).expect("a socket option");
        let is_over =
            matches!(self.stream.peek(&mut [0]), Ok(0)) || !matches!(self.stream.take_error(), Ok(None));
        self.stream.set_nonblocking(false).expect("a socket option");
        is_over
    }
}

/// A command on the first blocks.
fn transfer(opcode: u8, cid: u16, blocks: usize) -> Sqe {
    rw(opcode, 1, 0, blocks).with_cid(cid).with_sgl(Sgl::Transport { length: (blocks * BLOCK) as u32 })
}

/// Read number `number`, of reads of 128 KiB that go through the first 128 MiB in a loop.
fn large_read(cid: u16, number: u64) -> Sqe {
    const BLOCKS: usize = 32;
    let sgl = Sgl::Transport { length: (BLOCKS * BLOCK) as u32 };
    rw(nvm::READ, 1, number % 1024 * BLOCKS as u64, BLOCKS).with_cid(cid).with_sgl(sgl)
}

/// Leaves the processor to other hosts while the bad host has nothing to do.
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

/// Pauses for a while, or until `stop`.
fn pause_for(span: Duration, goes_on: impl Fn() -> bool) {
    let end = Instant::now() + span;
    while goes_on() && Instant::now() < end {
        pause();
    }
}

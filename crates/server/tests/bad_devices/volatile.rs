//! Volatile writes: hosts read what they wrote, and the medium has it after a flush and not before.

use crate::bed::*;
use crate::common::{HOST, backends, start};
use host::{Controller, Operation};
use nvme::spec::Status;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use server::config::{BackendChoice, DeviceKind, FaultConfig, FaultKind, FaultPattern};
use server::{ServerHandle, Shutdown};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::Bytes;

/// Blocks in use.
const USED: u64 = 600;
/// Each IO of a batch has its own range of blocks, so that all can be outstanding together.
const LANES: u64 = 12;
const LANE: u64 = USED / LANES;

/// A target over a file whose writes are volatile, or some of them.
struct Bed {
    server: ServerHandle,
    controller: Controller,
    folder: PathBuf,
    random: SplitMix64,
    /// What a host must read, and what is on the medium, block by block.
    current: Vec<u8>,
    stable: Vec<u8>,
}

impl Bed {
    fn new(backend: BackendChoice, pattern: FaultPattern, name: &str) -> Bed {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("volatile-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let (path, size) = (folder.join("medium"), Some(Bytes::mib(256)));
        let kind = DeviceKind::File { path, size, create: true, direct: false };
        let volatile = FaultConfig { pattern, seed: 3, ..FaultConfig::new(FaultKind::Volatile) };
        let server = start(config(backend, kind, vec![volatile]));
        let controller = connect(&client(), server.addresses()[0], BAD, HOST);
        let blocks = vec![0; USED as usize];
        let random = SplitMix64::seed_from_u64(11);
        Bed { server, controller, folder, random, stable: blocks.clone(), current: blocks }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    /// An IO in blocks `from` to `from + space`.
    fn draw(&mut self, from: u64, space: u64) -> (Operation, u64, u64, u8) {
        let operation = match self.below(20) {
            0..7 => Operation::Read,
            7..14 => Operation::Write { durable: false },
            14..16 => Operation::Write { durable: true },
            16 => Operation::WriteZeroes { deallocate: false },
            17 => Operation::Deallocate,
            _ => return (Operation::Flush, 0, 0, 0),
        };
        let blocks = 1 + self.below(LANE.min(8));
        (operation, from + self.below(space - blocks), blocks, self.below(255) as u8 + 1)
    }

    /// The model: what the IO has changed, and what a read must have found.
    fn account(&mut self, operation: Operation, lba: u64, blocks: u64, fill: u8, read: Option<&[u8]>) {
        let range = lba as usize..(lba + blocks) as usize;
        match operation {
            Operation::Write { durable } => {
                self.current[range.clone()].fill(fill);
                if durable {
                    self.stable[range].fill(fill);
                }
            }
            Operation::WriteZeroes { .. } | Operation::Deallocate => {
                self.current[range.clone()].fill(0);
                self.stable[range].fill(0);
            }
            Operation::Flush => self.stable.copy_from_slice(&self.current),
            _ => {
                let bytes = read.expect("a read brings data");
                for (block, bytes) in range.zip(bytes.chunks(BLOCK as usize)) {
                    let known = self.current[block];
                    assert!(bytes.iter().all(|&byte| byte == known), "block {block} is not {known:#x}");
                }
            }
        }
    }

    fn one(&mut self, (operation, lba, blocks, fill): (Operation, u64, u64, u8)) {
        let outcome = submit(&self.controller, 1, operation, lba, blocks, fill).wait();
        assert_eq!(status(&outcome), Status::SUCCESS, "{operation:?} of {blocks} blocks at {lba}");
        self.account(operation, lba, blocks, fill, outcome.buffer.as_deref());
    }

    /// One IO in each lane, all outstanding together.
    fn batch(&mut self) {
        let drawn: Vec<_> = (0..LANES).map(|lane| self.draw(lane * LANE, LANE)).collect();
        let pending: Vec<_> = drawn
            .iter()
            .map(|&(operation, lba, blocks, fill)| submit(&self.controller, 1, operation, lba, blocks, fill))
            .collect();
        for (&(operation, lba, blocks, fill), io) in drawn.iter().zip(pending) {
            let outcome = io.wait();
            assert_eq!(status(&outcome), Status::SUCCESS, "{operation:?} of {blocks} blocks at {lba}");
            self.account(operation, lba, blocks, fill, outcome.buffer.as_deref());
        }
    }

    /// Stops the target in order. Then everything is on the medium.
    fn stop(self) {
        let Bed { server, controller, folder, current, .. } = self;
        drop(controller);
        assert_eq!(server.shutdown(Duration::from_secs(60)), Shutdown::Complete);
        assert_eq!(medium(&folder), current);
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}

/// The blocks on the medium, each of which holds one byte again and again.
fn medium(folder: &Path) -> Vec<u8> {
    let mut bytes = vec![0; (USED * BLOCK) as usize];
    File::open(folder.join("medium")).and_then(|mut file| file.read_exact(&mut bytes)).expect("readable");
    let whole = |block: &[u8]| {
        assert!(block.iter().all(|byte| *byte == block[0]), "a block is whole");
        block[0]
    };
    bytes.chunks(BLOCK as usize).map(whole).collect()
}

#[test]
fn the_medium_has_what_was_flushed_or_durable_and_nothing_else() {
    for backend in backends() {
        let mut bed = Bed::new(backend, FaultPattern::Every(1), "alone");
        let mut differed = 0;
        for round in 0..60 {
            for _ in 0..=bed.below(20) {
                let drawn = bed.draw(0, USED);
                bed.one(drawn);
            }
            assert_eq!(medium(&bed.folder), bed.stable, "round {round}");
            differed += usize::from(bed.stable != bed.current);
        }
        assert!(differed > 20, "something was volatile in {differed} of 60 rounds");
        bed.stop();
    }
}

#[test]
fn hosts_read_what_they_wrote_whatever_is_volatile() {
    for backend in backends() {
        let mut bed = Bed::new(backend, FaultPattern::Thousandths(500), "together");
        (0..150).for_each(|_| bed.batch());
        bed.one((Operation::Flush, 0, 0, 0));
        assert_eq!(medium(&bed.folder), bed.current);
        assert!(is_at_rest(&bed.server), "every slot, every buffer is back");
        bed.stop();
    }
}

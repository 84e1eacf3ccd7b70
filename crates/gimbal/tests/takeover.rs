//! Two processes before one back-end: one is killed, stopped for a while, or releases the group, and the other one takes over by
//! `gimbal ctl`.

#![cfg(target_os = "linux")]

#[path = "../../server/tests/common/mod.rs"]
mod common;
mod pair;
mod process;
#[path = "linux/scratch.rs"]
mod scratch;

use common::{BLOCK, Client, Options, pattern, rw, until};
use nvme::spec::Status;
use nvme::spec::opcode::nvm;
use nvme::tcp::Transfer;
use pair::{Front, NQN, Pair};
use scratch::Scratch;
use std::fs::{self, DirEntry};
use std::time::{Duration, Instant};

const BLOCKS: u64 = 64;
/// Writes under way when something happens.
const UNDER_WAY: u64 = 8;

fn client(front: &Front) -> Client {
    Client::with(front.address(), &Options { subsystem: NQN.to_owned(), ..Options::default() })
}

/// Stops the process, and waits until each thread of it stands still.
fn stop(front: &Front) {
    front.signal("-STOP");
    let is_still = |task: std::io::Result<DirEntry>| {
        let stat = fs::read_to_string(task.expect("readable").path().join("stat")).unwrap_or_default();
        // After the name, which may have spaces.
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    };
    let tasks = format!("/proc/{}/task", front.id());
    until(|| fs::read_dir(&tasks).expect("it is there").all(is_still));
}

/// The event of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Killed,
    Stopped,
    Released,
}

/// The number of the last answered write of each block.
struct Disk {
    last: Vec<Option<u64>>,
    number: u64,
}

impl Disk {
    fn write(&mut self, client: &mut Client, block: u64) {
        self.number += 1;
        assert_eq!(client.write(1, block, &pattern(self.number, BLOCK)), Status::SUCCESS);
        self.last[block as usize] = Some(self.number);
    }

    /// Sends writes without waiting. Returns their numbers by command and block.
    fn begin(&mut self, client: &mut Client) -> Vec<(u16, u64, u64)> {
        let one = |block| {
            self.number += 1;
            let data = Transfer::ToController(pattern(self.number, BLOCK), BLOCK as u32);
            (client.io.submit(rw(nvm::WRITE, 1, block, 1), data), block, self.number)
        };
        (0..UNDER_WAY).map(one).collect()
    }

    /// Takes the answers, as far as they come. Only those of the path may fail. Returns the blocks of writes that succeeded.
    fn end(&mut self, client: &mut Client, mut begun: Vec<(u16, u64, u64)>) -> Vec<(u64, u64)> {
        let mut written = Vec::new();
        while !begun.is_empty() {
            let Some((cqe, _)) = client.io.next() else { break };
            let place = begun.iter().position(|(cid, ..)| *cid == cqe.cid()).expect("it is ours");
            let (_, block, number) = begun.swap_remove(place);
            match cqe.status() {
                Status::SUCCESS => written.push((block, number)),
                Status::INTERNAL_PATH_ERROR | Status::ANA_INACCESSIBLE => {}
                other => panic!("a write fails with {other:?}"),
            }
        }
        written
    }

    fn check(&self, client: &mut Client) {
        for (block, last) in self.last.iter().enumerate() {
            let Some(last) = last else { continue };
            let read = client.read(1, block as u64, 1).expect("readable");
            assert!(read == pattern(*last, BLOCK), "block {block} has not write {last}");
        }
    }
}

/// Rounds of each event in turn, with the gaps of IO printed.
fn rounds(name: &str, count: u64) {
    let mut pair = Pair::new(name);
    let (mut holder, mut other) = (&mut pair.left, &mut pair.right);
    let mut disk = Disk { last: vec![None; BLOCKS as usize], number: 0 };
    let mut generation = 1;
    holder.take_over(generation);
    let mut near = client(holder);
    for event in [Event::Killed, Event::Stopped, Event::Released] {
        let mut gaps: Vec<Duration> = Vec::new();
        for _ in 0..count {
            (0..BLOCKS).for_each(|block| disk.write(&mut near, block));
            let mut far = client(other);
            assert_eq!(far.write(1, 0, &pattern(0, BLOCK)), Status::ANA_INACCESSIBLE);
            if event == Event::Stopped {
                stop(holder);
            }
            let begun = disk.begin(&mut near);
            let began = Instant::now();
            let mut ended = None;
            match event {
                Event::Killed => holder.kill(),
                Event::Stopped => {}
                Event::Released => {
                    holder.release();
                    ended = Some(disk.end(&mut near, begun.clone()));
                }
            }
            // Those that were answered before the other one writes; of others it is unknown, so they are written again.
            for (block, number) in ended.iter().flatten() {
                disk.last[*block as usize] = Some(*number);
            }
            generation += 1;
            other.take_over(generation);
            disk.write(&mut far, 0);
            gaps.push(began.elapsed());
            (1..UNDER_WAY).for_each(|block| disk.write(&mut far, block));
            if event == Event::Stopped {
                holder.signal("-CONT");
                let late = disk.end(&mut near, begun);
                assert_eq!(late, [], "late writes of a stopped target have succeeded");
                until(|| holder.held().is_none());
            }
            disk.check(&mut far);
            if event == Event::Killed {
                holder.restart();
                assert_eq!(holder.held(), None, "it has to be told");
            }
            assert_eq!(other.held(), Some(generation));
            std::mem::swap(&mut holder, &mut other);
            near = far;
        }
        gaps.sort();
        let (median, worst) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
        println!("{event:?}: {count} rounds, gap of IO {median:.1?} in the median, {worst:.1?} at worst");
    }
}

#[test]
fn a_group_moves_between_processes_and_no_late_write_lands() {
    rounds("takeover", 3);
}

#[test]
#[ignore = "as the one before, for longer"]
fn a_group_moves_between_processes_again_and_again() {
    rounds("takeover-long", 20);
}

//! Commands that a controller answers with data of its own: log pages, Identify, reports.
//!
//! No scheduler sees them, and the memory and the work that they cost are the thread's. So each is let through only when
//!
//! - it is paid for: a payer (`account`) has `limits.reply_rate` bytes per second, after a burst of one transfer;
//! - what it may hold until it is sent was granted.
//!
//! Otherwise it waits in its connection. Those that wait pay in turn, a little each time: whoever asks for a megabyte does not hold
//! up who asks for a page, also where both are paid for by one address. Commands without such data never wait: Keep Alive, for one.
//!
//! Holds: a payer gets the burst and the rate, however many commands and connections it has, and a small command is not behind a
//!        large one of somebody else (`who_asks_for_little_is_not_behind_who_asks_for_much`;
//!        `log_pages_in_a_loop_are_paid_for` in `tests/bad_peers/replies.rs`).

use crate::account::{Account, ConnectionAccount, Payer, Permit, REPLIES_MAX, REPLY_REST};
use crate::config::Limits;
use crate::slab::Key;
use nvme::spec::opcode::nvm;
use nvme::spec::{Direction, Sqe};
use std::collections::VecDeque;
use std::sync::Arc;
use units::Instant;

/// What is paid at a time for a command that waits.
const QUANTUM: u64 = 4096;

/// How fast a payer may be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyRate {
    /// Bytes per second.
    rate: u64,
    /// Bytes at once.
    burst: u64,
}

impl ReplyRate {
    /// As the configuration has it.
    pub(crate) fn of(limits: &Limits) -> ReplyRate {
        ReplyRate { rate: limits.reply_rate.0, burst: limits.transfer_max.get() }
    }
}

/// Bytes of the controller's own that `sqe` asks for: on the admin queue all that is read, on others reports of reservations.
pub(crate) fn asked_of_controller(sqe: &Sqe, is_admin: bool) -> u64 {
    let is_asked = sqe.direction() == Direction::FromController
        && (is_admin || (!sqe.is_fabrics() && sqe.opcode() == nvm::RESERVATION_REPORT));
    if is_asked { u64::from(sqe.sgl_length()) } else { 0 }
}

/// What was paid for a command that waits.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    paid: u64,
}

/// Why a command goes on waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Something was paid; it comes round again.
    Turn,
    /// Nothing can be paid before this.
    Until(Instant),
    /// What was answered before has to be sent first.
    Sending,
}

/// Commands of one connection that wait until their replies may be held; the transport bounds them by the entries of the queue.
#[derive(Default)]
pub(crate) struct Backlog {
    /// In the order in which they came. The first is being paid for.
    pub(crate) commands: VecDeque<Sqe>,
    /// What was paid for the first.
    pub(crate) owed: Owed,
}

/// Lets a command that asks for `length` bytes through at once, if it may go.
pub(crate) fn admit(
    account: &Arc<ConnectionAccount>,
    now: Instant,
    length: u64,
    rate: ReplyRate,
) -> Result<Permit, Wait> {
    let permit = account.take(Account::Reply, length.min(REPLIES_MAX)).ok_or(Wait::Sending)?;
    pay(account.payer(), now, length, rate).map(|()| permit)
}

impl Owed {
    /// The turn of a command that has waited and asks for `length` bytes.
    pub(crate) fn turn(
        &mut self,
        account: &Arc<ConnectionAccount>,
        now: Instant,
        length: u64,
        rate: ReplyRate,
    ) -> Result<Permit, Wait> {
        if self.paid < length {
            let part = QUANTUM.min(length - self.paid);
            pay(account.payer(), now, part, rate)?;
            self.paid += part;
            if self.paid < length {
                return Err(Wait::Turn);
            }
        }
        let permit = account.take(Account::Reply, length.min(REPLIES_MAX)).ok_or(Wait::Sending)?;
        self.paid = 0;
        Ok(permit)
    }
}

fn pay(payer: &Payer, now: Instant, size: u64, rate: ReplyRate) -> Result<(), Wait> {
    payer.pays_reply(now, size, rate.rate, rate.burst).map_err(Wait::Until)
}

/// Connections with commands that wait.
#[derive(Default)]
pub(crate) struct Deferred {
    keys: VecDeque<Key>,
    /// When to look again; nothing while replies have to be sent first.
    at: Option<Instant>,
}

impl Deferred {
    /// A connection's first command waits.
    pub(crate) fn push(&mut self, now: Instant, key: Key) {
        self.keys.push_back(key);
        self.wake(now + REPLY_REST);
    }

    /// Replies were sent, or there is another reason to look at `at`.
    pub(crate) fn wake(&mut self, at: Instant) {
        if !self.keys.is_empty() {
            self.at = Some(self.at.map_or(at, |before| before.min(at)));
        }
    }

    /// When to `serve` at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Gives everybody a turn, until nobody can go on. `turn` answers `None` for a connection of which no command waits any more.
    pub(crate) fn serve(&mut self, now: Instant, mut turn: impl FnMut(Key) -> Option<Wait>) {
        if self.at.is_none_or(|at| now < at) {
            return;
        }
        let mut next: Option<Instant> = None;
        let mut stuck = 0;
        while stuck < self.keys.len() {
            let key = self.keys.pop_front().expect("there are more than are stuck");
            match turn(key) {
                None => stuck = 0,
                Some(wait) => {
                    self.keys.push_back(key);
                    stuck = if wait == Wait::Turn { 0 } else { stuck + 1 };
                    if let Wait::Until(at) = wait {
                        next = Some(next.map_or(at, |before| before.min(at)));
                    }
                }
            }
        }
        self.at = next.map(|at| at.max(now + REPLY_REST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Accounts, HostAccount, Supply};
    use std::net::Ipv4Addr;
    use units::{Bytes, Nanos};

    #[test]
    fn who_asks_for_little_is_not_behind_who_asks_for_much() {
        const MANY: usize = 100;
        let mut accounts =
            Accounts::new([Supply { limit: Bytes::mib(64), floor_max: Bytes::ZERO, first: Bytes::ZERO }; 4]);
        let payer = accounts.payer(None, Ipv4Addr::LOCALHOST.into());
        let connect = || ConnectionAccount::new(Bytes::mib(1), HostAccount::new(None), Arc::clone(&payer));
        let rate = ReplyRate { rate: 1 << 20, burst: 64 << 10 };
        let mut now = Instant::ZERO + Nanos::secs(1);
        // All at one address: a hundred that ask for a megabyte again and again, and one that asks for a page.
        let mut links: Vec<_> = (0..=MANY).map(|_| (connect(), Owed::default())).collect();
        let mut deferred = Deferred::default();
        (0..=MANY as u32).for_each(|index| deferred.push(now, Key::new(index, 0)));
        let (mut large, mut small_at) = (0, None);
        let start = now;
        while now < start + Nanos::secs(10) {
            now = deferred.deadline().expect("they wait to pay");
            deferred.serve(now, |key| {
                let (account, owed) = &mut links[key.index()];
                let length = if key.index() == MANY { 4096 } else { 1 << 20 };
                match owed.turn(account, now, length, rate) {
                    Err(wait) => Some(wait),
                    Ok(_) if key.index() == MANY => {
                        small_at = Some(now);
                        None
                    }
                    Ok(_) => {
                        large += 1;
                        Some(Wait::Turn)
                    }
                }
            });
        }
        let waited = small_at.expect("it was answered").saturating_since(start);
        assert!(
            waited <= Nanos::millis(600),
            "one page of each of the others was before it, not more: {waited}"
        );
        assert!(large <= 11, "{large} megabytes in ten seconds at one a second");
    }
}

//! Commands that a controller answers with data of its own: log pages, Identify, reports.
//!
//! No scheduler sees them; they cost memory and work of the connection's thread. So such a command is executed only when
//!
//! - its payer (`account`) has paid for it: a payer gets `limits.reply_rate` bytes per second, and a burst of one transfer;
//! - memory for its reply was granted.
//!
//! Otherwise it waits in its connection. Waiting commands pay in turn, a small amount each time. So a command that asks for a
//! megabyte does not delay one that asks for a page, even if one address pays for both. Commands without such data (Keep Alive,
//! for example) never wait.
//!
//! Holds: a payer gets the burst and the rate, whatever the number of its commands and connections; a small command does not wait for
//!        large ones (`a_small_reply_does_not_wait_for_large_ones`; `log_pages_in_a_loop_are_paid_for` in `tests/bad_peers/replies.rs`).

use crate::account::{Account, ConnectionAccount, Payer, Permit, REPLIES_MAX, REPLY_REST};
use crate::config::Limits;
use crate::slab::Key;
use nvme::spec::opcode::nvm;
use nvme::spec::{Direction, Sqe};
use std::collections::VecDeque;
use std::sync::Arc;
use units::Instant;

/// The bytes that a waiting command pays for in one turn.
const QUANTUM: u64 = 4096;

/// The rate at which a payer gets replies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyRate {
    /// Bytes per second.
    rate: u64,
    /// Bytes at once.
    burst: u64,
}

impl ReplyRate {
    /// The rate of the configuration.
    pub(crate) fn of(limits: &Limits) -> ReplyRate {
        ReplyRate { rate: limits.reply_rate.0, burst: limits.transfer_max.get() }
    }
}

/// Bytes of the controller's own data that `sqe` asks for: all reads on the admin queue, reservation reports and messages of a proof on IO
/// queues.
pub(crate) fn asked_of_controller(sqe: &Sqe, is_admin: bool) -> u64 {
    let is_asked = sqe.direction() == Direction::FromController
        && (is_admin || sqe.is_fabrics() || sqe.opcode() == nvm::RESERVATION_REPORT);
    if is_asked { u64::from(sqe.sgl_length()) } else { 0 }
}

/// The payments for the first waiting command.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    paid: u64,
}

/// Why a command still waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It has paid a part and waits for its next turn.
    Turn,
    /// It can pay nothing before this moment.
    Until(Instant),
    /// Earlier replies have to be sent first.
    Sending,
}

/// Commands of one connection that wait for their replies to be granted. The entries of the queue limit their number.
#[derive(Default)]
pub(crate) struct Backlog {
    /// In the order of arrival. The first one is being paid for.
    pub(crate) commands: VecDeque<Sqe>,
    /// The payments for the first one.
    pub(crate) owed: Owed,
}

/// Admits a command that asks for `length` bytes, if that is possible at once.
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
    /// Gives a turn to a waiting command that asks for `length` bytes.
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

/// Connections with waiting commands.
#[derive(Default)]
pub(crate) struct Deferred {
    keys: VecDeque<Key>,
    /// When to try again; `None` while earlier replies have to be sent.
    at: Option<Instant>,
}

impl Deferred {
    /// A connection has its first waiting command.
    pub(crate) fn push(&mut self, now: Instant, key: Key) {
        self.keys.push_back(key);
        self.wake(now + REPLY_REST);
    }

    /// Tries again at `at`: replies were sent, or there is another reason.
    pub(crate) fn wake(&mut self, at: Instant) {
        if !self.keys.is_empty() {
            self.at = Some(self.at.map_or(at, |before| before.min(at)));
        }
    }

    /// Whether there are any.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.keys.is_empty()
    }

    /// When to call `serve` at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Gives turns to all connections until none can continue. `turn` returns `None` for a connection without waiting commands.
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
    fn a_small_reply_does_not_wait_for_large_ones() {
        const MANY: usize = 100;
        let mut accounts =
            Accounts::new([Supply { limit: Bytes::mib(64), floor_max: Bytes::ZERO, first: Bytes::ZERO }; 4]);
        let payer = accounts.payer(None, Ipv4Addr::LOCALHOST.into());
        let connect = || ConnectionAccount::new(Bytes::mib(1), HostAccount::new(None), Arc::clone(&payer));
        let rate = ReplyRate { rate: 1 << 20, burst: 64 << 10 };
        let mut now = Instant::ZERO + Nanos::secs(1);
        // One address: a hundred connections that ask for a megabyte again and again, and one that asks for a page.
        let mut connections: Vec<_> = (0..=MANY).map(|_| (connect(), Owed::default())).collect();
        let mut deferred = Deferred::default();
        (0..=MANY as u32).for_each(|index| deferred.push(now, Key::new(index, 0)));
        let (mut large, mut small_at) = (0, None);
        let start = now;
        while now < start + Nanos::secs(10) {
            now = deferred.deadline().expect("they wait");
            deferred.serve(now, |key| {
                let (account, owed) = &mut connections[key.index()];
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

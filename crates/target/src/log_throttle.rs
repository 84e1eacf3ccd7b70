//! Who may still be written about: the log under a storm.
//!
//! Whatever a host does wrong is logged once, with who and why. A host (or whoever holds its address) can do it ten thousand
//! times a second, though, and then the log must not grow with it. So each *subject* has so many lines per address and period;
//! what is beyond is counted, and told as one number when the period is over.
//!
//! ```text
//!   allows(who, subject) ─ true ──► the caller writes its line
//!                        └ false ─► counted ──period over──► poll: "243 more lines about … from 10.0.0.7"
//! ```
//!
//! Addresses are kept for a period at most, and so many at a time; the others share one account, so a storm from ten thousand
//! addresses costs no more memory or lines than one from a few.
//!
//! Holds: lines about one subject are bounded per address and period, and none is lost without being counted
//!        (`a_storm_is_a_few_lines_and_a_number`).

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use units::{Instant, Nanos};

/// How long lines are counted before they may flow again.
const PERIOD: Nanos = Nanos::secs(10);
/// Lines about one subject and one address in a period. A Linux host with 64 queues comes and goes without being cut short.
const LINES_MAX: u32 = 100;
/// As much about what only a faulty or hostile host does.
const FAULTS_MAX: u32 = 10;
/// Pairs of address and subject that are told apart.
const ACCOUNTS_MAX: usize = 1024;
/// In whose name the others are counted.
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// A connection became a queue.
    Connected,
    /// A connection ended as connections do: by the host, by the network.
    Ended,
    /// A connection was ended by the target: a time-out, a bound.
    Dropped,
    /// A connection was not taken: a bound is reached.
    Turned,
    /// A Connect was refused.
    Refused,
    /// The protocol was broken.
    Violation,
    /// The transport refused a command.
    Command,
    /// A host that came back waits for its earlier writes.
    Held,
}

impl Subject {
    fn lines_max(self) -> u32 {
        match self {
            Subject::Connected | Subject::Ended => LINES_MAX,
            _ => FAULTS_MAX,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Connected => "connections made",
            Subject::Ended => "connections ended",
            Subject::Dropped => "connections dropped",
            Subject::Turned => "connections turned away",
            Subject::Refused => "Connects refused",
            Subject::Violation => "breaches of the protocol",
            Subject::Command => "commands refused by the transport",
            Subject::Held => "hosts that wait for their earlier writes",
        })
    }
}

/// What was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suppressed {
    /// From where; `None` stands for many.
    pub(crate) address: Option<IpAddr>,
    /// About what.
    pub(crate) subject: Subject,
    /// How many lines.
    pub(crate) count: u32,
}

#[derive(Default)]
struct Account {
    written: u32,
    suppressed: u32,
}

/// The accounts of the present period.
pub(crate) struct LogThrottle {
    accounts: HashMap<(IpAddr, Subject), Account>,
    /// The end of the period; there is none while nothing was written.
    ends_at: Option<Instant>,
    /// Of the period that has ended.
    suppressed: Vec<Suppressed>,
}

impl LogThrottle {
    pub(crate) fn new() -> LogThrottle {
        LogThrottle { accounts: HashMap::new(), ends_at: None, suppressed: Vec::new() }
    }

    /// Whether a line may be written about what `who` did. Otherwise it is counted.
    pub(crate) fn allows(&mut self, now: Instant, who: IpAddr, subject: Subject) -> bool {
        self.end_period(now);
        self.ends_at.get_or_insert(now + PERIOD);
        let is_known = self.accounts.contains_key(&(who, subject));
        let who = if is_known || self.accounts.len() < ACCOUNTS_MAX { who } else { OTHERS };
        let account = self.accounts.entry((who, subject)).or_default();
        let admitted = account.written < subject.lines_max();
        if admitted {
            account.written += 1;
        } else {
            account.suppressed = account.suppressed.saturating_add(1);
        }
        admitted
    }

    /// When to `poll` at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ends_at
    }

    /// The next number to be told.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Suppressed> {
        self.end_period(now);
        self.suppressed.pop()
    }

    fn end_period(&mut self, now: Instant) {
        if self.ends_at.is_none_or(|at| now < at) {
            return;
        }
        self.ends_at = None;
        let accounts = self.accounts.drain().filter(|(_, account)| account.suppressed > 0);
        self.suppressed.extend(accounts.map(|((who, subject), account)| Suppressed {
            address: (who != OTHERS).then_some(who),
            subject,
            count: account.suppressed,
        }));
        self.suppressed.sort_by_key(|suppressed| (suppressed.address, suppressed.subject));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n))
    }

    #[test]
    fn a_storm_is_a_few_lines_and_a_number() {
        let mut log_throttle = LogThrottle::new();
        let start = Instant::ZERO;
        let mut admit = |at, who, subject| u32::from(log_throttle.allows(at, who, subject));
        let written: u32 = (0..1000).map(|_| admit(start, address(1), Subject::Violation)).sum();
        assert_eq!(written, FAULTS_MAX);
        assert_eq!(admit(start, address(2), Subject::Violation), 1, "another address has its own lines");
        assert_eq!(admit(start, address(1), Subject::Ended), 1, "so has another subject");
        assert_eq!(log_throttle.poll(start), None);
        let end = log_throttle.deadline().expect("something was written");
        let suppressed =
            Suppressed { address: Some(address(1)), subject: Subject::Violation, count: 1000 - FAULTS_MAX };
        assert_eq!(log_throttle.poll(end), Some(suppressed));
        assert_eq!((log_throttle.poll(end), log_throttle.deadline()), (None, None));
        assert!(log_throttle.allows(end, address(1), Subject::Violation), "a new period");
    }

    #[test]
    fn a_storm_from_everywhere_is_bounded_too() {
        let mut log_throttle = LogThrottle::new();
        let written = (0..100_000)
            .filter(|n| log_throttle.allows(Instant::ZERO, address(*n), Subject::Dropped))
            .count();
        assert_eq!(written, ACCOUNTS_MAX + FAULTS_MAX as usize);
        assert_eq!(log_throttle.accounts.len(), ACCOUNTS_MAX + 1);
        let end = log_throttle.deadline().expect("something was written");
        let suppressed = log_throttle.poll(end).expect("most are suppressed");
        assert_eq!(suppressed.address, None);
        assert_eq!(suppressed.count as usize, 100_000 - written);
    }
}

//! Limits how many log lines a host can cause.
//!
//! Every fault of a host is logged, with the host and the reason. But a host can repeat a fault ten thousand times a second. So each
//! address may cause a limited number of lines per subject and period. Further lines are counted, and one line gives their number
//! when the period is over.
//!
//! ```text
//!   allows(address, subject) ─ true ──► the caller logs its line
//!                            └ false ─► counted ──period over──► poll: "connections dropped: 243 more …"
//! ```
//!
//! All addresses together may cause as many lines per subject and period as a few of them. So a storm from ten thousand addresses costs
//! no more memory or lines than one from these few. Its further lines are counted together, without an address.
//!
//! Holds: lines of one subject are bounded per address and period, and each suppressed line is counted
//!        (`a_storm_becomes_a_few_lines_and_a_number`); so are those of all addresses
//!        (`a_storm_from_everywhere_is_bounded_too`).

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use units::{Instant, Nanos};

/// The length of a period.
const PERIOD: Nanos = Nanos::secs(10);
/// Lines of one subject and address in a period. A Linux host with 64 queues can connect and disconnect without a suppressed line.
const LINES_MAX: u32 = 100;
/// The same, for subjects that only a faulty or hostile host causes.
const FAULTS_MAX: u32 = 10;
/// As many addresses may cause all lines that one may cause.
const ADDRESSES_MAX: u32 = 5;
/// The address under which all others are counted.
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// A connection became a queue of a controller.
    Connected,
    /// The host or the network ended a connection.
    Ended,
    /// The target ended a connection: a time-out, a limit.
    Dropped,
    /// A connection could not be accepted.
    NotAccepted,
    /// A Connect was refused.
    Refused,
    /// A host did not prove who it is.
    Unproved,
    /// A host violated the protocol.
    Violation,
    /// The transport refused a command.
    Command,
    /// A controller was granted fewer IO queues than it may have.
    Granted,
    /// A host that reconnected waits for its earlier writes.
    Held,
}

impl Subject {
    fn lines_max(self) -> u32 {
        match self {
            Subject::Connected | Subject::Ended => LINES_MAX,
            _ => FAULTS_MAX,
        }
    }

    /// Lines of all addresses together.
    fn lines_of_all_max(self) -> u32 {
        self.lines_max() * ADDRESSES_MAX
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Connected => "connections made",
            Subject::Ended => "connections ended",
            Subject::Dropped => "connections dropped",
            Subject::NotAccepted => "connections that could not be accepted",
            Subject::Refused => "Connects refused",
            Subject::Unproved => "hosts that did not prove who they are",
            Subject::Violation => "protocol violations",
            Subject::Command => "commands refused by the transport",
            Subject::Granted => "controllers granted fewer IO queues than they may have",
            Subject::Held => "hosts that wait for their earlier writes",
        })
    }
}

/// The number of suppressed lines of one address and subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suppressed {
    /// The address; `None` stands for many.
    pub(crate) address: Option<IpAddr>,
    /// The subject.
    pub(crate) subject: Subject,
    /// The number of lines.
    pub(crate) count: u32,
}

#[derive(Default)]
struct Account {
    logged: u32,
    suppressed: u32,
}

/// Counts the lines of the present period.
pub(crate) struct LogThrottle {
    accounts: HashMap<(IpAddr, Subject), Account>,
    /// Lines of all addresses.
    logged: HashMap<Subject, u32>,
    /// The end of the period; `None` if nothing was logged in it yet.
    ends_at: Option<Instant>,
    /// Numbers of the period that has ended.
    suppressed: Vec<Suppressed>,
}

impl LogThrottle {
    pub(crate) fn new() -> LogThrottle {
        LogThrottle {
            accounts: HashMap::new(),
            logged: HashMap::new(),
            ends_at: None,
            suppressed: Vec::new(),
        }
    }

    /// Whether a line about `address` may be logged. If not, it is counted.
    pub(crate) fn allows(&mut self, now: Instant, address: IpAddr, subject: Subject) -> bool {
        self.end_period(now);
        self.ends_at.get_or_insert(now + PERIOD);
        let of_all = self.logged.entry(subject).or_default();
        let is_over = *of_all >= subject.lines_of_all_max();
        let own = self.accounts.get(&(address, subject)).map_or(0, |account| account.logged);
        // An address that has used up all its lines is named with the count of suppressed ones; there are few of these.
        let address = if is_over && own < subject.lines_max() { OTHERS } else { address };
        let account = self.accounts.entry((address, subject)).or_default();
        let admitted = !is_over && own < subject.lines_max();
        if admitted {
            account.logged += 1;
            *of_all += 1;
        } else {
            account.suppressed = account.suppressed.saturating_add(1);
        }
        admitted
    }

    /// When to call `poll` at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ends_at
    }

    /// The next number to be logged.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Suppressed> {
        self.end_period(now);
        self.suppressed.pop()
    }

    fn end_period(&mut self, now: Instant) {
        if self.ends_at.is_none_or(|at| now < at) {
            return;
        }
        self.ends_at = None;
        self.logged.clear();
        let accounts = self.accounts.drain().filter(|(_, account)| account.suppressed > 0);
        self.suppressed.extend(accounts.map(|((address, subject), account)| Suppressed {
            address: (address != OTHERS).then_some(address),
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
    fn a_storm_becomes_a_few_lines_and_a_number() {
        let mut throttle = LogThrottle::new();
        let start = Instant::ZERO;
        let mut admit = |at, address, subject| u32::from(throttle.allows(at, address, subject));
        let logged: u32 = (0..1000).map(|_| admit(start, address(1), Subject::Violation)).sum();
        assert_eq!(logged, FAULTS_MAX);
        assert_eq!(admit(start, address(2), Subject::Violation), 1, "another address has its own lines");
        assert_eq!(admit(start, address(1), Subject::Ended), 1, "so has another subject");
        assert_eq!(throttle.poll(start), None);
        let end = throttle.deadline().expect("something was logged");
        let suppressed =
            Suppressed { address: Some(address(1)), subject: Subject::Violation, count: 1000 - FAULTS_MAX };
        assert_eq!(throttle.poll(end), Some(suppressed));
        assert_eq!((throttle.poll(end), throttle.deadline()), (None, None));
        assert!(throttle.allows(end, address(1), Subject::Violation), "a new period");
    }

    #[test]
    fn a_storm_from_everywhere_is_bounded_too() {
        let mut throttle = LogThrottle::new();
        let logged =
            (0..100_000).filter(|n| throttle.allows(Instant::ZERO, address(*n), Subject::Dropped)).count();
        assert_eq!(logged, (FAULTS_MAX * ADDRESSES_MAX) as usize);
        assert_eq!(throttle.accounts.len(), logged + 1, "one for each that was logged, one for all others");
        assert!(
            throttle.allows(Instant::ZERO, address(0), Subject::Refused),
            "another subject has its own lines"
        );
        let end = throttle.deadline().expect("something was logged");
        let suppressed = throttle.poll(end).expect("most are suppressed");
        assert_eq!(suppressed.address, None);
        assert_eq!(suppressed.count as usize, 100_000 - logged);
        assert_eq!(throttle.poll(end), None, "one number for all of them");
    }

    /// Addresses that come again and again: every period is bounded, whatever the number of addresses.
    #[test]
    fn a_storm_that_does_not_end_is_bounded_in_every_period() {
        let mut throttle = LogThrottle::new();
        for period in 0..3 {
            let now = Instant::ZERO + Nanos::secs(10 * period);
            let mut lines = 0;
            for _ in 0..20 {
                lines += (0..750).filter(|n| throttle.allows(now, address(*n), Subject::Connected)).count();
            }
            lines += std::iter::from_fn(|| throttle.poll(now)).count();
            let most = (LINES_MAX * ADDRESSES_MAX) as usize;
            assert!((most..=most + 1 + ADDRESSES_MAX as usize).contains(&lines), "{lines} lines");
        }
    }
}

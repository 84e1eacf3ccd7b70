//! Faults that a device is to have, for tests: which IOs meet one, and what then becomes of them.
//!
//! ```text
//!   [[device.fault]]  kind ── what happens
//!                     op, offset, size, from ── which IOs may meet it
//!                     skip, every | chance, count ── which of those do
//! ```
//!
//! Everything is counted or drawn from the fault's own seed, so that the same IOs in the same order meet the same faults.
//!
//! Elsewhere: what carries it out is `device::faulty`; how to use it, `docs/fault-injection.md`.

use super::fields::{Fields, Findings, number_text};
use super::problem::Problem;
use super::read::missing;
use units::{Bytes, Nanos};

/// A probability of one, in thousandths.
const CERTAIN: u32 = 1000;

/// One fault of a device. An IO meets the first of the device's faults that strikes it, and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultConfig {
    /// The effect.
    pub kind: FaultKind,
    /// To which operations.
    pub op: FaultOp,
    /// Where its range begins, in bytes of the device.
    pub offset: Bytes,
    /// The length of the range; `None` reaches to the end. A flush has no range and is never outside one.
    pub size: Option<Bytes>,
    /// From how long after the device's start, on the device's clock.
    pub from: Nanos,
    /// Matching IOs that pass unharmed first.
    pub skip: u64,
    /// Which of the others are struck.
    pub pattern: FaultPattern,
    /// Upper bound for affected IOs; `None` has no end.
    pub count: Option<u64>,
    /// The seed of random choices.
    pub seed: u64,
}

/// The effect on an IO. Spans of time are the device's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It takes longer by this time.
    Delay(Nanos),
    /// It fails at once and does nothing.
    Error(FaultError),
    /// It is not done and nothing is heard of it.
    Hang(FaultRelease),
    /// The device goes, and does not come back: this IO, all that are on it and all later ones fail.
    Gone,
    /// Some of a write's first blocks are written, never all; anything but a write passes.
    Torn {
        /// The device goes as well, as after a loss of power. Otherwise only the write fails.
        then_gone: bool,
    },
    /// A write that need not be durable is kept in memory until the next flush, and lost with the process; anything else passes.
    Volatile,
    /// The reactor of the device's thread fails, as on a broken machine.
    Reactor,
}

/// Which error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// The medium cannot be read or written (`EIO`).
    Medium,
    /// There is no room (`ENOSPC`).
    NoSpace,
}

/// When an IO that hangs is done after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultRelease {
    /// Never.
    Never,
    /// After this time.
    After(Nanos),
    /// When the device is given its IO of that number, counted from 1 over all IOs: a release that replays.
    AtIo(u64),
}

/// Which operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOp {
    /// All.
    Any,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// Discards.
    Discard,
    /// Write zeroes.
    WriteZeroes,
}

/// Which of the matching IOs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPattern {
    /// The first and then every n-th; never zero.
    Every(u64),
    /// Each with this probability, in thousandths.
    Thousandths(u32),
}

impl FaultKind {
    /// Its word in a file.
    pub(super) fn word(self) -> Kind {
        match self {
            FaultKind::Delay(_) => Kind::Delay,
            FaultKind::Error(FaultError::Medium) => Kind::Error,
            FaultKind::Error(FaultError::NoSpace) => Kind::NoSpace,
            FaultKind::Hang(_) => Kind::Hang,
            FaultKind::Gone => Kind::Gone,
            FaultKind::Torn { .. } => Kind::Torn,
            FaultKind::Volatile => Kind::Volatile,
            FaultKind::Reactor => Kind::Reactor,
        }
    }
}

impl FaultConfig {
    /// A fault that strikes every IO.
    pub fn new(kind: FaultKind) -> FaultConfig {
        FaultConfig {
            kind,
            op: FaultOp::Any,
            offset: Bytes::ZERO,
            size: None,
            from: Nanos::ZERO,
            skip: 0,
            pattern: FaultPattern::Every(1),
            count: None,
            seed: 1,
        }
    }

    /// Problems of this table, with names of fields made by `field`.
    pub(super) fn problems(&self, field: impl Fn(&str) -> String) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.pattern == FaultPattern::Every(0) {
            problems.push(Problem::new(field("every"), "zero strikes nothing", "write 1 or more"));
        }
        if matches!(self.pattern, FaultPattern::Thousandths(n) if n > CERTAIN) {
            problems.push(Problem::new(field("chance"), "more than certain", "write 1 or less"));
        }
        let only_writes = match self.kind {
            FaultKind::Torn { .. } => Some("only writes are torn"),
            FaultKind::Volatile => Some("only writes are volatile"),
            _ => None,
        };
        if let Some(what) = only_writes.filter(|_| !matches!(self.op, FaultOp::Any | FaultOp::Write)) {
            problems.push(Problem::new(field("op"), what, "write op = \"write\", or leave it out"));
        }
        if self.size == Some(Bytes::ZERO) {
            problems.push(Problem::new(field("size"), "an empty range is never met", "make it longer"));
        }
        problems
    }
}

/// The words of `kind`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Delay,
    Error,
    NoSpace,
    Hang,
    Gone,
    Torn,
    Volatile,
    Reactor,
}

pub(super) const KINDS: [(&str, Kind); 8] = [
    ("delay", Kind::Delay),
    ("error", Kind::Error),
    ("no-space", Kind::NoSpace),
    ("hang", Kind::Hang),
    ("gone", Kind::Gone),
    ("torn", Kind::Torn),
    ("volatile", Kind::Volatile),
    ("reactor", Kind::Reactor),
];

pub(super) const OPS: [(&str, FaultOp); 6] = [
    ("any", FaultOp::Any),
    ("read", FaultOp::Read),
    ("write", FaultOp::Write),
    ("flush", FaultOp::Flush),
    ("discard", FaultOp::Discard),
    ("write-zeroes", FaultOp::WriteZeroes),
];

/// Reads one `[[device.fault]]`.
pub(super) fn read(table: &mut Fields<'_, '_>, findings: &mut Findings) -> FaultConfig {
    let before = findings.problems.len();
    let kind = table.choice(findings, "kind", &KINDS);
    if kind.is_none() && findings.problems.len() == before {
        missing(table, findings, "kind", "\"error\", \"hang\" or another of docs/fault-injection.md");
    }
    let kind = match kind.unwrap_or(Kind::Error) {
        Kind::Delay => FaultKind::Delay(delay(table, findings)),
        Kind::Error => FaultKind::Error(FaultError::Medium),
        Kind::NoSpace => FaultKind::Error(FaultError::NoSpace),
        Kind::Hang => FaultKind::Hang(release(table, findings)),
        Kind::Gone => FaultKind::Gone,
        Kind::Torn => {
            let then_gone = table.choice(findings, "then", &[("error", false), ("gone", true)]);
            FaultKind::Torn { then_gone: then_gone.unwrap_or(false) }
        }
        Kind::Volatile => FaultKind::Volatile,
        Kind::Reactor => FaultKind::Reactor,
    };
    let default = FaultConfig::new(kind);
    FaultConfig {
        op: table.choice(findings, "op", &OPS).unwrap_or(default.op),
        offset: table.size(findings, "offset").unwrap_or(default.offset),
        size: table.size(findings, "size"),
        from: table.span(findings, "from").unwrap_or(default.from),
        skip: table.number(findings, "skip").unwrap_or(default.skip),
        pattern: pattern(table, findings).unwrap_or(default.pattern),
        count: table.number(findings, "count"),
        seed: table.number(findings, "seed").unwrap_or(default.seed),
        ..default
    }
}

fn delay(table: &mut Fields<'_, '_>, findings: &mut Findings) -> Nanos {
    let before = findings.problems.len();
    let delay = table.span(findings, "delay");
    if delay.is_none() && findings.problems.len() == before {
        missing(table, findings, "delay", "a span such as \"50ms\"");
    }
    delay.unwrap_or(Nanos::ZERO)
}

fn release(table: &mut Fields<'_, '_>, findings: &mut Findings) -> FaultRelease {
    let after = table.span(findings, "release_after").map(FaultRelease::After);
    let at = table.number(findings, "release_at").map(FaultRelease::AtIo);
    if after.is_some() && at.is_some() {
        reject_second(table, findings, "release_at", "release_after");
    }
    after.or(at).unwrap_or(FaultRelease::Never)
}

fn pattern(table: &mut Fields<'_, '_>, findings: &mut Findings) -> Option<FaultPattern> {
    let every = table.number(findings, "every").map(FaultPattern::Every);
    let expected = "a probability such as 0.01, in whole thousandths";
    let chance = table.take(findings, "chance", expected, |value| {
        u32::try_from(units::thousandths(&number_text(value)?).ok()?).ok().map(FaultPattern::Thousandths)
    });
    if every.is_some() && chance.is_some() {
        reject_second(table, findings, "chance", "every");
    }
    every.or(chance)
}

fn reject_second(table: &Fields<'_, '_>, findings: &mut Findings, name: &str, other: &str) {
    let field = table.path_of(name);
    let line = findings.lines.of(&field);
    let problem = Problem::new(field, format!("{other} is given as well"), "keep one of the two");
    findings.problems.push(Problem { line, ..problem });
}

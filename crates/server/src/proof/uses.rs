//! The proofs that each key has made, so that an operator knows when an old key can go.
//!
//! Counted from the first reading of the key by this process on; a reload that keeps the key keeps its counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use units::Instant;

/// A key, with its uses.
#[derive(Clone, Debug)]
pub(crate) struct Counted<K> {
    pub(crate) key: K,
    pub(crate) uses: Arc<Uses>,
}

impl<K: PartialEq> Counted<K> {
    /// A key that is read now.
    pub(crate) fn new(now: Instant, key: K) -> Counted<K> {
        Counted { key, uses: Uses::new(now) }
    }

    /// Goes on with the counts of the same key, if it is one of `former`.
    pub(crate) fn continue_from(&mut self, former: &[Counted<K>]) {
        if let Some(same) = former.iter().find(|former| former.key == self.key) {
            self.uses = Arc::clone(&same.uses);
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Uses {
    since: Instant,
    /// Nanoseconds of the clock of `since`.
    last: AtomicU64,
    count: AtomicU64,
}

/// The uses of one key of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The field of `[[host]]` that names its file.
    pub field: &'static str,
    /// The fingerprint of the key.
    pub fingerprint: String,
    /// The time since this process first read it.
    pub known: Duration,
    /// Proofs that it has made since then.
    pub proofs: u64,
    /// The time since the last of them.
    pub last: Option<Duration>,
}

impl Uses {
    /// Of a key that is read now.
    fn new(now: Instant) -> Arc<Uses> {
        Arc::new(Uses { since: now, last: AtomicU64::new(0), count: AtomicU64::new(0) })
    }

    /// The key has proved its host.
    pub(crate) fn note(&self, now: Instant) {
        self.last.store(now.0, Ordering::Relaxed);
        // After the time, so that who sees the count sees a time.
        self.count.fetch_add(1, Ordering::Release);
    }

    /// A copy at `now`, for a key of this field with this fingerprint.
    pub(crate) fn seen(&self, now: Instant, field: &'static str, fingerprint: String) -> KeyUse {
        let proofs = self.count.load(Ordering::Acquire);
        let since = |then: u64| Duration::from_nanos(now.0.saturating_sub(then));
        let last = (proofs > 0).then(|| since(self.last.load(Ordering::Relaxed)));
        KeyUse { field, fingerprint, known: since(self.since.0), proofs, last }
    }
}

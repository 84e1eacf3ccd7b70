//! One number.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows. It has one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `more`.
    #[inline]
    pub fn add(&self, more: u64) {
        // One writer: so this is a plain addition, and no other can come in between.
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// The present value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that is set. It has one writer.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Replaces the value.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Replaces the value if `value` is greater.
    #[inline]
    pub fn raise(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// The present value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

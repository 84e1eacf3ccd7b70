//! What each tenant does: its kind of work, and whether it takes all that it can get.
//!
//! A tenant is *busy* in a period if it was served at least a quarter of its fair share, or if it kept several IOs outstanding all the
//! time. (While prices are still guesses, a busy tenant that is charged far too little seems to be served little.) Every other tenant
//! asks for less than its share. There is no need to measure its kind of work, and no gain in keeping it waiting during a probe.
//!
//! Holds: a tenant that asks for little is not busy, however many others are (`a_tenant_that_asks_for_little_is_not_busy`).

use super::prices::Kind;
use crate::{Io, IoKind};
use alloc::vec::Vec;
use units::{Bytes, TenantId};

/// A tenant's kind is determined again after this many IOs.
const IOS: u32 = 256;
/// A tenant is busy if it is served at least its fair share divided by this.
const BUSY: u64 = 4;
/// A tenant is busy if its IOs find this many of its own outstanding on average. In halves.
const OUTSTANDING: u64 = 5;

#[derive(Clone, Copy, Debug, Default)]
struct Book {
    kind: Kind,
    ios: u32,
    reads: u32,
    bytes: u64,
    /// Device time served in this period.
    served: u64,
    weight: u32,
    /// IOs that arrived in this period, and how many of its own each of them found outstanding, summed up.
    arrived: u64,
    found: u64,
    /// IOs that went to the SSD in this period, and how often that left the tenant with nothing to wait in the switch.
    submitted: u64,
    emptied: u64,
    /// The judged period in which it was last found busy.
    busy_in: u64,
    known: bool,
}

/// The books of all tenants.
#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    books: Vec<Book>,
    /// The tenants that were served in this period.
    served: Vec<TenantId>,
    /// Periods judged.
    judged: u64,
}

/// The tenants of a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Present {
    /// Busy tenants of each kind.
    pub(super) busy: [u32; Kind::COUNT],
    /// Tenants that were served.
    pub(super) tenants: usize,
    /// Whether a busy tenant mostly has all its IOs in the SSD: the switch cannot decide its share.
    pub(super) is_beyond_reach: bool,
}

impl Present {
    /// The kinds with busy tenants.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        Kind::all().filter(|kind| self.busy[kind.index()] > 0)
    }
}

impl Books {
    pub(super) fn grow(&mut self, tenants: usize) {
        self.books.resize(tenants, Book::default());
    }

    #[inline]
    pub(super) fn kind(&self, id: TenantId) -> Kind {
        self.books[id.index()].kind
    }

    /// Whether the tenant was busy in the last period that was judged. A tenant that was away then is not.
    #[inline]
    pub(super) fn is_busy(&self, id: TenantId) -> bool {
        let busy_in = self.books[id.index()].busy_in;
        busy_in > 0 && busy_in == self.judged
    }

    /// An IO of the tenant has arrived, and found this many others of it outstanding.
    #[inline]
    pub(super) fn on_arrival(&mut self, io: &Io, outstanding: usize) {
        let book = &mut self.books[io.tenant.index()];
        (book.arrived, book.found) = (book.arrived + 1, book.found + outstanding as u64);
        book.ios += 1;
        book.reads += u32::from(io.kind == IoKind::Read);
        book.bytes = book.bytes.saturating_add(io.length.0);
        if book.ios >= IOS || !book.known {
            book.kind = match book.known {
                true => book.kind.or(book.ios, book.reads, book.bytes),
                false => Kind::of(book.ios, book.reads, book.bytes),
            };
            if book.ios >= IOS {
                (book.ios, book.reads, book.bytes, book.known) = (0, 0, 0, true);
            }
        }
    }

    /// An IO that was charged `cost` goes to the SSD.
    #[inline]
    pub(super) fn on_submit(&mut self, id: TenantId, cost: Bytes, weight: u32) {
        let book = &mut self.books[id.index()];
        if book.served == 0 {
            self.served.push(id);
        }
        (book.served, book.weight) = (book.served + cost.0, weight);
        book.submitted += 1;
    }

    /// That IO was the tenant's last one in the switch, though its client may send more.
    #[inline]
    pub(super) fn on_emptied(&mut self, id: TenantId) {
        self.books[id.index()].emptied += 1;
    }

    /// The period has ended. With `judge`, each tenant is judged busy or not by this period; without, the last judgement stays.
    pub(super) fn on_period(&mut self, judge: bool) -> Present {
        let (mut all, mut weights) = (0u64, 0u64);
        for id in &self.served {
            let book = &self.books[id.index()];
            all += book.served;
            weights += u64::from(book.weight);
        }
        self.judged += u64::from(judge);
        let judged = self.judged;
        let mut present = Present { tenants: self.served.len(), ..Present::default() };
        for id in self.served.drain(..) {
            let book = &mut self.books[id.index()];
            if judge {
                let fair = u128::from(all) * u128::from(book.weight);
                let has_its_part = u128::from(book.served) * u128::from(weights) * u128::from(BUSY) >= fair;
                let is_deep = book.found * 2 > book.arrived * OUTSTANDING;
                book.busy_in = if has_its_part || is_deep { judged } else { 0 };
            }
            present.busy[book.kind.index()] += u32::from(book.busy_in > 0 && book.busy_in == judged);
            let is_busy = book.busy_in > 0 && book.busy_in == judged;
            present.is_beyond_reach |= is_busy && book.emptied * 2 > book.submitted;
            (book.served, book.arrived, book.found) = (0, 0, 0);
            (book.submitted, book.emptied) = (0, 0);
        }
        present
    }

    pub(super) fn forget(&mut self, id: TenantId) {
        self.served.retain(|served| *served != id);
        self.books[id.index()] = Book::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_that_asks_for_little_is_not_busy() {
        let mut books = Books::default();
        books.grow(5);
        for id in 0..4 {
            books.on_submit(TenantId(id), Bytes(1000), 1);
        }
        books.on_submit(TenantId(4), Bytes(100), 1);
        let present = books.on_period(true);
        assert_eq!(present.tenants, 5);
        assert!((0..4).all(|id| books.is_busy(TenantId(id))) && !books.is_busy(TenantId(4)));
        assert_eq!(books.on_period(true).tenants, 0, "a period starts with nothing");
    }

    #[test]
    fn a_tenant_with_a_deep_queue_is_busy_however_little_it_is_charged() {
        let mut books = Books::default();
        books.grow(2);
        let (kind, priority, mark) = (IoKind::Write, crate::Priority::default(), crate::Mark(1));
        let io = Io { id: crate::IoId(0), tenant: TenantId(1), priority, kind, length: Bytes::kib(4), mark };
        for outstanding in [1, 4] {
            books.on_submit(TenantId(0), Bytes(1000), 1);
            books.on_submit(TenantId(1), Bytes(10), 1);
            (0..8).for_each(|_| books.on_arrival(&io, outstanding));
            books.on_period(true);
            assert_eq!(books.is_busy(TenantId(1)), outstanding == 4);
        }
    }

    #[test]
    fn a_weight_raises_what_is_fair() {
        let mut books = Books::default();
        books.grow(2);
        books.on_submit(TenantId(0), Bytes(1000), 1);
        books.on_submit(TenantId(1), Bytes(900), 9);
        books.on_period(true);
        assert!(books.is_busy(TenantId(0)) && books.is_busy(TenantId(1)));
        books.on_submit(TenantId(0), Bytes(1000), 1);
        books.on_submit(TenantId(1), Bytes(200), 9);
        books.on_period(true);
        assert!(!books.is_busy(TenantId(1)), "a quarter of nine tenths would be 270");
    }
}

//! What each tenant does: its kind of work, and whether it takes all that it can get.
//!
//! A tenant is *busy* in a period if it was served at least a quarter of its fair part of what all were served. Who is served less asks
//! for less: nobody need measure its kind of work, and nothing is gained by keeping it waiting while others' is measured.
//!
//! Holds: a tenant that asks for little is not busy, however many others are (`who_asks_for_little_is_not_busy`).

use super::prices::Kind;
use crate::{Io, IoKind};
use alloc::vec::Vec;
use units::{Bytes, TenantId};

/// A tenant's kind is found anew with so many IOs.
const IOS: u32 = 64;
/// Busy is who has one in so many of its fair part.
const BUSY: u64 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Book {
    kind: Kind,
    ios: u32,
    reads: u32,
    bytes: u64,
    /// Device time served in this period.
    served: u64,
    weight: u32,
    /// The judged period in which it was last found busy.
    busy_in: u64,
    known: bool,
}

/// The books of all tenants.
#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    books: Vec<Book>,
    /// Who was served in this period.
    served: Vec<TenantId>,
    /// Periods judged.
    judged: u64,
}

/// Who was there in a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Present {
    /// Busy tenants of each kind.
    pub(super) busy: [u32; Kind::COUNT],
    /// Tenants that were served.
    pub(super) tenants: usize,
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

    /// Whether the tenant was busy in the last period that was judged. Who was away then is not.
    #[inline]
    pub(super) fn is_busy(&self, id: TenantId) -> bool {
        let busy_in = self.books[id.index()].busy_in;
        busy_in > 0 && busy_in == self.judged
    }

    /// An IO of the tenant has arrived.
    #[inline]
    pub(super) fn on_arrival(&mut self, io: &Io) {
        let book = &mut self.books[io.tenant.index()];
        book.ios += 1;
        book.reads += u32::from(io.kind == IoKind::Read);
        book.bytes = book.bytes.saturating_add(io.length.0);
        if book.ios >= IOS || !book.known {
            book.kind = Kind::of(book.ios, book.reads, book.bytes);
            if book.ios >= IOS {
                (book.ios, book.reads, book.bytes, book.known) = (0, 0, 0, true);
            }
        }
    }

    /// An IO that was charged so much goes to the SSD.
    #[inline]
    pub(super) fn on_submit(&mut self, id: TenantId, cost: Bytes, weight: u32) {
        let book = &mut self.books[id.index()];
        if book.served == 0 {
            self.served.push(id);
        }
        (book.served, book.weight) = (book.served + cost.0, weight);
    }

    /// The period has ended. With `judge`, who is busy is found anew; else everybody stays what it was.
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
                let busy = u128::from(book.served) * u128::from(weights) * u128::from(BUSY) >= fair;
                book.busy_in = if busy { judged } else { 0 };
            }
            present.busy[book.kind.index()] += u32::from(book.busy_in > 0 && book.busy_in == judged);
            book.served = 0;
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
    fn who_asks_for_little_is_not_busy() {
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

//! The rule by which memory and places are divided: the limit of a payer depends on the free amount.
//!
//! A *dynamic threshold* (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998): a payer may
//! go on while it holds no more than would still be free afterwards. One alone gets half of the stock, the next half of the rest; as
//! memory comes and goes, n get an (n+1)th each. The last eighth is not for this: it is for the *first* few buffers of those who
//! have next to nothing.
//!
//! Holds: `the_next_payer_finds_room`, `hosts_of_one_address_leave_room_for_each_other` (`account::tests`).

/// Part of the stock that is kept for payers with next to nothing: one part in this many.
const FIRST_PART: u64 = 8;

/// Limits as multiples of the free amount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    /// For a payer. A single payer can have `payer / (payer + 1)` of the stock.
    pub(crate) payer: u64,
    /// By a host, of what its address may still take.
    pub(crate) host: u64,
}

/// One request, with all amounts that the rule of the module needs. The same for places and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) thresholds: Thresholds,
    /// Of everything.
    pub(crate) limit: u64,
    /// The amount that every payer may have, although others have most.
    pub(crate) first: u64,
    /// The amount that is free and not reserved.
    pub(crate) free: u64,
    /// The unused part of the payer's floor.
    pub(crate) floor_left: u64,
    /// The amount that the payer holds beyond its floor.
    pub(crate) held: u64,
    /// The part of it that the asking host holds, if the payer is an address and not the host.
    pub(crate) held_by_host: Option<u64>,
    /// The requested amount.
    pub(crate) size: u64,
}

impl Request {
    /// Whether it may be had.
    pub(crate) fn is_granted(self) -> bool {
        let Request { thresholds, limit, first, free, floor_left, held, held_by_host, size } = self;
        let beyond = size.saturating_sub(floor_left);
        if beyond == 0 {
            return true;
        }
        if beyond > free {
            return false;
        }
        let is_first = |held: u64| held == 0 || held + size <= first;
        let free_then = free - beyond;
        let of_payer = is_first(held)
            || held + beyond <= thresholds.payer * free_then && free_then >= limit / FIRST_PART;
        of_payer
            && held_by_host.is_none_or(|of_host| {
                is_first(of_host) || {
                    // The most that an address may hold at present.
                    let most = thresholds.payer * (free + held) / (thresholds.payer + 1);
                    of_host + size <= thresholds.host * most.saturating_sub(held + size)
                        && held + size <= most - most / FIRST_PART
                }
            })
    }
}

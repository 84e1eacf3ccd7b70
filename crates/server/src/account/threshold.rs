//! The rule by which memory and places are divided: how much somebody may hold goes by what is free.
//!
//! A *dynamic threshold* (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998): a payer may
//! go on while it holds no more than would still be free afterwards. One alone gets half of the stock, the next half of the rest; as
//! memory comes and goes, n get an (n+1)th each. The last eighth is not for this: it is for the *first* few buffers of those who
//! have next to nothing.
//!
//! Holds: `the_next_payer_finds_room`, `hosts_of_one_address_leave_room_for_each_other` (`account::tests`).

/// One part of so many is for the first of those who have next to nothing.
const FIRST_PART: u64 = 8;

/// How many times what is still free may be held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    /// By a payer, of what is free for all. One alone has `payer / (payer + 1)` of everything.
    pub(crate) payer: u64,
    /// By a host, of what its address may still take.
    pub(crate) host: u64,
}

/// What a payer may hold by the rule of the module, as places and bytes have it in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) thresholds: Thresholds,
    /// Of everything.
    pub(crate) limit: u64,
    /// What may be had although others have most.
    pub(crate) first: u64,
    /// What is free and promised to nobody.
    pub(crate) free: u64,
    /// What of the payer's floor it does not hold.
    pub(crate) floor_left: u64,
    /// What the payer holds beyond its floor.
    pub(crate) held: u64,
    /// What the host that asks holds of that, if the payer is an address and not the host.
    pub(crate) held_by_host: Option<u64>,
    /// How much more it asks for.
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
                    // What an address may hold at most, as things are.
                    let most = thresholds.payer * (free + held) / (thresholds.payer + 1);
                    of_host + size <= thresholds.host * most.saturating_sub(held + size)
                        && held + size <= most - most / FIRST_PART
                }
            })
    }
}

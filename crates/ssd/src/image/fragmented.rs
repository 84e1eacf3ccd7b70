//! The steady state of random overwrites, created directly.
//!
//! Under uniformly random 4 KiB overwrites, a block loses valid slots at a rate proportional to the valid
//! slots it still has. So the full block of age rank `r` on a die has `N·e^(−(r+½)x)` of its `N` slots valid.
//! `x` follows from the die's share of the capacity, which is the sum over all its blocks. A random
//! permutation of the logical slots is distributed over them.
//!
//! All arithmetic is in integers (a power of a fixed-point number below one instead of the exponential), so
//! the image of a seed is the same on every machine.

use crate::flash::Flash;
use crate::geometry::PhysicalSlot;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::RngCore;

/// Fixed point with 32 fractional bits.
const ONE: u64 = 1 << 32;
/// Share of the capacity that is overwritten at random, without time, so that the distribution settles.
const SETTLE_DIVISOR: u32 = 4;

/// Distributes all logical slots over the dies of an erased device.
pub(super) fn lay_out(flash: &mut Flash, random: &mut Xoshiro256PlusPlus) {
    let logical_slots = flash.mapping.logical_slots();
    let dies = flash.geometry.dies;
    let block_slots = flash.geometry.block_slots;
    // The blocks that the collector and the SLC cache keep free stay free.
    let full_blocks = flash.geometry.blocks_per_die - flash.geometry.free_low - flash.geometry.slc_blocks;
    let mut order: Vec<u32> = (0..logical_slots).collect();
    for i in (1..logical_slots).rev() {
        order.swap(i as usize, below(random, i + 1) as usize);
    }
    let mut order = order.into_iter();
    for die in 0..dies {
        let dealt_after = (u64::from(logical_slots) * u64::from(die + 1) / u64::from(dies)) as u32;
        let share = dealt_after - (logical_slots - order.len() as u32);
        for valid in valid_counts(share, full_blocks, block_slots) {
            let block =
                flash.space[die as usize].free.pop_front().expect("a die has more blocks than it fills");
            fill_block(flash, block, valid, &mut order, random);
        }
    }
    assert_eq!(order.len(), 0, "all logical slots have a place");
}

/// Makes `block` full. `valid` of its slots, chosen at random, hold the next logical slots of `order`.
fn fill_block(
    flash: &mut Flash,
    block: u32,
    valid: u32,
    order: &mut impl Iterator<Item = u32>,
    random: &mut Xoshiro256PlusPlus,
) {
    let block_slots = flash.geometry.block_slots;
    let mut needed = valid;
    for offset in 0..block_slots {
        if below(random, block_slots - offset) < needed {
            needed -= 1;
            let logical = order.next().expect("the valid counts add up to the logical slots");
            flash.mapping.bind(logical, PhysicalSlot::new(block, offset));
        }
    }
    flash.mapping.block_mut(block).programmed = block_slots as u16;
}

/// Valid slots of each of `blocks` blocks, youngest first; their sum is `share`.
fn valid_counts(share: u32, blocks: u32, block_slots: u32) -> Vec<u32> {
    // The largest root s for which Σ N·s^(2r+1) is not above the share; s stands for e^(−x/2).
    let (mut low, mut high) = (0, ONE);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let sum: u64 = decay(middle).take(blocks as usize).map(|left| left * u64::from(block_slots)).sum();
        if sum > u64::from(share) * ONE { high = middle } else { low = middle }
    }
    let mut left = share;
    let mut counts: Vec<u32> = decay(low)
        .take(blocks as usize)
        .map(|fraction| {
            let valid = ((fraction * u64::from(block_slots) + ONE / 2) / ONE) as u32;
            let valid = valid.min(left);
            left -= valid;
            valid
        })
        .collect();
    // The remainder from rounding goes to the oldest blocks that have room.
    for count in counts.iter_mut().rev() {
        let more = left.min(block_slots - *count);
        *count += more;
        left -= more;
    }
    assert_eq!(left, 0, "{share} slots do not fit into {blocks} blocks of {block_slots}");
    counts
}

/// `root^1, root^3, root^5, …` in fixed point.
fn decay(root: u64) -> impl Iterator<Item = u64> {
    let square = root * root / ONE;
    std::iter::successors(Some(root), move |power| Some(power * square / ONE))
}

/// Overwrites a part of the capacity at random, so that open blocks and victims are as in a running device.
pub(super) fn settle(flash: &mut Flash, random: &mut Xoshiro256PlusPlus) {
    let logical_slots = flash.mapping.logical_slots();
    for _ in 0..logical_slots / SETTLE_DIVISOR {
        flash.write_untimed(below(random, logical_slots));
    }
}

/// A number below `bound`, nearly uniform; the bias of 2^-32 does not matter here.
pub(super) fn below(random: &mut Xoshiro256PlusPlus, bound: u32) -> u32 {
    ((u64::from(random.next_u32()) * u64::from(bound)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_counts_fall_with_age_and_add_up() {
        let counts = valid_counts(131_072, 187, 768);
        assert_eq!(counts.iter().sum::<u32>(), 131_072);
        assert!(counts[0] > 760, "the youngest block is nearly all valid, not {}", counts[0]);
        assert!(
            counts[..186].is_sorted_by(|a, b| a >= b),
            "older blocks have more valid slots than younger ones"
        );
    }

    #[test]
    fn a_full_die_has_no_garbage_to_spread() {
        assert_eq!(valid_counts(4 * 768, 4, 768), vec![768; 4]);
    }
}

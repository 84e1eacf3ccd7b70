//! The weight of a host: the sum of its VMs' shares, counting only the part of each that is used.
//!
//! A VM that has fewer IOs outstanding than its part of the host's window leaves places to the host's other VMs. To
//! keep these from getting more than their own shares buy, its share counts only in proportion to its use:
//!
//! ```text
//!  w_k = w·s_k/Σs        s'_k = s_k·n_k/w_k  if n_k < w_k,  else s_k        β = Σ s'_k
//! ```
//!
//! n_k is how many IOs the VM had outstanding (waiting ones included) on the average of the period.
//!
//! Holds: β is never more than the sum of the shares (`a_busy_vm_counts_in_full`).
//! Paper: PARDA §3.4.

use super::Fixed;
use alloc::vec::Vec;
use units::Instant;

/// The VMs of one host.
#[derive(Clone, Debug)]
pub struct VmShares {
    vms: Vec<Vm>,
    period_began: Instant,
}

#[derive(Clone, Debug)]
struct Vm {
    share: u32,
    outstanding: u32,
    changed: Instant,
    /// Outstanding IOs × nanoseconds in this period until `changed`.
    area: u128,
}

impl Vm {
    fn advance(&mut self, now: Instant) {
        self.area += u128::from(self.outstanding) * u128::from(now.since(self.changed).0);
        self.changed = now;
    }
}

impl VmShares {
    /// VMs with these shares, none of them zero.
    pub fn new(now: Instant, shares: &[u32]) -> VmShares {
        let vm = |share: &u32| Vm { share: *share, outstanding: 0, changed: now, area: 0 };
        VmShares { vms: shares.iter().map(vm).collect(), period_began: now }
    }

    /// Notes that a VM asks for one more IO.
    pub fn on_ask(&mut self, now: Instant, vm: usize) {
        self.vms[vm].advance(now);
        self.vms[vm].outstanding += 1;
    }

    /// Notes the end of an IO of a VM.
    ///
    /// # Panics
    /// If it had none.
    pub fn on_end(&mut self, now: Instant, vm: usize) {
        let vm = &mut self.vms[vm];
        vm.advance(now);
        vm.outstanding = vm.outstanding.checked_sub(1).expect("an IO ended that no VM asked for");
    }

    /// Ends a period of a host with the given `window`, and begins the next one. Returns the host's β, with `per_share`
    /// for each unit of share.
    pub fn on_period(&mut self, now: Instant, window: Fixed, per_share: Fixed) -> Fixed {
        let span = u128::from(now.since(self.period_began).0);
        self.period_began = now;
        let sum: u128 = self.vms.iter().map(|vm| u128::from(vm.share)).sum();
        let mut beta = 0;
        for vm in &mut self.vms {
            vm.advance(now);
            let full = u128::from(vm.share) * u128::from(per_share.0);
            // n_k < w_k, without dividing: area/span < window·share/(sum·ONE).
            let used = (vm.area * sum).saturating_mul(u128::from(Fixed::ONE.0));
            let part = u128::from(window.0) * u128::from(vm.share) * span;
            beta += if used < part { scaled(full, used, part) } else { full };
            vm.area = 0;
        }
        Fixed(u64::try_from(beta).unwrap_or(u64::MAX))
    }
}

/// `number × numerator / denominator` for a ratio below 1, in 1/65 536 of it so that nothing overflows.
fn scaled(number: u128, numerator: u128, denominator: u128) -> u128 {
    let unit = (denominator / u128::from(Fixed::ONE.0)).max(1);
    number * (numerator / unit).min(u128::from(Fixed::ONE.0)) / u128::from(Fixed::ONE.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Nanos;

    const PERIOD: Nanos = Nanos::millis(20);
    const WINDOW: Fixed = Fixed::whole(30);

    fn near(found: Fixed, expected: f64) -> bool {
        (found.as_f64() - expected).abs() < 0.001
    }

    #[test]
    fn a_busy_vm_counts_in_full() {
        let mut shares = VmShares::new(Instant::ZERO, &[1, 2]);
        for _ in 0..100 {
            shares.on_ask(Instant::ZERO, 0);
            shares.on_ask(Instant::ZERO, 1);
        }
        let now = Instant::ZERO + PERIOD;
        assert_eq!(shares.on_period(now, WINDOW, Fixed::whole(4)), Fixed::whole(12));
    }

    #[test]
    fn an_idle_vm_takes_its_share_with_it() {
        let mut shares = VmShares::new(Instant::ZERO, &[1, 2]);
        for _ in 0..40 {
            shares.on_ask(Instant::ZERO, 0);
        }
        assert!(near(shares.on_period(Instant::ZERO + PERIOD, WINDOW, Fixed::ONE), 1.0));
    }

    #[test]
    fn a_vm_that_uses_half_of_its_part_counts_half() {
        let mut shares = VmShares::new(Instant::ZERO, &[1, 2]);
        let half = Instant::ZERO + Nanos(PERIOD.0 / 2);
        // Twenty outstanding for half of the period are ten of the twenty places that are its part.
        for _ in 0..20 {
            shares.on_ask(Instant::ZERO, 1);
        }
        for _ in 0..20 {
            shares.on_end(half, 1);
        }
        assert!(near(shares.on_period(Instant::ZERO + PERIOD, WINDOW, Fixed::ONE), 1.0));
        assert_eq!(
            shares.on_period(Instant::ZERO + PERIOD + PERIOD, WINDOW, Fixed::ONE),
            Fixed(0),
            "the next period is its own"
        );
    }
}

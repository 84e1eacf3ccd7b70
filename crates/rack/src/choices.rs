//! Quality of the choices between copies, and the clients' knowledge when they chose.
//!
//! An SSD's *truth* is how long the small reads of all clients took lately, from their arrival at the target. No client knows it: it is what
//! a choice of copies is judged by. Only small reads count, of copies on two SSDs.

use blob::steer::Load;
use hdrhistogram::Histogram;
use units::{Instant, Nanos};

/// Worth of choosing a copy.
#[derive(Clone, Debug, PartialEq)]
pub struct Choices {
    /// Reads.
    pub all: u64,
    /// The truths of the two SSDs differed by a quarter at least.
    pub matters: u64,
    /// Of those: the better one was read.
    pub right: u64,
    /// Of those: the credits differed.
    pub credit_differs: u64,
    /// Of those: there was more credit at the better one.
    pub credit_right: u64,
    /// Age of the switch's last message, in nanoseconds: of the copy that was read, and of the other one.
    pub ages: [Histogram<u64>; 2],
    /// The credits, of the copy that was read and of the other one; nothing if the switches give none.
    pub credits: [Histogram<u64>; 2],
    crowds: Vec<Crowd>,
    milliseconds: u64,
    reads: f64,
    squares: f64,
}

/// Reads that have reached an SSD in this millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Crowd {
    millisecond: u64,
    reads: u64,
}

impl Choices {
    /// Choices among this many SSDs.
    pub(crate) fn new(ssds: usize) -> Choices {
        let histogram = || Histogram::new(3).expect("three digits are possible");
        Choices {
            all: 0,
            matters: 0,
            right: 0,
            credit_differs: 0,
            credit_right: 0,
            ages: [histogram(), histogram()],
            credits: [histogram(), histogram()],
            crowds: vec![Crowd::default(); ssds],
            milliseconds: 0,
            reads: 0.0,
            squares: 0.0,
        }
    }

    /// Notes the choice of a copy. Of it, and of the other one: the truth, the client's knowledge, and its age.
    pub(crate) fn chose(&mut self, truths: [Nanos; 2], loads: [Load; 2], ages: [Nanos; 2]) {
        self.all += 1;
        for (copy, (load, age)) in loads.iter().zip(ages).enumerate() {
            self.ages[copy].record(age.0).expect("histograms grow");
            if let Some(credit) = load.credit {
                self.credits[copy].record(credit.into()).expect("histograms grow");
            }
        }
        let [read, other] = truths.map(|truth| truth.0);
        if read.max(other) * 4 < read.min(other) * 5 {
            return;
        }
        self.matters += 1;
        self.right += u64::from(read < other);
        if let [Some(credit), Some(of_other)] = loads.map(|load| load.credit)
            && credit != of_other
        {
            self.credit_differs += 1;
            self.credit_right += u64::from((read < other) == (credit > of_other));
        }
    }

    /// A read has reached its target.
    pub(crate) fn arrived(&mut self, now: Instant, ssd: usize) {
        let (crowd, millisecond) = (&mut self.crowds[ssd], now.0 / 1_000_000);
        if crowd.millisecond != millisecond {
            let reads = crowd.reads as f64;
            self.milliseconds += 1;
            self.reads += reads;
            self.squares += reads * reads;
            *crowd = Crowd { millisecond, reads: 0 };
        }
        crowd.reads += 1;
    }

    /// Unevenness of the reads of an SSD from one millisecond to the next: variance over mean. 1 if they came by chance, more if the clients
    /// come all together.
    pub fn dispersion(&self) -> f64 {
        let milliseconds = self.milliseconds.max(1) as f64;
        let mean = self.reads / milliseconds;
        if mean > 0.0 { (self.squares / milliseconds - mean * mean) / mean } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(credit: u32) -> Load {
        Load { credit: Some(credit), ..Load::default() }
    }

    #[test]
    fn only_differences_count() {
        let mut choices = Choices::new(2);
        let micros = |pair: [u64; 2]| pair.map(Nanos::micros);
        choices.chose(micros([100, 120]), [load(9), load(1)], micros([1, 900]));
        assert_eq!((choices.all, choices.matters), (1, 0));
        choices.chose(micros([100, 200]), [load(1), load(9)], micros([1, 900]));
        choices.chose(micros([300, 200]), [load(5), load(5)], micros([1, 900]));
        assert_eq!((choices.matters, choices.right), (2, 1));
        assert_eq!(
            (choices.credit_differs, choices.credit_right),
            (1, 0),
            "there was less at the better one"
        );
        let (least, most) = (choices.ages[1].min(), choices.ages[1].max());
        assert!(least >= 899_000 && most <= 901_000, "{least} to {most}");
    }

    #[test]
    fn a_herd_is_more_uneven_than_chance() {
        let uneven = |reads: fn(u64) -> u64| {
            let mut choices = Choices::new(1);
            for millisecond in 0..100 {
                (0..reads(millisecond))
                    .for_each(|read| choices.arrived(Instant(millisecond * 1_000_000 + read), 0));
            }
            choices.dispersion()
        };
        assert!(uneven(|_| 10) < 0.5);
        assert!(uneven(|millisecond| 1 + 30 * (millisecond % 2)) > 10.0);
    }
}

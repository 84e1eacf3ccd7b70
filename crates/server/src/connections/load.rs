//! The load of each thread, so that a new queue goes to the one with the least.
//!
//! Load is counted by the thread that carries a queue: the work of TCP and NVMe/TCP, most of the cost of an IO. The thread of the SSD has a part of the work of every queue
//! of its subsystems, wherever it is carried.
//!
//! Holds: queues are spread as their cost is, and the first stays with its SSD (`queues_are_spread_and_the_first_stays`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Cost of carrying a queue, in units of the cost of serving its IOs.
const CARRIED: usize = 4;
const SERVED: usize = 1;

/// The load of one thread. Threads read each other's load without locks: a choice based on a slightly old value does no harm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load(Arc<AtomicUsize>);

/// A part of a load, for as long as a queue lives.
#[derive(Debug)]
pub(crate) struct Burden {
    load: Load,
    weight: usize,
}

impl Load {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, weight: usize) -> Burden {
        self.0.fetch_add(weight, Ordering::Relaxed);
        Burden { load: self.clone(), weight }
    }
}

impl Drop for Burden {
    fn drop(&mut self) {
        self.load.0.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

/// Chooses the thread for a queue of the SSD of `home`, and returns its burdens: `None` is home, otherwise the number of one of `others`.
pub(crate) fn place<'l>(
    home: &Load,
    others: impl Iterator<Item = (usize, &'l Load)>,
) -> (Option<usize>, Vec<Burden>) {
    let least = others.min_by_key(|(_, load)| load.get());
    match least.filter(|(_, load)| load.get() < home.get()) {
        Some((thread, load)) => (Some(thread), vec![load.add(CARRIED), home.add(SERVED)]),
        None => (None, vec![home.add(CARRIED + SERVED)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_spread_and_the_first_stays() {
        let (home, others) = (Load::default(), [Load::default(), Load::default()]);
        let mut burdens = Vec::new();
        let mut carried = [0; 3];
        for _ in 0..16 {
            let (thread, burden) = place(&home, others.iter().enumerate());
            carried[thread.map_or(2, |thread| thread)] += 1;
            burdens.push(burden);
            assert!(burdens.len() > 1 || thread.is_none(), "the first stays with its SSD");
        }
        assert_eq!(carried, [7, 6, 3], "the SSD's own thread has a part of everybody's work");
        burdens.clear();
        assert!([&home, &others[0], &others[1]].iter().all(|load| load.get() == 0));
    }
}

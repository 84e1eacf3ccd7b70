//! The thread that does the exponentiations of proofs, which take milliseconds each.
//!
//! Each address has a queue of its own, and the addresses have their turns one after the other: so an address with a thousand proofs
//! delays another one by a single computation. A proof has at most one job that is wanted, so the queues are bounded by the connections
//! that prove themselves; jobs of proofs that have ended are dropped.
//!
//! The thread has a lower priority than those that do IO.
//!
//! Holds: addresses have turns (`an_address_with_many_jobs_delays_others_by_one`).

use super::exchange::{Computed, Job};
use crate::quota::Origin;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{Builder, JoinHandle};
use tracing::{debug, error};

/// The nice value of the thread, among those of the process.
const NICE: i32 = 10;
/// Jobs in the queue of one address beyond which those are dropped that nothing waits for.
const SWEEP_BEYOND: usize = 64;

/// A job, and the way of its result.
pub(crate) struct Task {
    pub(crate) job: Job,
    /// The address that it is done for.
    pub(crate) origin: Origin,
    /// Takes the result.
    pub(crate) done: Box<dyn FnOnce(Computed) + Send>,
}

#[derive(Default)]
struct Queue {
    of: HashMap<Origin, VecDeque<Task>>,
    /// Addresses with tasks, the next one first.
    turns: VecDeque<Origin>,
    is_ended: bool,
}

impl Queue {
    fn push(&mut self, task: Task) {
        let origin = task.origin;
        let tasks = self.of.entry(origin).or_default();
        if tasks.is_empty() {
            self.turns.push_back(origin);
        }
        if tasks.len() >= SWEEP_BEYOND && tasks.len().is_power_of_two() {
            tasks.retain(|task| task.job.is_wanted());
            if tasks.is_empty() {
                // Its turn is there already.
                tasks.push_back(task);
                return;
            }
        }
        tasks.push_back(task);
    }

    fn pop(&mut self) -> Option<Task> {
        let origin = self.turns.pop_front()?;
        let tasks = self.of.get_mut(&origin)?;
        let task = tasks.pop_front();
        if tasks.is_empty() {
            self.of.remove(&origin);
        } else {
            self.turns.push_back(origin);
        }
        task
    }
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nobody panics with it")
    }
}

/// The way to the thread. It can be cloned.
#[derive(Clone)]
pub(crate) struct Computing(Arc<Shared>);

impl Computing {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no resources for it.
    pub(crate) fn start() -> io::Result<(Computing, ComputingThread)> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = Builder::new().name("proofs".to_owned()).spawn(move || run(&of_thread))?;
        let computing = Computing(shared);
        Ok((computing.clone(), ComputingThread { computing, thread: Some(thread) }))
    }

    /// Adds a task.
    pub(crate) fn submit(&self, task: Task) {
        self.0.lock().push(task);
        self.0.changed.notify_one();
    }
}

/// The thread. Dropping it ends the thread after the computation that it is doing.
pub(crate) struct ComputingThread {
    computing: Computing,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ComputingThread {
    fn drop(&mut self) {
        self.computing.0.lock().is_ended = true;
        self.computing.0.changed.notify_one();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("the thread of proofs has failed");
        }
    }
}

fn run(shared: &Shared) {
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE) {
        debug!(%error, "the thread of proofs keeps the priority of the process");
    }
    loop {
        let mut queue = shared.lock();
        let task = loop {
            if queue.is_ended {
                return;
            }
            match queue.pop() {
                Some(task) => break task,
                None => queue = shared.changed.wait(queue).expect("nobody panics with it"),
            }
        };
        drop(queue);
        let Task { job, done, .. } = task;
        if let Some(computed) = job.compute() {
            done(computed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::exchange::tests::{begin, proof};
    use super::*;

    fn origin(n: u32) -> Origin {
        Origin::of(std::net::Ipv4Addr::from_bits(n).into())
    }

    #[test]
    fn an_address_with_many_jobs_delays_others_by_one() {
        let mut queue = Queue::default();
        let mut proofs = Vec::new();
        let mut add = |queue: &mut Queue, n| {
            let mut proof = proof();
            let job = begin(&mut proof);
            proofs.push(proof);
            queue.push(Task { job, origin: origin(n), done: Box::new(|_| {}) });
        };
        (0..10).for_each(|_| add(&mut queue, 1));
        add(&mut queue, 2);
        add(&mut queue, 2);
        let order: Vec<Origin> = std::iter::from_fn(|| queue.pop()).map(|task| task.origin).collect();
        assert_eq!(order[..5], [1, 2, 1, 2, 1].map(origin));
        assert_eq!(order[5..], [origin(1); 7]);
        assert!(queue.of.is_empty() && queue.turns.is_empty());
    }

    #[test]
    fn jobs_that_nothing_waits_for_are_dropped() {
        let mut queue = Queue::default();
        for _ in 0..2 * SWEEP_BEYOND {
            // The proof ends at once.
            let job = begin(&mut proof());
            queue.push(Task { job, origin: origin(1), done: Box::new(|_| {}) });
            assert!(queue.of[&origin(1)].len() <= SWEEP_BEYOND);
        }
        assert_eq!(queue.turns.len(), 1);
    }

    #[test]
    fn results_come_back() {
        let (computing, thread) = Computing::start().expect("a thread");
        let mut proof = proof();
        let job = begin(&mut proof);
        let (done, results) = std::sync::mpsc::channel();
        let done = Box::new(move |computed| done.send(computed).expect("it is awaited"));
        computing.submit(Task { job, origin: origin(1), done });
        assert!(results.recv().is_ok());
        drop(thread);
    }
}

//! Tasks of the core: futures that one thread polls, in the order in which they were woken.
//!
//! Procedures such as "write both copies, then record failures, then reply" read best as one function that awaits.
//! Tasks wait only for the outside: a task continues only because an event was passed to the core.
//!
//! Holds: the same inputs in the same order give the same run (a world run twice ends the same, `tests/worlds.rs`).

mod gate;

pub(crate) use gate::{Answer, Gate, join};

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Indices of tasks to poll. `Waker` demands `Sync`; only one thread ever uses it.
type Ready = Arc<Mutex<VecDeque<usize>>>;

struct WakeTask {
    index: usize,
    ready: Ready,
}

impl Wake for WakeTask {
    fn wake(self: Arc<Self>) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.index);
    }
}

/// Starts tasks, also from inside tasks.
#[derive(Clone, Default)]
pub(crate) struct Spawner(Rc<RefCell<Vec<Task>>>);

impl Spawner {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.borrow_mut().push(Box::pin(task));
    }
}

/// All tasks of one core.
#[derive(Default)]
pub(crate) struct Tasks {
    spawner: Spawner,
    ready: Ready,
    tasks: Vec<Option<(Task, Waker)>>,
    free: Vec<usize>,
}

impl Tasks {
    pub(crate) fn spawner(&self) -> Spawner {
        self.spawner.clone()
    }

    /// Polls until every task waits for an event from outside.
    pub(crate) fn run(&mut self) {
        loop {
            let new: Vec<Task> = self.spawner.0.borrow_mut().drain(..).collect();
            for task in new {
                let index = self.free.pop().unwrap_or_else(|| {
                    self.tasks.push(None);
                    self.tasks.len() - 1
                });
                let waker = Waker::from(Arc::new(WakeTask { index, ready: Arc::clone(&self.ready) }));
                self.tasks[index] = Some((task, waker));
                self.poll(index);
            }
            let next = self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match next {
                Some(index) => self.poll(index),
                None if self.spawner.0.borrow().is_empty() => return,
                None => {}
            }
        }
    }

    /// A task that ended may have left its index in `ready`; then the task that reuses the index is polled once without
    /// need.
    fn poll(&mut self, index: usize) {
        let Some((task, waker)) = self.tasks[index].as_mut() else { return };
        if task.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
            self.tasks[index] = None;
            self.free.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_task_goes_on_when_what_it_waits_for_is_there() {
        let mut tasks = Tasks::default();
        let (answer, seen) = (Answer::new(), Rc::new(Cell::new(0)));
        let (for_task, seen_by_task) = (answer.clone(), Rc::clone(&seen));
        tasks.spawner().spawn(async move { seen_by_task.set(for_task.await) });
        tasks.run();
        assert_eq!(seen.get(), 0);
        answer.give(7);
        tasks.run();
        assert_eq!(seen.get(), 7);
    }

    #[test]
    fn tasks_may_start_tasks() {
        let mut tasks = Tasks::default();
        let (spawner, count) = (tasks.spawner(), Rc::new(Cell::new(0)));
        let (inner, counted) = (spawner.clone(), Rc::clone(&count));
        spawner.spawn(async move {
            for _ in 0..3 {
                let counted = Rc::clone(&counted);
                inner.spawn(async move { counted.set(counted.get() + 1) });
            }
        });
        tasks.run();
        assert_eq!(count.get(), 3);
    }
}

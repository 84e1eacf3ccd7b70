//! Two threads and their mailboxes, in every order in which their steps may fall.
//!
//! The waker is a bell that ends its owner's sleep, which is what `reactor::Waker` promises (and what its own tests check).

use super::*;
use crate::pipeline::window::Window;
use loom::sync::{Arc, Condvar, Mutex, mpsc};
use loom::thread;

/// Ends its owner's sleep, now or when it next sleeps.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn sleep(&self) {
        let mut rung = self.rung.lock().expect("nobody panics");
        while !*rung {
            rung = self.changed.wait(rung).expect("nobody panics");
        }
        *rung = false;
    }
}

struct Explored;

impl<M> Line<M> for Explored {
    type Sender = mpsc::Sender<M>;
    type Receiver = mpsc::Receiver<M>;
    type Waker = Arc<Bell>;

    fn queue() -> (mpsc::Sender<M>, mpsc::Receiver<M>) {
        mpsc::channel()
    }

    fn send(sender: &mpsc::Sender<M>, message: M) -> Result<(), M> {
        sender.send(message).map_err(|error| error.0)
    }

    fn take(receiver: &mut mpsc::Receiver<M>) -> Option<M> {
        receiver.try_recv().ok()
    }

    fn wake(waker: &Arc<Bell>) {
        *waker.rung.lock().expect("nobody panics") = true;
        waker.changed.notify_one();
    }
}

/// A thread's own end: it sleeps, and takes all that there is.
struct Owner<M> {
    bell: Arc<Bell>,
    inbox: Inbox<M, Explored>,
}

impl<M> Owner<M> {
    fn new() -> (Mailbox<M, Explored>, Owner<M>) {
        let bell = Arc::new(Bell::default());
        let (mailbox, inbox) = Mailbox::new(Arc::clone(&bell));
        (mailbox, Owner { bell, inbox })
    }

    fn await_some(&mut self) -> Vec<M> {
        self.bell.sleep();
        std::iter::from_fn(|| self.inbox.take()).collect()
    }
}

fn explore(preemptions: usize, world: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // Bugs of this kind need few switches of threads at unlucky moments; without a bound the worlds take hours.
    builder.preemption_bound = Some(preemptions);
    builder.check(world);
}

#[test]
fn every_message_is_taken_once_and_in_its_senders_order() {
    explore(3, || {
        let (mailbox, mut owner) = Owner::new();
        let senders: Vec<_> = [10, 20]
            .into_iter()
            .map(|first| {
                let mailbox = mailbox.clone();
                thread::spawn(move || (first..first + 2).for_each(|message| mailbox.tell(message)))
            })
            .collect();
        let mut taken = Vec::new();
        while taken.len() < 4 {
            taken.extend(owner.await_some());
        }
        let of = |first: i32| taken.iter().copied().filter(|n| (first..first + 2).contains(n)).collect();
        let (tens, twenties): (Vec<i32>, Vec<i32>) = (of(10), of(20));
        assert_eq!((tens, twenties), (vec![10, 11], vec![20, 21]));
        senders.into_iter().for_each(|sender| sender.join().expect("nobody panics"));
    });
}

enum ToWorker {
    Io(usize),
    Withdraw(usize),
    Stop,
}

/// IOs that one pipeline sends to another: the sender's part is `Window`, as in `pipeline::remote`.
#[test]
fn an_io_for_another_thread_is_ended_once_and_never_are_more_on_their_way_than_allowed() {
    const IOS: usize = 3;
    const OUT_MAX: usize = 2;
    explore(2, || {
        let (to_worker, mut worker) = Owner::new();
        let (to_home, mut home) = Owner::<usize>::new();
        let other = thread::spawn(move || {
            let mut kept = Vec::new();
            loop {
                let messages = worker.await_some();
                assert!(messages.iter().filter(|m| matches!(m, ToWorker::Io(_))).count() <= OUT_MAX);
                for message in messages {
                    match message {
                        // The first to come is kept until it is withdrawn or the next one comes.
                        ToWorker::Io(io) if kept.is_empty() => kept.push(io),
                        ToWorker::Io(io) => {
                            kept.drain(..).for_each(|io| to_home.tell(io));
                            to_home.tell(io);
                        }
                        ToWorker::Withdraw(io) => {
                            kept.extract_if(.., |kept| *kept == io).for_each(|io| to_home.tell(io));
                        }
                        ToWorker::Stop => {
                            kept.drain(..).for_each(|io| to_home.tell(io));
                            return;
                        }
                    }
                }
            }
        });
        let mut window = Window::new(OUT_MAX);
        let mut ended = [0; IOS];
        (0..IOS).for_each(|io| window.push(io));
        let post_waiting = |window: &mut Window<usize>| {
            while let Some(io) = window.next() {
                to_worker.tell(ToWorker::Io(io));
            }
        };
        post_waiting(&mut window);
        // The host of the last two goes.
        window.withdraw(|io| *io > 0).into_iter().for_each(|io| ended[io] += 1);
        to_worker.tell(ToWorker::Withdraw(1));
        to_worker.tell(ToWorker::Stop);
        while ended.iter().sum::<usize>() < IOS {
            for io in home.await_some() {
                window.on_answer();
                ended[io] += 1;
                post_waiting(&mut window);
            }
        }
        assert_eq!(ended, [1; IOS]);
        other.join().expect("nobody panics");
    });
}

#[test]
fn an_owner_that_ends_gives_back_what_comes_too_late_and_nobody_waits_for_it() {
    explore(3, || {
        let (mailbox, mut owner) = Owner::new();
        let thread = thread::spawn(move || owner.await_some().len());
        let accepted = (0..2).filter(|message| mailbox.post(*message).is_ok()).count();
        let taken = thread.join().expect("nobody panics");
        assert!((1..=accepted).contains(&taken), "{taken} of {accepted}");
    });
}

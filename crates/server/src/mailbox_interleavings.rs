//! Explores threads and their mailboxes with loom, in every order of their steps.
//!
//! The waker is a bell that ends the owner's sleep. `reactor::Waker` promises the same, and its own tests check that.

use super::*;
use crate::outbox::{Batched, Outboxes};
use crate::pipeline::Window;
use crate::pipeline::admission::Admission;
use crate::pipeline::message::ToAcceptor;
use crate::quota::{Charged, Origin};
use loom::sync::{Arc, Condvar, Mutex, mpsc};
use loom::thread;

/// Ends the owner's sleep: the present one, or the next one.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn sleep(&self) {
        let mut rung = self.rung.lock().expect("no thread panics");
        while !*rung {
            rung = self.changed.wait(rung).expect("no thread panics");
        }
        *rung = false;
    }
}

struct Explored;

impl<M> Channel<M> for Explored {
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
        *waker.rung.lock().expect("no thread panics") = true;
        waker.changed.notify_one();
    }
}

/// The receiving thread: it sleeps, and takes all messages when it wakes up.
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

/// Runs `world` in every order of its threads' steps with at most `preemptions` forced switches (or `LOOM_MAX_PREEMPTIONS`, if
/// that is set). Bugs of this kind need only a few forced switches. Without a limit, locks make the run take hours.
fn explore(preemptions: usize, world: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // The builder takes its defaults from the environment.
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
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
        senders.into_iter().for_each(|sender| sender.join().expect("no thread panics"));
    });
}

enum ToWorker {
    Io(usize),
    Withdraw(usize),
    Stop,
}

/// IOs that one pipeline sends to another. The sender uses `Window`, as `pipeline::port` does.
#[test]
fn an_io_for_another_thread_ends_once_and_at_most_the_limit_are_outstanding() {
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
                        // The first IO is kept until it is withdrawn or the next one arrives.
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
        let waiting = [0, 1, 2].map(|io| window.push(io));
        let post_waiting = |window: &mut Window<usize>| {
            while let Some(io) = window.next() {
                to_worker.tell(ToWorker::Io(io));
            }
        };
        post_waiting(&mut window);
        // The host of the last two disconnects.
        waiting[1..].iter().filter_map(|io| window.withdraw(*io)).for_each(|io| ended[io] += 1);
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
        other.join().expect("no thread panics");
    });
}

#[test]
fn messages_to_an_owner_that_has_ended_are_returned() {
    explore(3, || {
        let (mailbox, mut owner) = Owner::new();
        let thread = thread::spawn(move || owner.await_some().len());
        let accepted = (0..2).filter(|message| mailbox.post(*message).is_ok()).count();
        let taken = thread.join().expect("no thread panics");
        assert!((1..=accepted).contains(&taken), "{taken} of {accepted}");
    });
}

/// The acceptor hands over a connection that it has counted, to a pipeline that ends at any moment: after it has taken the
/// connection, before, or without looking.
#[test]
fn a_counted_connection_is_returned_once_whenever_its_pipeline_ends() {
    const CONNECTIONS: usize = 2;
    for looks in [false, true] {
        explore(3, move || {
            let (to_acceptor, mut acceptor) = Owner::<ToAcceptor>::new();
            let (to_pipeline, mut pipeline) = Owner::<Admission<Explored>>::new();
            let other =
                thread::spawn(move || if looks { drop(pipeline.await_some()) } else { drop(pipeline) });
            for _ in 0..CONNECTIONS {
                // The acceptor does the same: it drops what cannot be posted.
                to_pipeline.tell(Admission::new(
                    "nqn.host".into(),
                    Charged::Host("nqn.host".into(), Origin::of(std::net::Ipv4Addr::LOCALHOST.into())),
                    to_acceptor.clone(),
                ));
            }
            let mut gone = 0;
            while gone < CONNECTIONS {
                gone += acceptor.await_some().len();
            }
            other.join().expect("no thread panics");
            assert_eq!((gone, acceptor.inbox.take().is_none()), (CONNECTIONS, true));
        });
    }
}

enum ToPipeline {
    Tenant,
    Connection,
    Io,
}

/// The acceptor announces a tenant to all pipelines, then hands over a connection of it. Its IOs go to another pipeline.
#[test]
fn a_tenant_is_known_before_its_ios_arrive() {
    explore(3, || {
        let (to_home, mut home) = Owner::new();
        let (to_other, mut other) = Owner::new();
        let from_home = to_other.clone();
        let home = thread::spawn(move || {
            loop {
                for message in home.await_some() {
                    match message {
                        ToPipeline::Tenant => {}
                        ToPipeline::Connection => return from_home.tell(ToPipeline::Io),
                        ToPipeline::Io => unreachable!("no IO is sent here"),
                    }
                }
            }
        });
        let acceptor = thread::spawn(move || {
            [&to_home, &to_other].into_iter().for_each(|pipeline| pipeline.tell(ToPipeline::Tenant));
            to_home.tell(ToPipeline::Connection);
        });
        let mut taken = Vec::new();
        while taken.len() < 2 {
            taken.extend(other.await_some());
        }
        assert!(
            matches!(taken[..], [ToPipeline::Tenant, ToPipeline::Io]),
            "an IO of a tenant that is not known"
        );
        home.join().expect("no thread panics");
        acceptor.join().expect("no thread panics");
    });
}

/// One number, or a batch of them.
#[derive(Debug)]
enum Parcel {
    One(usize),
    Many(Vec<Parcel>),
}

impl Batched for Parcel {
    fn batch(messages: Vec<Parcel>) -> Parcel {
        Parcel::Many(messages)
    }

    fn unbatch(self) -> Result<Vec<Parcel>, Parcel> {
        match self {
            Parcel::Many(messages) => Ok(messages),
            Parcel::One(_) => Err(self),
        }
    }
}

impl Parcel {
    fn numbers(self) -> Vec<usize> {
        match self {
            Parcel::One(number) => vec![number],
            Parcel::Many(messages) => messages.into_iter().flat_map(Parcel::numbers).collect(),
        }
    }
}

/// A thread sends a batch in each of two turns, to a thread that takes all it finds and then ends.
#[test]
fn a_batch_arrives_whole_in_order_or_comes_back() {
    explore(3, || {
        let (mailbox, mut owner) = Owner::<Parcel>::new();
        let other = thread::spawn(move || {
            let taken: Vec<Vec<usize>> = owner.await_some().into_iter().map(Parcel::numbers).collect();
            assert!(taken.iter().all(|batch| batch.len() == 2), "whole: {taken:?}");
            taken.concat()
        });
        let mut outboxes: Outboxes<Parcel, Explored> = Outboxes::new();
        outboxes.set(1, Some(mailbox));
        let mut lost = Vec::new();
        for first in [0, 2] {
            for number in [first, first + 1] {
                outboxes.push(1, Parcel::One(number)).expect("the owner exists");
            }
            outboxes.flush(|slot, message| {
                lost.extend(message.numbers().into_iter().map(|number| (slot, number)))
            });
            assert!(!outboxes.is_due());
        }
        let taken = other.join().expect("no thread panics");
        // Messages that were accepted and not taken are dropped with the mailbox.
        let expected: Vec<usize> = (0..taken.len()).collect();
        assert_eq!(taken, expected, "in order");
        assert!(lost.iter().all(|(slot, number)| *slot == 1 && *number >= taken.len()), "{taken:?} {lost:?}");
        assert!(taken.len() >= 2);
    });
}

/// A message that can wait goes with the next one, or when the sender asks for it: there is no other wake-up for it.
#[test]
fn what_can_wait_goes_with_the_next_batch_in_order() {
    explore(3, || {
        let (mailbox, mut owner) = Owner::<Parcel>::new();
        let other = thread::spawn(move || {
            let mut taken = Vec::new();
            while taken.len() < 4 {
                let batches: Vec<Vec<usize>> = owner.await_some().into_iter().map(Parcel::numbers).collect();
                assert!(
                    batches.iter().all(|batch| batch[..] == [0, 1] || batch[..] == [2, 3]),
                    "{batches:?}"
                );
                taken.extend(batches.concat());
            }
            taken
        });
        let mut outboxes: Outboxes<Parcel, Explored> = Outboxes::new();
        outboxes.set(1, Some(mailbox));
        let flush = |outboxes: &mut Outboxes<Parcel, Explored>| {
            outboxes.flush(|_, _| unreachable!("the owner waits"));
        };
        outboxes.tell_later(1, Parcel::One(0));
        assert!(!outboxes.is_due());
        flush(&mut outboxes);
        outboxes.tell(1, Parcel::One(1));
        flush(&mut outboxes);
        (2..4).for_each(|number| outboxes.tell_later(1, Parcel::One(number)));
        outboxes.send_what_waits();
        assert!(outboxes.is_due());
        flush(&mut outboxes);
        assert_eq!(other.join().expect("no thread panics"), [0, 1, 2, 3]);
    });
}

/// A pipeline asks a connection's thread to cancel a command. The answer arrives after all commands that the thread has sent before.
#[test]
fn the_answer_to_a_cancellation_arrives_after_all_earlier_commands() {
    explore(3, || {
        let (to_pipeline, mut pipeline) = Owner::<Parcel>::new();
        let (to_thread, mut connections) = Owner::<Parcel>::new();
        let thread = thread::spawn(move || {
            let mut outboxes: Outboxes<Parcel, Explored> = Outboxes::new();
            outboxes.set(0, Some(to_pipeline));
            // A command arrives from its socket, perhaps in the same turn as the request to cancel it.
            outboxes.push(0, Parcel::One(1)).expect("the owner exists");
            outboxes.flush(|_, _| unreachable!("the pipeline waits"));
            connections.await_some();
            outboxes.push(0, Parcel::One(2)).expect("the owner exists");
            outboxes.flush(|_, _| unreachable!("the pipeline waits"));
        });
        to_thread.tell(Parcel::One(0));
        let mut seen = Vec::new();
        while !seen.contains(&2) {
            seen.extend(pipeline.await_some().into_iter().flat_map(Parcel::numbers));
        }
        assert_eq!(seen, [1, 2], "the command, then the answer");
        thread.join().expect("no thread panics");
    });
}

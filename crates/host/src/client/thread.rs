//! The client's thread: takes orders, drives the engine, answers.

use super::pending::Completer;
use super::{ClientError, ConnectFailure, Controller, Order, Outcome, Owner, Shared, Snapshot, lock};
use crate::engine::Engine;
use crate::event::{ControllerId, Event};
use crate::fault::ConnectError;
use crate::request::{Completion, Request};
use reactor::{Backend, Waker};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use units::Bytes;

/// The thread's name, for debuggers and `top -H`.
const THREAD_NAME: &str = "nvme-client";

/// A thread that has its engine and waits for the state that it shares with its handles.
pub(super) struct Worker {
    waker: Waker,
    begin: Sender<(Arc<Shared>, Weak<Owner>)>,
}

impl Worker {
    /// A reactor belongs to the thread that created it, so the thread has to send back its waker.
    pub(super) fn spawn(backend: Backend) -> io::Result<Worker> {
        let (tell, told) = channel();
        let (begin, begun) = channel();
        thread::Builder::new().name(THREAD_NAME.into()).spawn(move || work(backend, &tell, &begun))?;
        let waker = told.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Worker { waker, begin })
    }

    pub(super) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    pub(super) fn begin(self, shared: Arc<Shared>, owner: Weak<Owner>) {
        // If the thread has ended, its orders are dropped, which answers them.
        let _ = self.begin.send((shared, owner));
    }
}

fn work(backend: Backend, tell: &Sender<io::Result<Waker>>, begun: &Receiver<(Arc<Shared>, Weak<Owner>)>) {
    // Buffers come from the pool of the handles, so the engine needs none.
    let engine = Engine::new(backend, Bytes::ZERO);
    let (engine, waker) = match engine {
        Ok(engine) => {
            let waker = engine.waker();
            (engine, waker)
        }
        Err(error) => return drop(tell.send(Err(error))),
    };
    if tell.send(Ok(waker)).is_ok()
        && let Ok((shared, owner)) = begun.recv()
    {
        Service::new(engine, shared, owner).run();
    }
}

/// A controller whose handle is being made, or exists.
struct Known {
    connecting: Option<Completer<Result<Controller, ConnectFailure>>>,
    closing: Vec<Completer<()>>,
    snapshot: Arc<Mutex<Snapshot>>,
    /// Whether something happened since the last snapshot.
    is_stale: bool,
}

struct Service {
    engine: Engine,
    shared: Arc<Shared>,
    owner: Weak<Owner>,
    known: HashMap<ControllerId, Known>,
    stale: Vec<ControllerId>,
    /// The waiters of IOs. The IO's tag is the index.
    waiters: Vec<Option<Completer<Outcome>>>,
    free: Vec<usize>,
    is_stopping: bool,
}

impl Service {
    fn new(engine: Engine, shared: Arc<Shared>, owner: Weak<Owner>) -> Service {
        Service {
            engine,
            shared,
            owner,
            known: HashMap::new(),
            stale: Vec::new(),
            waiters: Vec::new(),
            free: Vec::new(),
            is_stopping: false,
        }
    }

    fn run(mut self) {
        let mut orders = VecDeque::new();
        while !(self.is_stopping && self.known.is_empty()) {
            if self.engine.wait(None).is_err() {
                // The machine does not work. Dropping everything answers all orders.
                break;
            }
            while let Some(event) = self.engine.next_event() {
                self.on_event(event);
            }
            std::mem::swap(&mut orders, &mut *lock(&self.shared.orders));
            orders.drain(..).for_each(|order| self.on_order(order));
            self.refresh();
        }
    }

    fn on_order(&mut self, order: Order) {
        match order {
            Order::Connect(options, completer) => {
                let id = self.engine.connect(*options);
                let (connecting, snapshot) = (Some(completer), Arc::default());
                self.known.insert(id, Known { connecting, closing: Vec::new(), snapshot, is_stale: false });
            }
            Order::Submit(id, request, completer) => self.submit(id, request, completer),
            Order::Close(id, completer) => {
                if let Some(known) = self.known.get_mut(&id) {
                    known.closing.push(completer);
                    self.engine.close(id);
                }
            }
            Order::Stop => {
                self.is_stopping = true;
                self.known.keys().for_each(|&id| self.engine.close(id));
            }
        }
    }

    fn submit(&mut self, id: ControllerId, mut request: Request, completer: Completer<Outcome>) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.waiters.push(None);
            self.waiters.len() - 1
        });
        request.tag = place as u64;
        match self.engine.submit(id, request) {
            Ok(()) => self.waiters[place] = Some(completer),
            Err(refused) => {
                self.free.push(place);
                completer.complete(Outcome::refused(refused.why, refused.request));
            }
        }
        self.touch(id);
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Completed { controller, completion } => {
                self.touch(controller);
                self.on_completed(completion);
            }
            Event::Ready { controller, .. } => self.on_ready(controller),
            Event::Down { controller, .. } | Event::NamespacesChanged { controller } => {
                self.touch(controller)
            }
            Event::GaveUp { controller, error } => self.on_end(controller, Some(error)),
            Event::Closed { controller } => self.on_end(controller, None),
            Event::Discovered { .. } | Event::Woken => {}
        }
    }

    fn on_completed(&mut self, completion: Completion) {
        let place = completion.tag as usize;
        let service_time = completion.service_time();
        self.free.push(place);
        let completer = self.waiters[place].take().expect("an IO that ends was submitted here");
        let result = completion.result.map_err(ClientError::Failed);
        completer.complete(Outcome { result, buffer: completion.buffer, service_time });
    }

    fn on_ready(&mut self, id: ControllerId) {
        self.touch(id);
        self.refresh();
        let Some(known) = self.known.get_mut(&id) else { return };
        // Without an owner, no handle waits for the controller any more.
        if let (Some(completer), Some(owner)) = (known.connecting.take(), self.owner.upgrade()) {
            completer.complete(Ok(Controller { owner, id, snapshot: Arc::clone(&known.snapshot) }));
        }
    }

    fn on_end(&mut self, id: ControllerId, error: Option<Box<ConnectError>>) {
        let Some(known) = self.known.remove(&id) else { return };
        {
            let mut snapshot = lock(&known.snapshot);
            snapshot.view.is_ready = false;
            snapshot.error = error.clone();
        }
        if let Some(completer) = known.connecting {
            completer.complete(Err(error.map_or(ConnectFailure::ClientEnded, ConnectFailure::Controller)));
        }
        known.closing.into_iter().for_each(|completer| completer.complete(()));
    }

    fn touch(&mut self, id: ControllerId) {
        if let Some(known) = self.known.get_mut(&id)
            && !known.is_stale
        {
            known.is_stale = true;
            self.stale.push(id);
        }
    }

    /// Takes new snapshots of the controllers where something happened.
    fn refresh(&mut self) {
        for id in self.stale.drain(..) {
            let Some(known) = self.known.get_mut(&id) else { continue };
            known.is_stale = false;
            let mut snapshot = lock(&known.snapshot);
            snapshot.view = self.engine.view(id).unwrap_or_default();
            let namespaces = self.engine.namespaces(id);
            if snapshot.namespaces != namespaces {
                snapshot.namespaces = namespaces.to_vec();
            }
        }
    }
}

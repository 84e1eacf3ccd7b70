//! An engine on its own thread, behind handles that any thread may clone and use, blocking or async.
//!
//! ```text
//!   Controller::submit ──► [ orders ] ──wake──► client's thread: Engine ──► Completer ──► Pending: wait() or .await
//! ```
//!
//! [`Pending`] is a plain future: it works with any executor, and `wait` needs none. Every order is answered,
//! even if the thread dies: a [`Completer`] that is dropped answers its [`Pending`].
//!
//! Limits: a controller accepts as many IOs as its options let wait; further ones are refused. All buffers
//! come from one pool.

mod pending;
mod thread;

pub use pending::Pending;

use crate::fault::ConnectError;
use crate::namespace::Namespace;
use crate::options::ControllerOptions;
use crate::request::{IoError, Operation, Refusal, Request};
use crate::view::View;
use pending::{Completer, pending};
use reactor::{Backend, BufferPool, IoBuffer, Waker};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thread::Worker;
use units::{Bytes, Lba, Nanos};

/// Why an IO through a client failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// It was not accepted; nothing has happened.
    #[error("{0}")]
    Refused(Refusal),
    /// It was accepted and failed.
    #[error("{0}")]
    Failed(IoError),
    /// The client's pool has no memory for its buffer; nothing has happened.
    #[error("all buffers of the client are in use; drop some, or start it with more memory")]
    NoMemory,
}

/// Why a connection attempt through a client failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectFailure {
    /// The controller cannot be used.
    #[error("{0}")]
    Controller(Box<ConnectError>),
    /// The client ended before the controller was ready.
    #[error("the client ended before the controller was ready")]
    ClientEnded,
}

/// The result of an IO through a client.
#[derive(Debug)]
pub struct Outcome {
    /// Success, or why it failed.
    pub result: Result<(), ClientError>,
    /// The request's buffer, filled if a read succeeded.
    pub buffer: Option<IoBuffer>,
    /// Time from sending the command to its completion; zero if it was never sent.
    pub service_time: Nanos,
}

impl Outcome {
    fn refused(why: Refusal, request: Request) -> Outcome {
        let result = Err(ClientError::Refused(why));
        Outcome { result, buffer: request.buffer, service_time: Nanos::ZERO }
    }
}

/// Most orders that wait for the thread; further IOs are refused.
const ORDERS_MAX: usize = 65_536;

/// An order for the client's thread.
enum Order {
    Connect(Box<ControllerOptions>, Completer<Result<Controller, ConnectFailure>>),
    Submit(crate::ControllerId, Request, Completer<Outcome>),
    Close(crate::ControllerId, Completer<()>),
    Stop,
}

/// State that the handles share with the thread.
struct Shared {
    orders: Mutex<VecDeque<Order>>,
    pool: Mutex<BufferPool>,
    waker: Waker,
}

impl Shared {
    fn order(&self, order: Order) {
        lock(&self.orders).push_back(order);
        self.waker.wake();
    }
}

/// No lock is ever held while its data is inconsistent. So a panic in another thread does not make the data
/// invalid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the thread when the last handle is dropped.
struct Owner {
    shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.order(Order::Stop);
    }
}

/// An initiator on its own thread. Clones share it. It closes its controllers and ends when the last clone
/// and the last [`Controller`] are dropped.
#[derive(Clone)]
pub struct Client {
    owner: Arc<Owner>,
}

impl Client {
    /// Starts the thread. `memory` limits the buffers that [`Client::buffer`] lends.
    ///
    /// # Errors
    /// If the backend is not available, or no thread can be started.
    pub fn start(backend: Backend, memory: Bytes) -> io::Result<Client> {
        let worker = Worker::spawn(backend)?;
        let shared = Arc::new(Shared {
            orders: Mutex::default(),
            pool: Mutex::new(BufferPool::new(memory)),
            waker: worker.waker(),
        });
        let owner = Arc::new(Owner { shared: Arc::clone(&shared) });
        worker.begin(shared, Arc::downgrade(&owner));
        Ok(Client { owner })
    }

    /// A buffer of exactly `length` bytes with unspecified contents, or `None` while all memory is lent.
    pub fn buffer(&self, length: usize) -> Option<IoBuffer> {
        lock(&self.owner.shared.pool).take(length)
    }

    /// Connects to a controller and keeps it connected.
    pub fn connect(&self, options: ControllerOptions) -> Pending<Result<Controller, ConnectFailure>> {
        let (completer, pending) = pending();
        self.owner.shared.order(Order::Connect(Box::new(options), completer));
        pending
    }
}

/// The thread's last state of a controller.
#[derive(Debug, Default)]
struct Snapshot {
    view: View,
    namespaces: Vec<Namespace>,
    /// Why it was given up, if it was.
    error: Option<Box<ConnectError>>,
}

/// A connected controller of a client.
#[derive(Clone)]
pub struct Controller {
    owner: Arc<Owner>,
    id: crate::ControllerId,
    snapshot: Arc<Mutex<Snapshot>>,
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Controller {
    /// The namespaces last seen.
    pub fn namespaces(&self) -> Vec<Namespace> {
        lock(&self.snapshot).namespaces.clone()
    }

    /// The virtual view of its SSD, as of the last event.
    pub fn view(&self) -> View {
        lock(&self.snapshot).view
    }

    /// Why the controller was given up, if it was.
    pub fn error(&self) -> Option<Box<ConnectError>> {
        lock(&self.snapshot).error.clone()
    }

    /// The client.
    pub fn client(&self) -> Client {
        Client { owner: Arc::clone(&self.owner) }
    }

    /// Submits any request. Its `tag` is ignored.
    pub fn submit(&self, request: Request) -> Pending<Outcome> {
        let (completer, pending) = pending();
        if lock(&self.owner.shared.orders).len() < ORDERS_MAX {
            self.owner.shared.order(Order::Submit(self.id, request, completer));
        } else {
            completer.complete(Outcome::refused(Refusal::Busy, request));
        }
        pending
    }

    /// Reads `blocks` blocks of `block_size` bytes from `lba`.
    ///
    /// # Errors
    /// See [`Outcome::result`]; [`ClientError::NoMemory`] while all buffers are lent.
    pub async fn read(&self, nsid: u32, lba: Lba, blocks: u32) -> Result<IoBuffer, ClientError> {
        let request =
            Request::new(0, nsid, Operation::Read, lba, blocks).with_buffer(self.buffer_for(nsid, blocks)?);
        let outcome = self.submit(request).await;
        outcome.result.map(|()| outcome.buffer.expect("a read returns its buffer"))
    }

    /// Writes `buffer`, a whole number of blocks, to `lba`. Dropping the outcome returns the buffer to the
    /// pool.
    pub fn write(&self, nsid: u32, lba: Lba, buffer: IoBuffer) -> Pending<Outcome> {
        let block_size = self.block_size(nsid).max(1);
        let blocks = buffer.len() / block_size;
        let operation = Operation::Write { durable: false };
        self.submit(Request::new(0, nsid, operation, lba, blocks as u32).with_buffer(buffer))
    }

    /// Makes all completed writes survive a power loss.
    pub fn flush(&self, nsid: u32) -> Pending<Outcome> {
        self.submit(Request::new(0, nsid, Operation::Flush, Lba(0), 0))
    }

    /// Like [`Controller::read`], but blocks the calling thread.
    ///
    /// # Errors
    /// See [`Controller::read`].
    pub fn read_blocking(&self, nsid: u32, lba: Lba, blocks: u32) -> Result<IoBuffer, ClientError> {
        let request =
            Request::new(0, nsid, Operation::Read, lba, blocks).with_buffer(self.buffer_for(nsid, blocks)?);
        let outcome = self.submit(request).wait();
        outcome.result.map(|()| outcome.buffer.expect("a read returns its buffer"))
    }

    /// Like [`Controller::write`], but blocks the calling thread.
    ///
    /// # Errors
    /// See [`Outcome::result`].
    pub fn write_blocking(&self, nsid: u32, lba: Lba, bytes: &[u8]) -> Result<(), ClientError> {
        let mut buffer = self.client().buffer(bytes.len()).ok_or(ClientError::NoMemory)?;
        buffer.copy_from_slice(bytes);
        self.write(nsid, lba, buffer).wait().result
    }

    /// Ends all its IOs and shuts the controller down. Further IOs are refused.
    pub fn close(&self) -> Pending<()> {
        let (completer, pending) = pending();
        self.owner.shared.order(Order::Close(self.id, completer));
        pending
    }

    /// Block size of a namespace. 0 if it does not exist; the check that all requests pass then refuses the
    /// request.
    fn block_size(&self, nsid: u32) -> usize {
        let snapshot = lock(&self.snapshot);
        let namespace = snapshot.namespaces.iter().find(|namespace| namespace.nsid == nsid);
        namespace.map_or(0, |namespace| namespace.block_size.get() as usize)
    }

    fn buffer_for(&self, nsid: u32, blocks: u32) -> Result<IoBuffer, ClientError> {
        let length = self.block_size(nsid).saturating_mul(blocks as usize);
        if length > BufferPool::LENGTH_MAX {
            let blocks_max = (BufferPool::LENGTH_MAX / self.block_size(nsid)) as u32;
            return Err(ClientError::Refused(Refusal::TooLarge { blocks_max }));
        }
        self.client().buffer(length).ok_or(ClientError::NoMemory)
    }
}

//! The reactor: one thread's sockets, files, deadlines and wake-ups behind one queue of events.
//!
//! ```text
//!   loop {
//!       reactor.wait(deadline)?;                   // hands over all that was asked for; sleeps only if there is nothing to say
//!       while let Some(event) = reactor.next_event() { … ask for more … }
//!   }
//! ```
//!
//! Requests are handed to the kernel by the next `wait` or `flush`, so that one system call carries all of them. Disk operations
//! may go earlier: to the threads of the epoll backend at once, to the ring in pieces (`ring::files`).
//!
//! Elsewhere: the backends are `ring` and `epoll`; when to busy-poll before sleeping is `pacing`.

use crate::disk::Owner;
use crate::driver::Driver;
use crate::epoll::EpollDriver;
use crate::event::{Event, Events};
use crate::pacing::Pacing;
use crate::ring::RingDriver;
use crate::{Clock, DiskAccess, DiskOp, Refused, SendBatch, Token, Unregistered, Waker, thread_class};
use std::hint;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;
use units::{Bytes, Instant, Nanos};

/// The kernel interface that the reactor uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// io_uring if the kernel has and allows it, else epoll.
    Auto,
    /// io_uring: sockets and disk in one ring. Needs Linux 6.0 and permission.
    IoUring,
    /// epoll for sockets, a few blocking threads for the disk.
    Epoll,
}

/// The sizes of a reactor.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time for which `wait` may look again before it sleeps, while events come quickly. Zero, the default: never. It pays with a
    /// processor for every spinning thread; without one it soon stops (and is tried again now and then).
    pub spin: Nanos,
    /// Threads that could run on the spinning thread's processor go first. For a thread that shares its processors with others that it
    /// waits for: they would wait for it.
    pub is_polite: bool,
    /// Receive buffers shared by all sockets: a power of two.
    pub receive_buffers: u16,
    /// The size of each.
    pub receive_buffer_size: Bytes,
    /// Disk operations in flight at most; beyond it `submit_disk` refuses.
    pub disk_depth: usize,
    /// Threads for the disk in the epoll backend: as many operations run at a time.
    pub disk_threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            spin: Nanos::ZERO,
            is_polite: false,
            receive_buffers: 32,
            receive_buffer_size: Bytes::kib(32),
            disk_depth: 1024,
            disk_threads: 8,
        }
    }
}

/// Completion-based IO for the thread that made it; it stays on that thread. See the module's head for its use.
///
/// Requests for a token that is closed, or that names something of another kind, are ignored or refused, never misdirected.
pub struct Reactor {
    driver: Box<dyn Driver>,
    events: Events,
    waker: Waker,
    pacing: Pacing,
    is_polite: bool,
    backend: Backend,
    fallback_reason: Option<io::Error>,
    broken: Option<io::Error>,
}

impl Reactor {
    /// A reactor with the default sizes.
    ///
    /// # Errors
    /// The backend asked for is not available, or the process is out of descriptors or memory.
    pub fn new(backend: Backend) -> io::Result<Reactor> {
        Reactor::with_options(backend, &Options::default())
    }

    /// A reactor of the given sizes. It sets the calling thread's timer slack to the minimum, so that deadlines are met to the
    /// microsecond.
    ///
    /// # Errors
    /// As [`Reactor::new`].
    ///
    /// # Panics
    /// If a size is zero, or the number of receive buffers is not a power of two up to 32768.
    pub fn with_options(backend: Backend, options: &Options) -> io::Result<Reactor> {
        let count = options.receive_buffers;
        assert!(count.is_power_of_two(), "{count} receive buffers: must be a power of two");
        assert!(
            options.disk_depth > 0 && options.disk_threads > 0 && options.receive_buffer_size > Bytes::ZERO,
            "a size is zero: {options:?}"
        );
        let waker = Waker::new()?;
        let mut fallback_reason = None;
        let (driver, backend): (Box<dyn Driver>, Backend) = match backend {
            Backend::IoUring => (Box::new(RingDriver::new(options, waker.clone())?), Backend::IoUring),
            Backend::Epoll => (Box::new(EpollDriver::new(options, waker.clone())?), Backend::Epoll),
            Backend::Auto => match RingDriver::new(options, waker.clone()) {
                Ok(driver) => (Box::new(driver), Backend::IoUring),
                Err(reason) => {
                    fallback_reason = Some(reason);
                    (Box::new(EpollDriver::new(options, waker.clone())?), Backend::Epoll)
                }
            },
        };
        thread_class::ask();
        let pacing = Pacing::new(options.spin);
        Ok(Reactor {
            driver,
            events: Events::default(),
            waker,
            pacing,
            is_polite: options.is_polite,
            backend,
            fallback_reason,
            broken: None,
        })
    }

    /// The backend in use, never `Auto`.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Why `Auto` did not get io_uring, for the log.
    pub fn fallback_reason(&self) -> Option<&io::Error> {
        self.fallback_reason.as_ref()
    }

    /// The handle that wakes this reactor from other threads.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Accepts every connection that comes to `listener` ([`bind`](crate::bind) makes one), until `close`.
    pub fn listen(&mut self, listener: TcpListener) -> io::Result<Token> {
        self.driver.listen(listener)
    }

    /// Accepts again after [`Event::AcceptFailed`].
    pub fn resume_accept(&mut self, listener: Token) {
        self.driver.resume_accept(listener);
    }

    /// Begins to connect; [`Event::Connected`] reports the outcome. From then on the socket receives.
    ///
    /// # Errors
    /// Only if no socket could be made.
    pub fn connect(&mut self, address: SocketAddr) -> io::Result<Token> {
        self.driver.connect(address, &mut self.events)
    }

    /// Takes over a connected socket and begins to receive.
    pub fn add_socket(&mut self, socket: TcpStream) -> io::Result<Token> {
        self.driver.add_socket(socket)
    }

    /// Gives a socket up for another reactor, in good order: a batch in flight is sent first, bytes that were received are
    /// reported (also those a pause held back), then comes [`Event::Detached`].
    pub fn detach(&mut self, token: Token) {
        self.driver.detach(token, &mut self.events);
    }

    /// Stops reporting received bytes of a socket, so that the other end is slowed down by TCP.
    pub fn pause_receive(&mut self, token: Token) {
        self.driver.pause_receive(token, &mut self.events);
    }

    /// Goes on after `pause_receive`, with nothing lost.
    pub fn resume_receive(&mut self, token: Token) {
        self.driver.resume_receive(token, &mut self.events);
    }

    /// Stops reporting the socket's bytes from now on. [`Event::Readable`] announces them, and [`Reactor::read`] takes
    /// them straight to their place: for bytes that would otherwise be copied once more. Data received before is
    /// reported before.
    pub fn pull_receive(&mut self, token: Token) {
        self.driver.pull_receive(token);
    }

    /// Goes back to reporting received bytes.
    pub fn push_receive(&mut self, token: Token) {
        self.driver.push_receive(token);
    }

    /// Takes data that has arrived into the first place, then into the second, up to their lengths. `None`: no data has
    /// arrived, or the socket is paused, or it is not read. Then, and after fewer bytes than the places hold,
    /// [`Event::Readable`] comes with the next bytes. The end of the connection is reported as usual.
    ///
    /// # Panics
    /// If there is no room.
    pub fn read(&mut self, token: Token, places: [&mut [u8]; 2]) -> Option<usize> {
        assert!(places.iter().any(|place| !place.is_empty()), "a read of nothing");
        self.driver.read(token, places, &mut self.events)
    }

    /// Stops reading before all data is taken: [`Event::Readable`] comes again, after the events of others.
    pub fn read_later(&mut self, token: Token) {
        self.driver.read_later(token);
    }

    /// Announces a number of bytes: [`Event::Readable`] may wait until they have arrived, or a good part of them. If
    /// fewer come, no event reports them. It holds until the next call for this socket.
    pub fn expect(&mut self, token: Token, count: usize) {
        self.driver.expect(token, count);
    }

    /// Announces that the next bytes are more of the same data and may wait for a wake-up: if they come slowly, `wait`
    /// does not busy-poll until [`Event::Readable`] is taken again, unless events other than that and sent batches were
    /// reported in the last moments.
    pub fn rest(&mut self) {
        self.pacing.rest(true);
    }

    /// Sends a batch, whole and in order; [`Event::Sent`] gives it back. An empty batch is sent at once.
    ///
    /// # Errors
    /// `Busy` while a batch of this socket is in flight, `Closed` if the socket is not open or not connected yet.
    pub fn send(&mut self, token: Token, batch: SendBatch) -> Result<(), Refused<SendBatch>> {
        self.driver.send(token, batch, &mut self.events)
    }

    /// Signals the other end that nothing more will be sent, after the batch in flight. Data that it still sends is received.
    pub fn shutdown_write(&mut self, token: Token) {
        self.driver.shutdown_write(token);
    }

    /// Watches a descriptor of somebody else's: [`Event::Ready`] comes once it is readable, and again only after
    /// [`Reactor::watch_channel`]. The reactor keeps a copy of the descriptor; to move it to another reactor, close it here
    /// and add it there: nothing that the descriptor has to say is lost by that.
    ///
    /// # Errors
    /// The process is out of descriptors, or the descriptor is of a kind that cannot be waited for.
    pub fn add_channel(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<Token> {
        self.driver.add_channel(descriptor.try_clone_to_owned()?)
    }

    /// Watches a channel again after its [`Event::Ready`]. If it is readable still, the event comes at once.
    ///
    /// # Errors
    /// The kernel refuses: a bug or a broken machine.
    pub fn watch_channel(&mut self, token: Token) -> io::Result<()> {
        self.driver.watch_channel(token)
    }

    /// Takes over a file or block device, to be read and written as such.
    pub fn add_file(&mut self, file: OwnedFd) -> io::Result<Token> {
        self.add_disk(file, DiskAccess::File)
    }

    /// Takes over a file, block device or NVMe namespace, to be read and written as `access` says.
    ///
    /// # Errors
    /// `Unsupported` if the backend or the kernel does not know that way.
    pub fn add_disk(&mut self, file: OwnedFd, access: DiskAccess) -> io::Result<Token> {
        self.driver.add_disk(file, access)
    }

    /// The registrations that the kernel has refused, once for each refusal: for the log. Nothing fails for it.
    pub fn take_unregistered(&mut self) -> Option<Unregistered> {
        self.driver.take_unregistered()
    }

    /// Begins a disk operation; [`Event::Disk`] with the same `tag` gives its outcome and its buffer. Operations in
    /// flight are not ordered among each other; an `Fdatasync` covers those with events before its submission.
    ///
    /// # Errors
    /// `Busy` at `Options::disk_depth` operations in flight, `Closed` if `file` is not an open file.
    ///
    /// # Panics
    /// If the range of a read or write is not within its buffer.
    pub fn submit_disk(&mut self, file: Token, tag: u64, op: DiskOp) -> Result<(), Refused<DiskOp>> {
        op.check_range();
        self.driver.submit_disk(Owner { file, tag }, op, &mut self.events)
    }

    /// Closes the token's listener, socket, file or channel. From this moment there is no event for it, not even for completions
    /// that have happened already. Transfers in flight on a socket are broken off (it is shut down, which affects
    /// copies of its descriptor, too); a disk operation runs to its end unreported. Buffers go home to their pools when
    /// the kernel is done with them, and only then is the descriptor closed. For an orderly end, wait for
    /// [`Event::Sent`] first.
    pub fn close(&mut self, token: Token) {
        self.driver.close(token, &mut self.events);
    }

    /// Hands all requests over to the kernel without waiting, and collects the events.
    pub fn flush(&mut self) -> io::Result<()> {
        self.notice_wake_up(Waker::take_notice);
        self.driver.poll(&mut self.events)
    }

    /// Makes the next `wait` fail with `error`, as on a broken machine: for tests of whoever owns the reactor.
    pub fn break_down(&mut self, error: io::Error) {
        self.broken = Some(error);
    }

    /// The oldest event that was not taken yet.
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop()?;
        match event {
            Event::Sent { .. } => {}
            Event::Readable { .. } => self.pacing.rest(false),
            _ => self.pacing.on_lively(),
        }
        Some(event)
    }

    /// Hands all requests over to the kernel; returns when there is an event to take or when `deadline` has passed on [`Clock`],
    /// never before. `None` is no deadline. A signal does not end the wait; its handler may use a [`Waker`] to that end.
    ///
    /// # Errors
    /// The kernel refuses the call itself: a bug or a broken machine.
    pub fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        self.notice_wake_up(Waker::take_notice);
        if !self.events.is_empty() {
            self.pacing.on_no_gap();
            return self.driver.poll(&mut self.events);
        }
        if !self.pacing.is_on() {
            return self.sleep(deadline);
        }
        let start = Clock.now();
        if let Some(deadline) = deadline.filter(|&deadline| self.pacing.is_near(start, deadline)) {
            self.meet(deadline)?;
            if !self.events.is_empty() {
                self.pacing.on_gap(start, Clock.now().since(start));
            }
            return Ok(());
        }
        if let Some(until) = self.pacing.spin_until(start)
            && self.spin(until)? == Spun::Out
        {
            self.pacing.on_spin(!self.events.is_empty());
        }
        if self.events.is_empty() {
            self.sleep(deadline.map(|deadline| self.pacing.sleep_until(deadline)))?;
        }
        if self.events.is_empty()
            && let Some(deadline) = deadline
        {
            self.meet(deadline)?;
        }
        self.pacing.on_gap(start, Clock.now().since(start));
        Ok(())
    }

    /// Looks for events until there is one or the near `deadline` has passed.
    fn meet(&mut self, deadline: Instant) -> io::Result<()> {
        match self.spin(deadline)? {
            Spun::Out => Ok(()),
            Spun::Crowded => self.sleep(Some(deadline)),
        }
    }

    /// Looks for events without sleeping, until there is one or `until`, or until it is seen that the processor has other work.
    fn spin(&mut self, until: Instant) -> io::Result<Spun> {
        self.driver.poll(&mut self.events)?;
        let mut now = Clock.now();
        while self.events.is_empty() && now < until {
            let before = now;
            if self.is_polite {
                thread::yield_now();
            } else {
                hint::spin_loop();
            }
            if self.driver.may_have_events() {
                self.driver.poll(&mut self.events)?;
            }
            self.notice_wake_up(Waker::take_notice);
            now = Clock.now();
            if self.is_polite && self.pacing.is_crowded(now, now.since(before)) && self.events.is_empty() {
                return Ok(Spun::Crowded);
            }
        }
        Ok(Spun::Out)
    }

    fn sleep(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        loop {
            if deadline.is_some_and(|deadline| Clock.now() >= deadline) {
                return self.driver.poll(&mut self.events);
            }
            if !self.waker.begin_sleep() {
                self.notice_wake_up(Waker::take_notice);
                return self.driver.poll(&mut self.events);
            }
            let result = self.driver.block(deadline, &mut self.events);
            self.notice_wake_up(Waker::end_sleep);
            if result.is_err() || !self.events.is_empty() {
                return result;
            }
        }
    }

    fn notice_wake_up(&mut self, noticed: fn(&Waker) -> bool) {
        if noticed(&self.waker) {
            self.events.push(Event::Woken);
        }
    }
}

/// The end of a spell of polling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spun {
    /// There are events, or the time is over.
    Out,
    /// Another thread had the processor for long.
    Crowded,
}

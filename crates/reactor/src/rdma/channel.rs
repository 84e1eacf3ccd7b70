//! The channel that the connection manager reports its events through, and listeners on it.
//!
//! Whoever reads an event makes the library work on the event's identifier, the queue pair included. So reading takes the
//! channel's *turn*, and so does whoever makes or destroys a queue pair, on any thread. An event is copied and acknowledged in
//! that turn: an identifier whose events are not acknowledged could not be destroyed.

use super::abi::{self, EventChannel, RawEvent, cm_event};
use super::event::{CmEvent, CmStep};
use super::identifier::{CmId, CmNumber, ConnectRequest, Id, Role, milliseconds};
use super::library::{Rdma, explained, made, succeeded};
use super::pair::shorten_wait;
use socket2::SockAddr;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Nanos;

/// The channel itself, which lives as long as an identifier on it.
pub(super) struct Channel {
    pub(super) rdma: Rdma,
    pub(super) raw: *mut EventChannel,
    turn: Mutex<()>,
    numbers: AtomicU64,
}

// SAFETY: the library's functions may be called from any thread.
unsafe impl Send for Channel {}
// SAFETY: as above; the channel's struct is only read.
unsafe impl Sync for Channel {}

impl Channel {
    pub(super) fn new(rdma: Rdma) -> io::Result<Arc<Channel>> {
        // SAFETY: no arguments.
        let raw = made(unsafe { (rdma.api.rdma_create_event_channel)() }).map_err(|error| {
            explained(
                &error,
                "the RDMA connection manager cannot be used (load the module rdma_ucm, and see /dev/infiniband/rdma_cm)",
            )
        })?;
        let channel = Arc::new(Channel { rdma, raw, turn: Mutex::default(), numbers: AtomicU64::new(1) });
        do_not_block(channel.fd())?;
        Ok(channel)
    }

    fn fd(&self) -> RawFd {
        // SAFETY: the channel is ours and lives.
        unsafe { (*self.raw).fd }
    }

    pub(super) fn next_number(&self) -> CmNumber {
        CmNumber(self.numbers.fetch_add(1, Ordering::Relaxed))
    }

    /// The right to make the library work on queue pairs of this channel's identifiers.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next event, if it is of interest; `None` if there is no event.
    fn read(self: &Arc<Channel>) -> io::Result<Option<Option<CmEvent>>> {
        let _turn = self.turn();
        let mut raw: *mut RawEvent = ptr::null_mut();
        // SAFETY: the channel lives; the library writes the event to `raw`. Nobody else works on its identifiers now.
        let result = unsafe { (self.rdma.api.rdma_get_cm_event)(self.raw, &raw mut raw) };
        if let Err(error) = succeeded(result) {
            return match error.kind() {
                io::ErrorKind::WouldBlock => Ok(None),
                io::ErrorKind::Interrupted => Ok(Some(None)),
                _ => Err(error),
            };
        }
        // SAFETY: the library has returned an event, which lives until it is acknowledged below.
        let event = self.copied(unsafe { &*raw });
        // SAFETY: the event is acknowledged once, and nothing refers to it any more.
        succeeded(unsafe { (self.rdma.api.rdma_ack_cm_event)(raw) })?;
        Ok(Some(event))
    }

    fn copied(self: &Arc<Channel>, raw: &RawEvent) -> Option<CmEvent> {
        // SAFETY: the identifier of an event lives at least until the event is acknowledged.
        let (id, role) = CmNumber::from_context(unsafe { (*raw.id).context });
        if raw.event == cm_event::CONNECT_REQUEST {
            let number = self.next_number();
            // SAFETY: the identifier is new and ours alone; until now it has the context of its listener.
            unsafe { (*raw.id).context = number.to_context(Role::Passive) };
            let request = Id { channel: Arc::clone(self), raw: raw.id, number };
            let reads = raw.conn.initiator_depth;
            return Some(CmEvent::Request(ConnectRequest::new(request, id, private_data_of(raw), reads)));
        }
        if raw.event == cm_event::ESTABLISHED && role == Role::Active {
            // SAFETY: as above.
            let qp = unsafe { (*raw.id).qp };
            if !qp.is_null() {
                // SAFETY: a queue pair is destroyed only in the channel's turn, which is ours.
                unsafe { shorten_wait(self.rdma, qp) };
            }
        }
        let failed = |what| CmEvent::Failed { id, what, status: raw.status };
        let event = match raw.event {
            _ if role == Role::Anchor => return None,
            cm_event::ADDRESS_RESOLVED => CmEvent::AddressResolved(id),
            cm_event::ROUTE_RESOLVED => CmEvent::RouteResolved(id),
            cm_event::ADDRESS_ERROR => failed(CmStep::Address),
            cm_event::ROUTE_ERROR => failed(CmStep::Route),
            cm_event::CONNECT_ERROR => failed(CmStep::Connect),
            cm_event::UNREACHABLE => failed(CmStep::Reach),
            cm_event::REJECTED => {
                CmEvent::Rejected { id, status: raw.status, private_data: private_data_of(raw) }
            }
            cm_event::ESTABLISHED if role == Role::Active => {
                CmEvent::Accepted { id, private_data: private_data_of(raw) }
            }
            cm_event::ESTABLISHED => CmEvent::Established(id),
            cm_event::DISCONNECTED => {
                self.end_work(raw);
                CmEvent::Disconnected(id)
            }
            cm_event::DEVICE_REMOVAL => {
                self.end_work(raw);
                CmEvent::DeviceRemoved(id)
            }
            _ => return None,
        };
        Some(event)
    }
}

impl Channel {
    /// Lets the work of a connection that has ended come back flushed, on whichever thread its queue is.
    fn end_work(&self, raw: &RawEvent) {
        // SAFETY: the identifier lives until its event is acknowledged, and its queue pair is neither made nor destroyed in our turn. An
        // error says that there is none, or that it is disconnected.
        unsafe { (self.rdma.api.rdma_disconnect)(raw.id) };
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the channel is ours and is destroyed only here; every identifier on it keeps it, so none is left.
        unsafe { (self.rdma.api.rdma_destroy_event_channel)(self.raw) };
    }
}

/// The private data of an event about a connection.
fn private_data_of(raw: &RawEvent) -> Vec<u8> {
    let data: *const c_void = raw.conn.private_data;
    if data.is_null() {
        return Vec::new();
    }
    // SAFETY: the events that this is called for are about connections, whose private data has that many bytes until the event is
    // acknowledged.
    unsafe { slice::from_raw_parts(data.cast(), usize::from(raw.conn.private_data_len)) }.to_vec()
}

/// Makes calls that would wait for an event of the descriptor fail instead.
pub(super) fn do_not_block(fd: RawFd) -> io::Result<()> {
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: no pointers.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A channel of the connection manager. Its descriptor is readable while there are events; it does not block.
pub struct CmChannel {
    channel: Arc<Channel>,
}

impl CmChannel {
    /// A channel without listeners and connections.
    ///
    /// # Errors
    /// The kernel's part of the connection manager is not loaded, or not allowed.
    pub fn new(rdma: Rdma) -> io::Result<CmChannel> {
        Ok(CmChannel { channel: Channel::new(rdma)? })
    }

    /// Listens on an address of a device, or on the wildcard address: then devices that come later count too. With port 0 the
    /// kernel chooses the port. At most `backlog` requests wait to be read.
    ///
    /// # Errors
    /// The address is in use, is not one of this machine, or belongs to no RDMA device.
    pub fn listen(&self, address: SocketAddr, backlog: u32) -> io::Result<CmListener> {
        let id = Id::new(&self.channel, Role::Listener)?;
        let api = self.channel.rdma.api;
        if address.is_ipv6() {
            let mut only: c_int = 1;
            let length = mem::size_of::<c_int>();
            // SAFETY: the identifier is ours, and the option is an int that lives during the call.
            succeeded(unsafe {
                (api.rdma_set_option)(
                    id.raw,
                    abi::OPTION_ID,
                    abi::OPTION_ID_AFONLY,
                    (&raw mut only).cast(),
                    length,
                )
            })?;
        }
        let bound = id.bind(address);
        // The kernel takes an address of the loopback for the wildcard address, and binds it to no device.
        let is_of_no_device = bound.is_ok() && !address.ip().is_unspecified() && id.context().is_null();
        match bound {
            Ok(()) if !is_of_no_device => {}
            Err(error) if error.raw_os_error() != Some(libc::ENODEV) => {
                return Err(explained(&error, format!("RDMA cannot listen on {address}")));
            }
            _ => {
                let what = format!("{address} is an address of no RDMA device (`rdma link` shows them)");
                return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, what));
            }
        }
        let backlog = c_int::try_from(backlog).unwrap_or(c_int::MAX);
        // SAFETY: the identifier is ours.
        succeeded(unsafe { (api.rdma_listen)(id.raw, backlog) })
            .map_err(|error| explained(&error, format!("RDMA cannot listen on {address}")))?;
        Ok(CmListener { id })
    }

    /// Begins to connect to an address, from an address of this machine if one is given. Every step reports its end by an event.
    ///
    /// # Errors
    /// The addresses do not fit together, or one cannot be used.
    pub fn connect(&self, from: Option<IpAddr>, to: SocketAddr, timeout: Nanos) -> io::Result<CmId> {
        let id = Id::new(&self.channel, Role::Active)?;
        let from = from.map(|ip| SockAddr::from(SocketAddr::new(ip, 0)));
        let from = from.as_ref().map_or(ptr::null_mut(), |from| from.as_ptr().cast_mut().cast());
        let destination = SockAddr::from(to);
        // SAFETY: the identifier is ours; the first address is null or, as the second, lives during the call, which only reads them.
        succeeded(unsafe {
            (self.channel.rdma.api.rdma_resolve_addr)(
                id.raw,
                from,
                destination.as_ptr().cast_mut().cast(),
                milliseconds(timeout),
            )
        })
        .map_err(|error| explained(&error, format!("RDMA cannot connect to {to}")))?;
        Ok(CmId::new(id))
    }

    /// The oldest event, or `None` if there is none now. Take events until there is none.
    ///
    /// # Errors
    /// The kernel or the library is out of memory, or broken.
    pub fn next_event(&self) -> io::Result<Option<CmEvent>> {
        loop {
            match self.channel.read()? {
                None => return Ok(None),
                Some(Some(event)) => return Ok(Some(event)),
                Some(None) => {}
            }
        }
    }
}

impl AsFd for CmChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor stays open as long as the channel.
        unsafe { BorrowedFd::borrow_raw(self.channel.fd()) }
    }
}

impl fmt::Debug for CmChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CmChannel({})", self.channel.fd())
    }
}

/// A listener, until it is dropped.
pub struct CmListener {
    id: Id,
}

impl CmListener {
    /// The number that its requests and its device's removal name.
    pub fn number(&self) -> CmNumber {
        self.id.number
    }

    /// Its address, with the port that the kernel has chosen.
    pub fn local_addr(&self) -> SocketAddr {
        self.id.source()
    }
}

impl fmt::Debug for CmListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CmListener({})", self.local_addr())
    }
}

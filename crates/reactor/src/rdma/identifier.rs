//! Identifiers of the connection manager: one for each listener, each connection, and each attempt at one.
//!
//! The library gives an identifier's *context* back with every event. It holds a number of ours, never a pointer: an event that comes late
//! can at worst name something that no longer exists.
//!
//!   active   connect --AddressResolved--> resolve_route --RouteResolved--> open
//!   passive  ConnectRequest --> open, or a rejection

use super::abi::{self, Context, RawId};
use super::channel::Channel;
use super::domain::{DeviceLimits, Domain};
use super::library::succeeded;
use super::queue::{Queue, QueueOptions};
use socket2::SockAddr;
use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ptr;
use std::sync::Arc;
use units::Nanos;

/// Names a listener, or a connection from its beginning to its end, among those of its channel. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CmNumber(pub(super) u64);

/// The purpose of an identifier, in the lower bits of its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Keeps a device open.
    Anchor,
    Listener,
    Active,
    Passive,
}

const ROLES: [Role; 4] = [Role::Anchor, Role::Listener, Role::Active, Role::Passive];

impl CmNumber {
    /// The context that names it and its role.
    pub(super) fn to_context(self, role: Role) -> *mut c_void {
        ptr::without_provenance_mut((self.0 as usize) << 2 | role as usize)
    }

    pub(super) fn from_context(context: *mut c_void) -> (CmNumber, Role) {
        let bits = context.addr();
        (CmNumber((bits >> 2) as u64), ROLES[bits & 3])
    }
}

/// An identifier and the right to destroy it.
pub(super) struct Id {
    pub(super) channel: Arc<Channel>,
    pub(super) raw: *mut RawId,
    pub(super) number: CmNumber,
}

// SAFETY: the library's functions may be called from any thread; those that must not run beside the reading of events take the channel's
// turn. Shared access only reads fields that change with the owner's own calls.
unsafe impl Send for Id {}
// SAFETY: as above.
unsafe impl Sync for Id {}

impl Id {
    /// A new identifier on a channel.
    pub(super) fn new(channel: &Arc<Channel>, role: Role) -> io::Result<Id> {
        let number = channel.next_number();
        let mut raw = ptr::null_mut();
        // SAFETY: the channel outlives the identifier, which keeps it; the library writes the new identifier to `raw`.
        let result = unsafe {
            (channel.rdma.api.rdma_create_id)(
                channel.raw,
                &raw mut raw,
                number.to_context(role),
                abi::PORT_SPACE_TCP,
            )
        };
        succeeded(result)?;
        Ok(Id { channel: Arc::clone(channel), raw, number })
    }

    pub(super) fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let address = SockAddr::from(address);
        // SAFETY: the identifier is ours, and the address lives during the call, which only reads it.
        succeeded(unsafe {
            (self.channel.rdma.api.rdma_bind_addr)(self.raw, address.as_ptr().cast_mut().cast())
        })
    }

    /// The open device, or null while it is bound to none.
    pub(super) fn context(&self) -> *mut Context {
        // SAFETY: the identifier is ours and lives.
        unsafe { (*self.raw).verbs }
    }

    pub(super) fn source(&self) -> SocketAddr {
        // SAFETY: the identifier is ours and lives; its addresses change only with calls of its owner.
        address_of(unsafe { &(*self.raw).source })
    }

    pub(super) fn destination(&self) -> SocketAddr {
        // SAFETY: as for `source`.
        address_of(unsafe { &(*self.raw).destination })
    }

    pub(super) fn device(&self) -> io::Result<RdmaDevice> {
        let context = self.context();
        if context.is_null() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        // SAFETY: an identifier with a context keeps the device open; a device's name ends with NUL and lives as long as the device.
        let name = unsafe { CStr::from_ptr((self.channel.rdma.api.ibv_get_device_name)((*context).device)) };
        Ok(RdmaDevice {
            context: context.addr(),
            name: name.to_string_lossy().into_owned(),
            address: self.source(),
        })
    }

    fn reject(&self, private_data: &[u8]) -> io::Result<()> {
        let length = u8::try_from(private_data.len()).map_err(|_| too_much_private_data())?;
        // SAFETY: the identifier is ours; the library copies that many bytes during the call.
        succeeded(unsafe {
            (self.channel.rdma.api.rdma_reject)(self.raw, private_data.as_ptr().cast(), length)
        })
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: the identifier is ours and is destroyed only here; its queue pair, if it had one, is destroyed before (`pair`). Every
        // event is acknowledged when it is read, so the library has none to wait for. It fails only for an identifier that the kernel
        // has lost already, and then frees it all the same.
        unsafe { (self.channel.rdma.api.rdma_destroy_id)(self.raw) };
    }
}

pub(super) fn too_much_private_data() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "more private data than the connection manager carries")
}

fn address_of(storage: &libc::sockaddr_storage) -> SocketAddr {
    let place: *const libc::sockaddr_storage = storage;
    match c_int::from(storage.ss_family) {
        libc::AF_INET6 => {
            // SAFETY: the family says that it is a sockaddr_in6, which is smaller than the storage and no stricter in alignment.
            let address = unsafe { &*place.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            SocketAddrV6::new(
                ip,
                u16::from_be(address.sin6_port),
                address.sin6_flowinfo,
                address.sin6_scope_id,
            )
            .into()
        }
        libc::AF_INET => {
            // SAFETY: as above, for a sockaddr_in.
            let address = unsafe { &*place.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            SocketAddr::new(IpAddr::V4(ip), u16::from_be(address.sin_port))
        }
        _ => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    }
}

/// A device that a connection goes through. Two are equal if it is the same device.
#[derive(Clone, Debug)]
pub struct RdmaDevice {
    /// The address of the open device, to be compared only.
    pub(super) context: usize,
    name: String,
    /// An address of this machine that the device has.
    pub(super) address: SocketAddr,
}

impl RdmaDevice {
    /// Its name, as `rdma link` prints it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl PartialEq for RdmaDevice {
    fn eq(&self, other: &RdmaDevice) -> bool {
        self.context == other.context
    }
}

impl Eq for RdmaDevice {}

impl Hash for RdmaDevice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.context.hash(state);
    }
}

/// A host that wants to connect. Dropping it rejects the host.
pub struct ConnectRequest {
    /// Present until it is answered.
    id: Option<Id>,
    listener: CmNumber,
    private_data: Vec<u8>,
    reads: u8,
}

impl ConnectRequest {
    pub(super) fn new(id: Id, listener: CmNumber, private_data: Vec<u8>, reads: u8) -> ConnectRequest {
        ConnectRequest { id: Some(id), listener, private_data, reads }
    }

    fn id(&self) -> &Id {
        self.id.as_ref().expect("present until it is answered")
    }

    /// The connection's number, which its queue and its events will have.
    pub fn number(&self) -> CmNumber {
        self.id().number
    }

    /// The listener that it came to.
    pub fn listener(&self) -> CmNumber {
        self.listener
    }

    /// The other end's address.
    pub fn peer(&self) -> SocketAddr {
        self.id().destination()
    }

    /// The address of this end that it came to.
    pub fn local(&self) -> SocketAddr {
        self.id().source()
    }

    /// The bytes that came with the request. Over the InfiniBand connection manager (RoCE too) there are zeros after those that the
    /// other end has sent.
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// RDMA READs that this end may have in flight, as far as the other end and the kernel allow: an upper bound for
    /// [`Queue::accept`]'s. With zero no READ ever completes.
    pub fn reads(&self) -> u8 {
        self.reads
    }

    /// The device that it came through.
    ///
    /// # Errors
    /// The device has just been removed.
    pub fn device(&self) -> io::Result<RdmaDevice> {
        self.id().device()
    }

    /// The limits of that device.
    ///
    /// # Errors
    /// The device has just been removed.
    pub fn device_limits(&self) -> io::Result<DeviceLimits> {
        DeviceLimits::of(self.id())
    }

    /// Makes the queue of the connection. Post receives next, and then [`Queue::accept`].
    ///
    /// # Errors
    /// The device is short of something, or is not the domain's. The request comes back, to be rejected with a reason.
    pub fn open(
        mut self,
        domain: &Domain,
        options: &QueueOptions,
    ) -> Result<Queue, (io::Error, ConnectRequest)> {
        let id = self.id.take().expect("present until it is answered");
        Queue::open(id, domain, options).map_err(|(error, id)| {
            self.id = Some(id);
            (error, self)
        })
    }

    /// Rejects the host, with bytes for it (at most 148).
    ///
    /// # Errors
    /// There are too many bytes, or the host has given up. It is rejected in either case.
    pub fn reject(mut self, private_data: &[u8]) -> io::Result<()> {
        let id = self.id.take().expect("present until it is answered");
        // If this fails, the kernel rejects the host when the identifier is destroyed.
        id.reject(private_data)
    }
}

impl Drop for ConnectRequest {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            // As for `reject`.
            let _ = id.reject(&[]);
        }
    }
}

impl fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConnectRequest { reads, private_data, .. } = self;
        let length = private_data.len();
        write!(f, "ConnectRequest(from {}, {length} bytes of private data, {reads} reads)", self.peer())
    }
}

/// An attempt at a connection, of the end that begins.
pub struct CmId {
    id: Id,
}

impl CmId {
    pub(super) fn new(id: Id) -> CmId {
        CmId { id }
    }

    /// The connection's number, which its queue and its events will have.
    pub fn number(&self) -> CmNumber {
        self.id.number
    }

    /// Looks for a way to the other end, after [`CmEvent::AddressResolved`](super::CmEvent::AddressResolved).
    ///
    /// # Errors
    /// The address is not resolved.
    pub fn resolve_route(&mut self, timeout: Nanos) -> io::Result<()> {
        // SAFETY: the identifier is ours.
        succeeded(unsafe {
            (self.id.channel.rdma.api.rdma_resolve_route)(self.id.raw, milliseconds(timeout))
        })
    }

    /// The device that leads to the other end.
    ///
    /// # Errors
    /// The address is not resolved.
    pub fn device(&self) -> io::Result<RdmaDevice> {
        self.id.device()
    }

    /// The limits of that device.
    ///
    /// # Errors
    /// The address is not resolved.
    pub fn device_limits(&self) -> io::Result<DeviceLimits> {
        DeviceLimits::of(&self.id)
    }

    /// Makes the queue of the connection, after [`CmEvent::RouteResolved`](super::CmEvent::RouteResolved). Post receives next, and
    /// then [`Queue::connect`].
    ///
    /// # Errors
    /// The device is short of something, or is not the domain's.
    pub fn open(self, domain: &Domain, options: &QueueOptions) -> io::Result<Queue> {
        Queue::open(self.id, domain, options).map_err(|(error, _)| error)
    }
}

impl fmt::Debug for CmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CmId({})", self.id.number.0)
    }
}

/// A time for the library, which counts in milliseconds: at least one.
pub(super) fn milliseconds(Nanos(span): Nanos) -> c_int {
    c_int::try_from(span.div_ceil(1_000_000)).unwrap_or(c_int::MAX).max(1)
}

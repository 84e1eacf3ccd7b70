//! Protection domains: the memory that the queues of one device and one owner may use.
//!
//! A buffer's memory is registered with a domain at its first use there, and stays so until it is freed: pools give the same few
//! buffers out again and again. Its registrations are part of the memory (`buffer`), and go before it does. A domain whose owner has let
//! it go is forgotten by a buffer at its next use. A key for other ends is one of a single domain at a time: the next domain that gives one
//! ends the one before.
//!
//! Registered memory is pinned: it counts against the limit of locked memory, [`Domain::registered`] says how much it is.
//!
//! Holds: memory is freed only when no registration of it is left;
//!        a domain outlives its queues and registrations, and its device stays open as long.

use super::abi::{self, DeviceAttributes, Mr, Pd};
use super::channel::Channel;
use super::identifier::{Id, RdmaDevice, Role};
use super::library::{Rdma, explained, made};
use crate::buffer::IoBuffer;
use crate::region::Region;
use std::ffi::c_int;
use std::fmt;
use std::io;
use std::mem::{self, ManuallyDrop};
use std::net::SocketAddr;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::Bytes;

/// Zeros that fill up what a host asked for beyond the data there is.
pub const ZEROES: usize = 64 << 10;

/// Who may use a domain's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// This end's work only. There is no key by which the other end could.
    Local,
    /// The other end too, wherever it is told the key.
    Remote,
}

/// A place in the other end's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// Its address there.
    pub address: u64,
    /// The key that allows to use it.
    pub key: u32,
}

/// Limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Queues.
    pub queues: u32,
    /// Entries of a send queue or of receives.
    pub entries: u32,
    /// Pieces of memory in one work request.
    pub pieces: u32,
    /// Completion queues: each queue has one.
    pub completion_queues: u32,
    /// Entries of a completion queue.
    pub completions: u32,
    /// Registrations of memory.
    pub registrations: u32,
    /// READs of this end in flight on a queue.
    pub reads: u8,
    /// READs of the other end in flight on a queue.
    pub reads_answered: u8,
    /// Whether it can invalidate the other end's key with an answer.
    pub sends_with_invalidate: bool,
}

impl DeviceLimits {
    pub(super) fn of(id: &Id) -> io::Result<DeviceLimits> {
        let context = id.context();
        if context.is_null() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        // SAFETY: all-zero is a valid value of a struct of integers.
        let mut attributes: DeviceAttributes = unsafe { mem::zeroed() };
        // SAFETY: the identifier keeps the device open; the attributes are written during the call.
        let error = unsafe { (id.channel.rdma.api.ibv_query_device)(context, &raw mut attributes) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        let count = |limit: c_int| u32::try_from(limit).unwrap_or(0);
        let few = |limit: c_int| u8::try_from(limit.clamp(0, i32::from(u8::MAX))).expect("clamped");
        Ok(DeviceLimits {
            queues: count(attributes.max_qp),
            entries: count(attributes.max_qp_wr),
            pieces: count(attributes.max_sge),
            completion_queues: count(attributes.max_cq),
            completions: count(attributes.max_cqe),
            registrations: count(attributes.max_mr),
            reads: few(attributes.max_qp_init_rd_atom),
            reads_answered: few(attributes.max_qp_rd_atom),
            sends_with_invalidate: attributes.device_cap_flags & abi::DEVICE_SENDS_WITH_INVALIDATE != 0,
        })
    }
}

/// The keys of registered memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    pub(super) local: u32,
    remote: u32,
}

/// One registration of memory, without a claim on the memory.
struct MemoryKey {
    rdma: Rdma,
    /// `None` once it is ended.
    raw: Option<NonNull<Mr>>,
    keys: Keys,
}

// SAFETY: the library's functions may be called from any thread, and the pointer is used only to end the registration.
unsafe impl Send for MemoryKey {}
// SAFETY: shared access reads the keys only.
unsafe impl Sync for MemoryKey {}

impl MemoryKey {
    /// Registers memory.
    ///
    /// # Safety
    /// The memory must stay until the registration is ended with success.
    unsafe fn new(
        domain: &PdOwner,
        start: NonNull<u8>,
        length: usize,
        access: c_int,
    ) -> io::Result<MemoryKey> {
        // SAFETY: the protection domain lives, and the memory is the caller's, of that length.
        let raw = unsafe {
            (domain.rdma.api.ibv_reg_mr)(domain.raw.as_ptr(), start.as_ptr().cast(), length, access)
        };
        let raw = NonNull::new(made(raw).map_err(|error| unregistered(&error, length))?).expect("not null");
        // SAFETY: the library has returned a registration, which lives until it is ended.
        let keys = unsafe { Keys { local: raw.as_ref().lkey, remote: raw.as_ref().rkey } };
        Ok(MemoryKey { rdma: domain.rdma, raw: Some(raw), keys })
    }

    /// Ends the registration; `false` if the device cannot be made to let go of the memory.
    fn end(&mut self) -> bool {
        let Some(raw) = self.raw.take() else { return true };
        // SAFETY: the registration is ours, and is ended once.
        unsafe { (self.rdma.api.ibv_dereg_mr)(raw.as_ptr()) == 0 }
    }
}

fn unregistered(error: &io::Error, length: usize) -> io::Error {
    let what = format!("{} cannot be registered for RDMA", Bytes(length as u64));
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return explained(error, what);
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit that the call fills in.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    let limit = match limit.rlim_cur {
        libc::RLIM_INFINITY => String::from("is infinite"),
        limit if is_known => format!("is {}", Bytes(limit)),
        _ => String::from("is unknown"),
    };
    let what = format!(
        "{what}: {error}; the limit of locked memory {limit}: raise it (LimitMEMLOCK= of systemd, ulimit -l), or grant CAP_IPC_LOCK"
    );
    io::Error::new(io::ErrorKind::OutOfMemory, what)
}

/// The protection domain itself.
struct PdOwner {
    rdma: Rdma,
    raw: NonNull<Pd>,
}

impl Drop for PdOwner {
    fn drop(&mut self) {
        // SAFETY: the domain is ours and is given up only here. All that was made with it keeps it, so that nothing is left; were
        // something left all the same, the call would fail and change nothing.
        unsafe { (self.rdma.api.ibv_dealloc_pd)(self.raw.as_ptr()) };
    }
}

/// A domain as its queues and registrations hold it. The order of the fields is that of their end.
pub(crate) struct DomainCore {
    zeroes: RegisteredPages,
    pd: PdOwner,
    /// Keeps the device open.
    anchor: Id,
    access: Access,
    limits: DeviceLimits,
    registered: AtomicU64,
    /// Whether its owner has let it go.
    is_over: AtomicBool,
}

// SAFETY: the library's functions may be called from any thread.
unsafe impl Send for DomainCore {}
// SAFETY: as above; what changes is atomic.
unsafe impl Sync for DomainCore {}

impl DomainCore {
    pub(super) fn rdma(&self) -> Rdma {
        self.pd.rdma
    }

    pub(super) fn pd(&self) -> *mut Pd {
        self.pd.raw.as_ptr()
    }

    pub(super) fn context(&self) -> *mut abi::Context {
        self.anchor.context()
    }

    pub(super) fn limits(&self) -> &DeviceLimits {
        &self.limits
    }

    /// The address and the local key of [`ZEROES`] bytes of zeros.
    pub(super) fn zeroes(&self) -> (u64, u32) {
        (self.zeroes.start().addr().get() as u64, self.zeroes.keys().local)
    }

    /// Pages of this end's own, for work of the domain's queues.
    pub(super) fn pages(&self, length: usize) -> io::Result<RegisteredPages> {
        RegisteredPages::new(&self.pd, length)
    }
}

/// Registered pages of this end's own, which no key of the other end's reaches.
pub(super) struct RegisteredPages {
    key: MemoryKey,
    pages: ManuallyDrop<Region>,
}

impl RegisteredPages {
    fn new(domain: &PdOwner, length: usize) -> io::Result<RegisteredPages> {
        let pages = ManuallyDrop::new(Region::new(length)?);
        // SAFETY: the pages are unmapped only after the registration is ended.
        let key = unsafe { MemoryKey::new(domain, pages.start(), length, abi::ACCESS_LOCAL_WRITE) };
        match key {
            Ok(key) => Ok(RegisteredPages { key, pages }),
            Err(error) => {
                drop(ManuallyDrop::into_inner(pages));
                Err(error)
            }
        }
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.pages.start()
    }

    pub(super) fn keys(&self) -> Keys {
        self.key.keys
    }
}

impl Drop for RegisteredPages {
    fn drop(&mut self) {
        if self.key.end() {
            // SAFETY: they are dropped only here.
            unsafe { ManuallyDrop::drop(&mut self.pages) };
        }
    }
}

/// A protection domain. Dropping it ends it once its queues are dropped and its buffers freed or used elsewhere.
pub struct Domain {
    core: Arc<DomainCore>,
}

impl Domain {
    /// A domain of a device, which a request or an attempt at a connection names.
    ///
    /// # Errors
    /// The device was removed, or is out of domains.
    pub fn new(rdma: Rdma, device: &RdmaDevice, access: Access) -> io::Result<Domain> {
        let anchor = Id::new(&Channel::new(rdma)?, Role::Anchor)?;
        anchor.bind(SocketAddr::new(device.address.ip(), 0)).or_else(|error| match device.address {
            // A link-local address needs its scope.
            SocketAddr::V6(mut address) => {
                address.set_port(0);
                anchor.bind(address.into())
            }
            SocketAddr::V4(_) => Err(error),
        })?;
        let context = anchor.context();
        if context.is_null() || context.addr() != device.context {
            let what = format!("the RDMA device {} no longer has {}", device.name(), device.address.ip());
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        let limits = DeviceLimits::of(&anchor)?;
        // SAFETY: the anchor keeps the device open.
        let raw = made(unsafe { (rdma.api.ibv_alloc_pd)(context) })?;
        let pd = PdOwner { rdma, raw: NonNull::new(raw).expect("not null") };
        let zeroes = RegisteredPages::new(&pd, ZEROES)?;
        let (registered, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let core = DomainCore { zeroes, pd, anchor, access, limits, registered, is_over };
        Ok(Domain { core: Arc::new(core) })
    }

    /// Whether it is a domain of that device.
    pub fn is_of(&self, device: &RdmaDevice) -> bool {
        self.core.context().addr() == device.context
    }

    /// The limits of its device.
    pub fn limits(&self) -> &DeviceLimits {
        self.core.limits()
    }

    /// The memory of buffers that is registered with it now.
    pub fn registered(&self) -> Bytes {
        Bytes(self.core.registered.load(Ordering::Relaxed))
    }

    /// Makes a buffer's memory known to the device, as its first use for work would. `Access::Remote`: returns the place by which the other
    /// end may use all of the buffer, from now until the memory is freed or the domain has ended: **the other end can change it at any
    /// time**, so treat its bytes as those of a stranger. `Access::Local`: `None`.
    ///
    /// # Errors
    /// The limit of locked memory is reached; the error says how to raise it.
    pub fn register(&self, buffer: &mut IoBuffer) -> io::Result<Option<RemoteMemory>> {
        let keys = buffer.register(&self.core)?;
        let address = buffer.as_ptr().addr() as u64;
        Ok((self.core.access == Access::Remote).then_some(RemoteMemory { address, key: keys.remote }))
    }

    pub(super) fn core(&self) -> &Arc<DomainCore> {
        &self.core
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.core.is_over.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Domain({:?}, {} registered)", self.core.access, self.registered())
    }
}

/// One registration of a buffer's memory, and the domain that it is with.
struct Registration {
    key: MemoryKey,
    length: u64,
    domain: Arc<DomainCore>,
}

impl Registration {
    /// As for `MemoryKey`.
    fn end(&mut self) -> bool {
        let is_ended = self.key.end();
        if is_ended {
            self.domain.registered.fetch_sub(mem::take(&mut self.length), Ordering::Relaxed);
        }
        is_ended
    }
}

/// All registrations of one piece of memory. Most memory has none, and few have more than one.
#[derive(Default)]
pub(crate) struct Registrations {
    list: Vec<Registration>,
    /// Whether a device did not let go of the memory.
    is_held: bool,
}

impl Registrations {
    /// The keys of the memory with a domain, made if there are none.
    ///
    /// # Safety
    /// `start` and `length` are the memory's, the same in every call. It must stay until `end` has returned `true`.
    pub(crate) unsafe fn with(
        &mut self,
        domain: &Arc<DomainCore>,
        start: NonNull<u8>,
        length: usize,
    ) -> io::Result<Keys> {
        if let Some(known) = self.list.iter().find(|known| Arc::ptr_eq(&known.domain, domain)) {
            return Ok(known.key.keys);
        }
        let is_held = &mut self.is_held;
        self.list.retain_mut(|known| {
            let both = domain.access == Access::Remote && known.domain.access == Access::Remote;
            let is_over = both || known.domain.is_over.load(Ordering::Relaxed);
            *is_held |= is_over && !known.end();
            !is_over
        });
        let access = match domain.access {
            Access::Local => abi::ACCESS_LOCAL_WRITE,
            Access::Remote => abi::ACCESS_LOCAL_WRITE | abi::ACCESS_REMOTE_READ | abi::ACCESS_REMOTE_WRITE,
        };
        // SAFETY: the caller keeps the memory until the registration has ended.
        let key = unsafe { MemoryKey::new(&domain.pd, start, length, access) }?;
        let keys = key.keys;
        domain.registered.fetch_add(length as u64, Ordering::Relaxed);
        self.list.push(Registration { key, length: length as u64, domain: Arc::clone(domain) });
        Ok(keys)
    }

    /// Ends all of them. `false`: a device has not let go of the memory, which must never be freed.
    pub(crate) fn end(&mut self) -> bool {
        for mut registration in self.list.drain(..) {
            self.is_held |= !registration.end();
        }
        !self.is_held
    }
}

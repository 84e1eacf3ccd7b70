//! The parts of libibverbs and librdmacm that are used here: their structs, numbers and functions.
//!
//! Both libraries are loaded at run time (`Api::load`), so that the binary builds and runs where neither is installed. Posting, polling
//! and asking for a notification are inline functions in C: they call pointers in the device's context, whose offsets are therefore part of
//! the interface ([`Ops`]). Structs that a library makes are declared up to the last field that is used; those that are made here
//! are declared whole.
//!
//! Holds: sizes and offsets are those of Debian's headers (`structs_and_numbers_are_those_of_the_headers`).
//! Sources: rdma-core's `infiniband/verbs.h` and `rdma/rdma_cma.h`.

// Only the headers of the machine that compiles are at hand.
#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod layout;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem;
use std::ptr;

/// `rdma_event_channel`.
#[repr(C)]
pub(super) struct EventChannel {
    pub(super) fd: c_int,
}

/// `ibv_comp_channel`.
#[repr(C)]
pub(super) struct CompletionChannel {
    pub(super) context: *mut Context,
    pub(super) fd: c_int,
    pub(super) refcnt: c_int,
}

type PollCq = unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int;
type RequestNotify = unsafe extern "C" fn(*mut Cq, c_int) -> c_int;
type PostSend = unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int;
type PostReceive = unsafe extern "C" fn(*mut Qp, *mut ReceiveWr, *mut *mut ReceiveWr) -> c_int;

/// `ibv_context_ops`: the functions of the device's driver.
#[repr(C)]
pub(super) struct Ops {
    _before_poll: [*const c_void; 11],
    pub(super) poll_cq: PollCq,
    pub(super) req_notify_cq: RequestNotify,
    _before_post: [*const c_void; 12],
    pub(super) post_send: PostSend,
    pub(super) post_recv: PostReceive,
    _rest: [*const c_void; 5],
}

/// `ibv_context`: an open device.
#[repr(C)]
pub(super) struct Context {
    pub(super) device: *mut Device,
    pub(super) ops: Ops,
}

/// `ibv_device`, of which only the address is used.
#[repr(C)]
pub(super) struct Device {
    _opaque: [u8; 0],
}

/// `ibv_pd`.
#[repr(C)]
pub(super) struct Pd {
    pub(super) context: *mut Context,
    pub(super) handle: u32,
}

/// `ibv_cq`.
#[repr(C)]
pub(super) struct Cq {
    pub(super) context: *mut Context,
}

/// `ibv_mr`.
#[repr(C)]
pub(super) struct Mr {
    pub(super) context: *mut Context,
    pub(super) pd: *mut Pd,
    pub(super) addr: *mut c_void,
    pub(super) length: usize,
    pub(super) handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// `ibv_qp`.
#[repr(C)]
pub(super) struct Qp {
    pub(super) context: *mut Context,
    _owners: [*mut c_void; 5],
    pub(super) handle: u32,
    pub(super) qp_num: u32,
}

/// `ibv_sge`: a piece of registered memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sge {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// `ibv_send_wr`, with the union's member for RDMA.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SendWr {
    pub(super) wr_id: u64,
    pub(super) next: *mut SendWr,
    pub(super) sg_list: *mut Sge,
    pub(super) num_sge: c_int,
    pub(super) opcode: c_int,
    pub(super) send_flags: u32,
    pub(super) invalidate_rkey: u32,
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
    pub(super) rest: [u64; 9],
}

impl SendWr {
    /// A request of nothing, to be filled in.
    pub(super) const EMPTY: SendWr = SendWr {
        wr_id: 0,
        next: ptr::null_mut(),
        sg_list: ptr::null_mut(),
        num_sge: 0,
        opcode: 0,
        send_flags: 0,
        invalidate_rkey: 0,
        remote_addr: 0,
        rkey: 0,
        rest: [0; 9],
    };
}

/// `ibv_recv_wr`.
#[repr(C)]
pub(super) struct ReceiveWr {
    pub(super) wr_id: u64,
    pub(super) next: *mut ReceiveWr,
    pub(super) sg_list: *mut Sge,
    pub(super) num_sge: c_int,
}

/// `ibv_wc`: a completion. After an error only `wr_id`, `status`, `vendor_err` and `qp_num` mean something.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wc {
    pub(super) wr_id: u64,
    pub(super) status: c_int,
    pub(super) opcode: c_int,
    pub(super) vendor_err: u32,
    pub(super) byte_len: u32,
    pub(super) invalidated_rkey: u32,
    pub(super) qp_num: u32,
    pub(super) src_qp: u32,
    pub(super) wc_flags: u32,
    _unused: [u32; 2],
}

/// `ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QpCap {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

/// `ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct QpInit {
    pub(super) qp_context: *mut c_void,
    pub(super) send_cq: *mut Cq,
    pub(super) recv_cq: *mut Cq,
    pub(super) srq: *mut c_void,
    pub(super) cap: QpCap,
    pub(super) qp_type: c_int,
    pub(super) sq_sig_all: c_int,
}

/// `ibv_qp_attr`, of which only one field is changed here.
#[repr(C)]
pub(super) struct QpAttributes {
    pub(super) before_rnr_timer: [u64; 16],
    pub(super) min_rnr_timer: u8,
    pub(super) rest: [u8; 15],
}

/// `ibv_device_attr`: limits of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DeviceAttributes {
    _before_mr_size: [u64; 10],
    pub(super) max_mr_size: u64,
    _before_qp: [u32; 5],
    pub(super) max_qp: c_int,
    pub(super) max_qp_wr: c_int,
    pub(super) device_cap_flags: u32,
    pub(super) max_sge: c_int,
    _max_sge_rd: c_int,
    pub(super) max_cq: c_int,
    pub(super) max_cqe: c_int,
    pub(super) max_mr: c_int,
    pub(super) max_pd: c_int,
    pub(super) max_qp_rd_atom: c_int,
    _before_init_rd_atom: [c_int; 2],
    pub(super) max_qp_init_rd_atom: c_int,
    _rest: [u64; 9],
}

/// `rdma_cm_id`, up to the addresses of its route.
#[repr(C)]
pub(super) struct RawId {
    pub(super) verbs: *mut Context,
    pub(super) channel: *mut EventChannel,
    pub(super) context: *mut c_void,
    pub(super) qp: *mut Qp,
    pub(super) source: libc::sockaddr_storage,
    pub(super) destination: libc::sockaddr_storage,
}

/// `rdma_conn_param`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ConnectionParameters {
    pub(super) private_data: *const c_void,
    pub(super) private_data_len: u8,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) srq: u8,
    pub(super) qp_num: u32,
}

/// `rdma_cm_event`, with the union's member for connections.
#[repr(C)]
pub(super) struct RawEvent {
    pub(super) id: *mut RawId,
    pub(super) listen_id: *mut RawId,
    pub(super) event: c_int,
    pub(super) status: c_int,
    pub(super) conn: ConnectionParameters,
    _rest: [u64; 4],
}

const _: () = assert!(mem::size_of::<Ops>() == 256);
const _: () = assert!(mem::size_of::<CompletionChannel>() == 16 && mem::size_of::<EventChannel>() == 4);
const _: () = assert!(mem::size_of::<Mr>() == 48 && mem::size_of::<Pd>() == 16);
const _: () = assert!(mem::size_of::<Sge>() == 16);
const _: () = assert!(mem::size_of::<SendWr>() == 128 && mem::size_of::<ReceiveWr>() == 32);
const _: () = assert!(mem::size_of::<Wc>() == 48);
const _: () = assert!(mem::size_of::<QpCap>() == 20 && mem::size_of::<QpInit>() == 64);
const _: () = assert!(mem::size_of::<QpAttributes>() == 144 && mem::size_of::<DeviceAttributes>() == 232);
const _: () = assert!(mem::offset_of!(RawId, destination) == 160);
const _: () = assert!(mem::size_of::<ConnectionParameters>() == 24 && mem::size_of::<RawEvent>() == 80);

/// `RDMA_PS_TCP`: the port space of NVMe/RDMA.
pub(super) const PORT_SPACE_TCP: c_int = 0x106;
/// `RDMA_OPTION_ID` and `RDMA_OPTION_ID_AFONLY`: an IPv6 listener takes no IPv4 connections.
pub(super) const OPTION_ID: c_int = 0;
pub(super) const OPTION_ID_AFONLY: c_int = 2;

/// `IBV_QPT_RC`: a reliable connection.
pub(super) const QP_RELIABLE: c_int = 2;

/// `IBV_QP_MIN_RNR_TIMER`: that field of `ibv_qp_attr` is given.
pub(super) const QP_RNR_TIMER: c_int = 1 << 15;

/// `ibv_wr_opcode`.
pub(super) const OP_RDMA_WRITE: c_int = 0;
pub(super) const OP_SEND: c_int = 2;
pub(super) const OP_RDMA_READ: c_int = 4;
pub(super) const OP_SEND_WITH_INVALIDATE: c_int = 9;

/// `ibv_send_flags`.
pub(super) const SEND_SIGNALED: u32 = 1 << 1;
pub(super) const SEND_INLINE: u32 = 1 << 3;

/// `ibv_access_flags`.
pub(super) const ACCESS_LOCAL_WRITE: c_int = 1;
pub(super) const ACCESS_REMOTE_WRITE: c_int = 1 << 1;
pub(super) const ACCESS_REMOTE_READ: c_int = 1 << 2;

/// `IBV_WC_WITH_INV`: the message invalidated a key.
pub(super) const WC_WITH_INVALIDATE: u32 = 1 << 3;
/// `IBV_WC_SUCCESS` and `IBV_WC_WR_FLUSH_ERR`.
pub(super) const WC_SUCCESS: c_int = 0;
pub(super) const WC_FLUSHED: c_int = 5;

/// `IBV_DEVICE_MEM_MGT_EXTENSIONS`: the device can send with invalidation.
pub(super) const DEVICE_SENDS_WITH_INVALIDATE: u32 = 1 << 21;

/// `rdma_cm_event_type`.
pub(super) mod cm_event {
    use std::ffi::c_int;
    pub(in crate::rdma) const ADDRESS_RESOLVED: c_int = 0;
    pub(in crate::rdma) const ADDRESS_ERROR: c_int = 1;
    pub(in crate::rdma) const ROUTE_RESOLVED: c_int = 2;
    pub(in crate::rdma) const ROUTE_ERROR: c_int = 3;
    pub(in crate::rdma) const CONNECT_REQUEST: c_int = 4;
    pub(in crate::rdma) const CONNECT_ERROR: c_int = 6;
    pub(in crate::rdma) const UNREACHABLE: c_int = 7;
    pub(in crate::rdma) const REJECTED: c_int = 8;
    pub(in crate::rdma) const ESTABLISHED: c_int = 9;
    pub(in crate::rdma) const DISCONNECTED: c_int = 10;
    pub(in crate::rdma) const DEVICE_REMOVAL: c_int = 11;
}

/// The reason why a library could not be used.
#[derive(Clone, Debug)]
pub(super) enum LoadError {
    /// The dynamic linker's own words.
    NoLibrary(&'static str, String),
    /// The function that it does not have.
    NoFunction(&'static str, &'static str),
}

/// Declares the table of functions, and how it is filled.
macro_rules! api {
    ($($library:literal: { $($symbol:ident: fn($($argument:ty),*) $(-> $answer:ty)?;)* })*) => {
        /// The libraries' functions. The libraries stay loaded until the process ends.
        pub(super) struct Api {
            $($(pub(super) $symbol: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*)*
        }

        impl Api {
            /// Loads both libraries.
            pub(super) fn load() -> Result<Api, LoadError> {
                $(
                    let library = open($library)?;
                    $(let $symbol = {
                        let address = find(library, $library, stringify!($symbol))?;
                        // SAFETY: a pointer to a function has the size of any other pointer, and the library's headers declare
                        // the function of this name with these types.
                        unsafe {
                            mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $answer)?>(address)
                        }
                    };)*
                )*
                Ok(Api { $($($symbol,)*)* })
            }
        }
    };
}

api! {
    "libibverbs.so.1": {
        ibv_get_device_list: fn(*mut c_int) -> *mut *mut Device;
        ibv_free_device_list: fn(*mut *mut Device);
        ibv_get_device_name: fn(*mut Device) -> *const c_char;
        ibv_query_device: fn(*mut Context, *mut DeviceAttributes) -> c_int;
        ibv_alloc_pd: fn(*mut Context) -> *mut Pd;
        ibv_dealloc_pd: fn(*mut Pd) -> c_int;
        ibv_reg_mr: fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
        ibv_dereg_mr: fn(*mut Mr) -> c_int;
        ibv_create_comp_channel: fn(*mut Context) -> *mut CompletionChannel;
        ibv_destroy_comp_channel: fn(*mut CompletionChannel) -> c_int;
        ibv_create_cq: fn(*mut Context, c_int, *mut c_void, *mut CompletionChannel, c_int) -> *mut Cq;
        ibv_destroy_cq: fn(*mut Cq) -> c_int;
        ibv_get_cq_event: fn(*mut CompletionChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events: fn(*mut Cq, u32);
        ibv_modify_qp: fn(*mut Qp, *mut QpAttributes, c_int) -> c_int;
        ibv_destroy_qp: fn(*mut Qp) -> c_int;
        ibv_wc_status_str: fn(c_int) -> *const c_char;
    }
    "librdmacm.so.1": {
        rdma_create_event_channel: fn() -> *mut EventChannel;
        rdma_destroy_event_channel: fn(*mut EventChannel);
        rdma_create_id: fn(*mut EventChannel, *mut *mut RawId, *mut c_void, c_int) -> c_int;
        rdma_destroy_id: fn(*mut RawId) -> c_int;
        rdma_set_option: fn(*mut RawId, c_int, c_int, *mut c_void, usize) -> c_int;
        rdma_bind_addr: fn(*mut RawId, *mut libc::sockaddr) -> c_int;
        rdma_listen: fn(*mut RawId, c_int) -> c_int;
        rdma_resolve_addr: fn(*mut RawId, *mut libc::sockaddr, *mut libc::sockaddr, c_int) -> c_int;
        rdma_resolve_route: fn(*mut RawId, c_int) -> c_int;
        rdma_create_qp: fn(*mut RawId, *mut Pd, *mut QpInit) -> c_int;
        rdma_connect: fn(*mut RawId, *mut ConnectionParameters) -> c_int;
        rdma_accept: fn(*mut RawId, *mut ConnectionParameters) -> c_int;
        rdma_reject: fn(*mut RawId, *const c_void, u8) -> c_int;
        rdma_disconnect: fn(*mut RawId) -> c_int;
        rdma_get_cm_event: fn(*mut EventChannel, *mut *mut RawEvent) -> c_int;
        rdma_ack_cm_event: fn(*mut RawEvent) -> c_int;
    }
}

fn open(library: &'static str) -> Result<*mut c_void, LoadError> {
    let name = CString::new(library).expect("a name without NUL");
    // SAFETY: `name` ends with NUL. Loading a library runs its initialisers, which for these two and their dependencies only set up
    // their own state.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: no arguments; after a failure it returns a text of the linker's, valid until this thread's next call.
    let error = unsafe { libc::dlerror() };
    let error = if error.is_null() {
        String::from("no reason given")
    } else {
        // SAFETY: checked for null above; it ends with NUL.
        unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned()
    };
    Err(LoadError::NoLibrary(library, error))
}

fn find(library: *mut c_void, name: &'static str, symbol: &'static str) -> Result<*mut c_void, LoadError> {
    let terminated = CString::new(symbol).expect("a name without NUL");
    // SAFETY: the handle is that of a library that stays loaded, and the name ends with NUL.
    let address = unsafe { libc::dlsym(library, terminated.as_ptr()) };
    if address.is_null() { Err(LoadError::NoFunction(name, symbol)) } else { Ok(address) }
}

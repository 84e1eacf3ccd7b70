//! A queue pair, its identifier and its completion queue: what the device has of a connection.
//!
//! The order of their end: the queue pair, and with it every use of memory; then the completion queue and its channel; the identifier
//! when the queue pair is gone. The device stays open as long as the domain.

use super::abi::{
    self, CompletionChannel, ConnectionParameters, Cq, Qp, QpAttributes, QpCap, QpInit, ReceiveWr, SendWr, Wc,
};
use super::channel::do_not_block;
use super::domain::DomainCore;
use super::identifier::{CmNumber, Id, too_much_private_data};
use super::library::{Rdma, explained, made, succeeded};
use std::ffi::c_int;
use std::io;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;

/// Times that a message is sent again without an answer (`retry_count`), and again after the other end had no receive for it
/// (`rnr_retry_count`, where 7 is for ever).
const RETRIES: u8 = 7;

/// Time after which the other end sends a message again that found no receive, as the InfiniBand specification numbers times: 0.64 ms. The
/// kernel begins with 0, which stands for 655 ms.
const RNR_WAIT: u8 = 12;

/// A completion channel: its descriptor is readable when a notification that was asked for has come.
struct Notices {
    domain: Arc<DomainCore>,
    raw: *mut CompletionChannel,
}

impl Notices {
    fn new(domain: &Arc<DomainCore>) -> io::Result<Notices> {
        // SAFETY: the domain keeps the device open.
        let raw = made(unsafe { (domain.rdma().api.ibv_create_comp_channel)(domain.context()) })?;
        let notices = Notices { domain: Arc::clone(domain), raw };
        do_not_block(notices.fd())?;
        Ok(notices)
    }

    fn fd(&self) -> RawFd {
        // SAFETY: the channel is ours and lives.
        unsafe { (*self.raw).fd }
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        // SAFETY: the channel is ours and is destroyed only here, after its completion queue (the order of fields in `Completions`).
        unsafe { (self.domain.rdma().api.ibv_destroy_comp_channel)(self.raw) };
    }
}

/// The completion queue itself.
struct CqOwner {
    domain: Arc<DomainCore>,
    raw: *mut Cq,
}

impl Drop for CqOwner {
    fn drop(&mut self) {
        // SAFETY: the queue is ours and is destroyed only here, after its queue pair (the order of fields in `Pair`). All notices that were
        // read are acknowledged, so that it does not wait.
        unsafe { (self.domain.rdma().api.ibv_destroy_cq)(self.raw) };
    }
}

/// A completion queue and its channel.
struct Completions {
    queue: CqOwner,
    notices: Notices,
}

/// A queue pair and all that belongs to it. The order of the fields is that of their end.
pub(super) struct Pair {
    /// Null once it is destroyed.
    qp: *mut Qp,
    id: Id,
    completions: Completions,
    is_disconnected: bool,
}

// SAFETY: the library's functions may be called from any thread; the queues are used by one at a time, the owner.
unsafe impl Send for Pair {}

impl Pair {
    /// Makes them for a connection. The identifier comes back if it fails.
    pub(super) fn new(id: Id, domain: &Arc<DomainCore>, cap: QpCap) -> Result<Pair, (io::Error, Id)> {
        if id.context() != domain.context() {
            let what = "the protection domain is one of another RDMA device";
            return Err((io::Error::new(io::ErrorKind::InvalidInput, what), id));
        }
        let completions = match Completions::new(domain, cap.max_send_wr + cap.max_recv_wr) {
            Ok(completions) => completions,
            Err(error) => return Err((error, id)),
        };
        let mut init = QpInit {
            qp_context: ptr::null_mut(),
            send_cq: completions.queue.raw,
            recv_cq: completions.queue.raw,
            srq: ptr::null_mut(),
            cap,
            qp_type: abi::QP_RELIABLE,
            sq_sig_all: 0,
        };
        let turn = id.channel.turn();
        // SAFETY: the identifier and the domain are of the same device, which is open; the completion queue lives longer than
        // the queue pair; the channel's turn is ours.
        let result = unsafe { (domain.rdma().api.rdma_create_qp)(id.raw, domain.pd(), &raw mut init) };
        let result = succeeded(result);
        drop(turn);
        if let Err(error) = result {
            return Err((explained(&error, format!("the RDMA device makes no queue pair of {cap:?}")), id));
        }
        // SAFETY: the identifier is ours and lives.
        let qp = unsafe { (*id.raw).qp };
        Ok(Pair { qp, id, completions, is_disconnected: false })
    }

    pub(super) fn number(&self) -> CmNumber {
        self.id.number
    }

    pub(super) fn fd(&self) -> RawFd {
        self.completions.notices.fd()
    }

    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    pub(super) fn accept(&self, private_data: &[u8], initiator_depth: u8) -> io::Result<()> {
        let mut parameters = parameters(private_data)?;
        parameters.initiator_depth = initiator_depth;
        // SAFETY: the identifier is ours; the parameters and the private data live during the call, which copies them.
        succeeded(unsafe { (self.id.channel.rdma.api.rdma_accept)(self.id.raw, &raw mut parameters) })?;
        // SAFETY: the queue pair is ours and lives.
        unsafe { shorten_wait(self.id.channel.rdma, self.qp) };
        Ok(())
    }

    pub(super) fn connect(&self, private_data: &[u8], responder_resources: u8) -> io::Result<()> {
        let mut parameters = parameters(private_data)?;
        parameters.responder_resources = responder_resources;
        // SAFETY: as for `accept`.
        succeeded(unsafe { (self.id.channel.rdma.api.rdma_connect)(self.id.raw, &raw mut parameters) })
    }

    /// Ends the connection, if there is one: work that is out comes back flushed.
    pub(super) fn disconnect(&mut self) {
        if !self.is_disconnected {
            self.is_disconnected = true;
            // SAFETY: the identifier is ours, and its queue pair is not destroyed. An error says that it is not connected.
            unsafe { (self.id.channel.rdma.api.rdma_disconnect)(self.id.raw) };
        }
    }

    /// Posts a chain of requests. After an error the number of those that were posted all the same comes with it.
    ///
    /// # Safety
    /// Each request names `count` pieces of registered memory (or is inline) and the next request or null. The memory must stay, and be
    /// used by nobody else as the work demands, until the work has completed or the queue pair is destroyed.
    pub(super) unsafe fn post_sends(&self, requests: &mut [SendWr]) -> Result<(), (io::Error, usize)> {
        let first = requests.as_mut_ptr();
        let mut refused: *mut SendWr = ptr::null_mut();
        // SAFETY: the queue pair is ours and lives; the caller vouches for the requests.
        let error = unsafe { ((*(*self.qp).context).ops.post_send)(self.qp, first, &raw mut refused) };
        if error == 0 {
            return Ok(());
        }
        let posted = requests.iter().position(|request| ptr::eq(request, refused)).unwrap_or(requests.len());
        Err((io::Error::from_raw_os_error(error), posted))
    }

    /// Posts one receive.
    ///
    /// # Safety
    /// As for `post_sends`.
    pub(super) unsafe fn post_receive(&self, request: &mut ReceiveWr) -> io::Result<()> {
        let mut refused: *mut ReceiveWr = ptr::null_mut();
        // SAFETY: the queue pair is ours and lives; the caller vouches for the request.
        let error = unsafe { ((*(*self.qp).context).ops.post_recv)(self.qp, request, &raw mut refused) };
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
    }

    /// Takes completions, up to the room for them; returns their number.
    pub(super) fn poll(&self, completions: &mut [Wc]) -> io::Result<usize> {
        let cq = self.completions.queue.raw;
        let room = c_int::try_from(completions.len()).unwrap_or(c_int::MAX);
        // SAFETY: the completion queue is ours and lives; there is room for as many completions as are asked for.
        let count = unsafe { ((*(*cq).context).ops.poll_cq)(cq, room, completions.as_mut_ptr()) };
        usize::try_from(count).map_err(|_| io::Error::other("the RDMA device's completion queue is broken"))
    }

    /// Takes the notices that have come and asks for one with the next completion.
    pub(super) fn arm(&self) -> io::Result<()> {
        let (cq, api) = (self.completions.queue.raw, self.id.channel.rdma.api);
        let mut notices = 0;
        loop {
            let (mut of, mut context) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: the channel is ours and lives; the answers are written during the call. The channel has one completion queue.
            let result = unsafe {
                (api.ibv_get_cq_event)(self.completions.notices.raw, &raw mut of, &raw mut context)
            };
            match succeeded(result) {
                Ok(()) => notices += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if notices > 0 {
            // SAFETY: that many notices of this completion queue were read and not acknowledged.
            unsafe { (api.ibv_ack_cq_events)(cq, notices) };
        }
        // SAFETY: the completion queue is ours and lives.
        let error = unsafe { ((*(*cq).context).ops.req_notify_cq)(cq, 0) };
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error.abs())) }
    }

    /// Ends the connection and destroys the queue pair: the device uses no memory of its work afterwards. `false` if it cannot be made to.
    pub(super) fn destroy(&mut self) -> bool {
        if self.qp.is_null() {
            return true;
        }
        self.disconnect();
        let _turn = self.id.channel.turn();
        // SAFETY: the queue pair is ours and is destroyed once, in the channel's turn.
        let error = unsafe { (self.id.channel.rdma.api.ibv_destroy_qp)(self.qp) };
        if error == 0 {
            self.qp = ptr::null_mut();
            // SAFETY: the identifier is ours. It must not name a queue pair that is no more.
            unsafe { (*self.id.raw).qp = ptr::null_mut() };
        }
        error == 0
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.destroy();
    }
}

impl Completions {
    fn new(domain: &Arc<DomainCore>, entries: u32) -> io::Result<Completions> {
        let notices = Notices::new(domain)?;
        let count = c_int::try_from(entries).unwrap_or(c_int::MAX);
        // SAFETY: the domain keeps the device open, and the channel outlives the queue.
        let raw = unsafe {
            (domain.rdma().api.ibv_create_cq)(domain.context(), count, ptr::null_mut(), notices.raw, 0)
        };
        let raw = made(raw).map_err(|error| {
            explained(&error, format!("the RDMA device makes no completion queue of {entries} entries"))
        })?;
        Ok(Completions { queue: CqOwner { domain: Arc::clone(domain), raw }, notices })
    }
}

/// Makes the other end of a connected queue pair wait for receives for a short time only. It is not worth a failure.
///
/// # Safety
/// The queue pair lives during the call.
pub(super) unsafe fn shorten_wait(rdma: Rdma, qp: *mut Qp) {
    let mut attributes = QpAttributes { before_rnr_timer: [0; 16], min_rnr_timer: RNR_WAIT, rest: [0; 15] };
    // SAFETY: the queue pair is the caller's; the attributes live during the call, which reads the one that is named.
    unsafe { (rdma.api.ibv_modify_qp)(qp, &raw mut attributes, abi::QP_RNR_TIMER) };
}

fn parameters(private_data: &[u8]) -> io::Result<ConnectionParameters> {
    Ok(ConnectionParameters {
        private_data: private_data.as_ptr().cast(),
        private_data_len: u8::try_from(private_data.len()).map_err(|_| too_much_private_data())?,
        responder_resources: 0,
        initiator_depth: 0,
        flow_control: 1,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        srq: 0,
        qp_num: 0,
    })
}

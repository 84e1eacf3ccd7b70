//! The floor with io_uring: receptions that stay armed, one system call that hands over answers and waits.

use crate::messages::{Answers, GATHER, Messages, NO_PIECE};
use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::alloc::{self, Layout};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Requests that fit into the ring between two system calls.
const SUBMISSIONS: u32 = 512;
const COMPLETIONS: u32 = 4096;
/// Receive buffers, shared by all connections: their number and their length.
const BUFFERS: u16 = 16;
const BUFFER: usize = 64 * 1024;
const GROUP: u16 = 0;
/// Kinds of requests: these in the upper half of a request's name, the connection in the lower.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const PAGE: usize = 4096;

struct Connection {
    socket: TcpStream,
    messages: Messages,
    /// Memory that the kernel gathers from while a send is out.
    pieces: Box<[libc::iovec; GATHER]>,
    message: Box<libc::msghdr>,
    is_sending: bool,
    /// Whether the peer has disconnected. The memory of the connection stays until no send is out.
    has_ended: bool,
}

/// The provided buffers and the ring they are offered in. Lives until the process ends.
struct Buffers {
    memory: *mut u8,
    entries: *mut BufRingEntry,
    tail: u16,
}

impl Buffers {
    fn new(ring: &IoUring) -> io::Result<Buffers> {
        let bytes = usize::from(BUFFERS) * BUFFER;
        // SAFETY: neither size is zero, the alignment is a power of two.
        let (memory, entries) = unsafe {
            let layout = |bytes| Layout::from_size_align(bytes, PAGE).expect("a good layout");
            (alloc::alloc_zeroed(layout(bytes)), alloc::alloc_zeroed(layout(PAGE)))
        };
        let mut buffers = Buffers { memory, entries: entries.cast(), tail: 0 };
        // SAFETY: the page holds `BUFFERS` entries and is never freed.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries as u64, BUFFERS, GROUP, 0)? };
        (0..BUFFERS).for_each(|id| buffers.provide(id));
        Ok(buffers)
    }

    fn provide(&mut self, id: u16) {
        let index = usize::from(self.tail % BUFFERS);
        // SAFETY: there are `BUFFERS` zeroed entries and as many buffers; the kernel does not read entries beyond the tail,
        // which lies in the first entry and is only accessed atomically.
        unsafe {
            let entry = &mut *self.entries.add(index);
            entry.set_addr(self.memory.add(usize::from(id) * BUFFER) as u64);
            entry.set_len(BUFFER as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            AtomicU16::from_ptr(BufRingEntry::tail(self.entries).cast_mut())
                .store(self.tail, Ordering::Release);
        }
    }

    /// The first bytes of a buffer that the kernel has filled.
    fn filled(&self, id: u16, length: usize) -> &[u8] {
        // SAFETY: the buffer is initialised memory that is never freed, and the kernel does not touch it until it is provided
        // again, which takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.add(usize::from(id) * BUFFER), length) }
    }
}

/// Serves until an error.
pub(crate) fn serve(listener: &TcpListener, spin: Duration) -> io::Result<()> {
    let mut ring = IoUring::builder()
        .setup_clamp()
        .setup_cqsize(COMPLETIONS)
        .setup_submit_all()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(SUBMISSIONS)?;
    let mut buffers = Buffers::new(&ring)?;
    let mut answers = Answers::default();
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut completions: Vec<cqueue::Entry> = Vec::new();
    push(&mut ring, opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).build().user_data(ACCEPT << 32))?;
    loop {
        wait(&mut ring, spin)?;
        completions.extend(ring.completion());
        for completion in completions.drain(..) {
            let (kind, index) =
                (completion.user_data() >> 32, (completion.user_data() & 0xffff_ffff) as usize);
            let result = completion.result();
            match kind {
                ACCEPT => {
                    // SAFETY: a successful accept gives a new descriptor, once.
                    let socket = unsafe { TcpStream::from_raw_fd(checked(result)?) };
                    socket.set_nodelay(true)?;
                    push(&mut ring, receive(&socket, connections.len()))?;
                    connections.push(Some(Connection::new(socket)));
                }
                RECEIVE => {
                    let place = &mut connections[index];
                    let Some(connection) = place else { continue };
                    if let Some(id) = cqueue::buffer_select(completion.flags()) {
                        let bytes = buffers.filled(id, checked(result)? as usize);
                        connection.messages.on_bytes(bytes, &mut answers);
                        buffers.provide(id);
                    } else if result != -libc::ENOBUFS {
                        connection.has_ended = true;
                        if !connection.is_sending {
                            *place = None;
                        }
                        continue;
                    }
                    if !cqueue::more(completion.flags()) {
                        push(&mut ring, receive(&connection.socket, index))?;
                    }
                }
                _ => {
                    let place = &mut connections[index];
                    let connection = place.as_mut().expect("a connection stays while a send is out");
                    connection.is_sending = false;
                    connection.messages.advance(result.max(0) as usize);
                    if connection.has_ended {
                        *place = None;
                    }
                }
            }
        }
        // Answers go when all that has come was looked at, so that they go together.
        for (index, connection) in connections.iter_mut().enumerate() {
            if let Some(connection) = connection
                && let Some(send) = connection.send(index)
            {
                push(&mut ring, send)?;
            }
        }
    }
}

impl Connection {
    fn new(socket: TcpStream) -> Connection {
        // SAFETY: a message header of zeros is a valid one that names nothing.
        let message = Box::new(unsafe { std::mem::zeroed::<libc::msghdr>() });
        let pieces = Box::new([NO_PIECE; GATHER]);
        Connection { socket, messages: Messages::new(), pieces, message, is_sending: false, has_ended: false }
    }

    fn send(&mut self, index: usize) -> Option<squeue::Entry> {
        if self.is_sending || self.has_ended || !self.messages.has_outgoing() {
            return None;
        }
        self.is_sending = true;
        let count = self.messages.gather(&mut self.pieces);
        self.message.msg_iov = self.pieces.as_mut_ptr();
        self.message.msg_iovlen = count as _;
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
        let send = opcode::SendMsg::new(Fd(self.socket.as_raw_fd()), &*self.message).flags(flags);
        Some(send.build().user_data(SEND << 32 | index as u64))
    }
}

fn receive(socket: &TcpStream, index: usize) -> squeue::Entry {
    let receive = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
    receive.user_data(RECEIVE << 32 | index as u64)
}

fn push(ring: &mut IoUring, entry: squeue::Entry) -> io::Result<()> {
    // SAFETY: what requests name lives long enough: buffers and answers for ever, a connection's pieces and socket until its
    // send is back (`has_ended`) and its receive has ended.
    while unsafe { ring.submission().push(&entry) }.is_err() {
        ring.submit()?;
    }
    Ok(())
}

/// Waits for completions: busy-polls for `spin`, then sleeps.
fn wait(ring: &mut IoUring, spin: Duration) -> io::Result<()> {
    if spin > Duration::ZERO {
        ring.submit()?;
        let began = Instant::now();
        while ring.completion().is_empty() && !ring.submission().taskrun() && began.elapsed() < spin {
            std::hint::spin_loop();
        }
    }
    match ring.submit_and_wait(1) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}

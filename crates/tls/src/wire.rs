//! The two buffers between the library and the caller, and the callbacks by which the library uses them.
//!
//! The only unsafe code of this crate.

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

use errno::{Errno, set_errno};
use s2n_tls::connection::Connection;
use s2n_tls::error::Error;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// EAGAIN, which the library takes for "no bytes now" (errno(3)).
const AGAIN: Errno = Errno(11);

/// Records that have arrived, and records to be sent.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Bytes that have arrived and were kept: those that the library did not take when they were lent to it.
    kept: Vec<u8>,
    /// Where the bytes begin in `kept` that the library has not taken.
    taken: usize,
    /// Bytes that follow those, while the caller lends them.
    lent: &'static [u8],
    pub(crate) outbound: Vec<u8>,
}

impl Buffers {
    /// Number of bytes that the library has not taken.
    pub(crate) fn waiting(&self) -> usize {
        self.kept.len() - self.taken + self.lent.len()
    }

    fn take(&mut self, place: &mut [u8]) -> Option<usize> {
        if self.taken < self.kept.len() {
            let kept = &self.kept[self.taken..];
            let count = kept.len().min(place.len());
            place[..count].copy_from_slice(&kept[..count]);
            self.taken += count;
            if self.taken == self.kept.len() {
                (self.kept, self.taken) = (Vec::new(), 0);
            }
            return Some(count);
        }
        let count = self.lent.len().min(place.len());
        let (part, rest) = self.lent.split_at(count);
        place[..count].copy_from_slice(part);
        self.lent = rest;
        (count > 0).then_some(count)
    }

    /// Keeps what is left of the bytes that were lent.
    fn keep(&mut self) {
        let rest = std::mem::take(&mut self.lent);
        if !rest.is_empty() {
            self.kept.drain(..std::mem::take(&mut self.taken));
            self.kept.extend_from_slice(rest);
        }
    }
}

/// The buffers of one connection. The library has a pointer to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire(Arc<Mutex<Buffers>>);

impl Wire {
    /// Makes `connection` read from these buffers and write to them. They must live as long as it.
    pub(crate) fn attach(&self, connection: &mut Connection) -> Result<(), Error> {
        connection.set_receive_callback(Some(receive))?.set_send_callback(Some(send))?;
        let context = Arc::as_ptr(&self.0).cast_mut().cast::<c_void>();
        // SAFETY: the callbacks use the context as what it is, a shared Mutex, and `Stream` drops the connection before the wire.
        unsafe {
            connection.set_receive_context(context)?;
            connection.set_send_context(context)?;
        }
        Ok(())
    }

    /// Lends bytes that have arrived to the library, for the time of `during`; what it does not take is kept.
    pub(crate) fn lend<T>(&self, bytes: &[u8], during: impl FnOnce() -> T) -> T {
        struct Loan<'a>(&'a Wire);
        impl Drop for Loan<'_> {
            fn drop(&mut self) {
                self.0.lock().keep();
            }
        }
        let loan = Loan(self);
        let mut buffers = self.lock();
        buffers.keep();
        // SAFETY: the slice is used only while it is in `lent`, and the loan takes it out before this returns, however it ends.
        buffers.lent = unsafe { std::mem::transmute::<&[u8], &'static [u8]>(bytes) };
        drop(buffers);
        let result = during();
        drop(loan);
        result
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Buffers> {
        lock(&self.0)
    }
}

fn lock(buffers: &Mutex<Buffers>) -> MutexGuard<'_, Buffers> {
    buffers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands received bytes to the library.
unsafe extern "C" fn receive(context: *mut c_void, place: *mut u8, length: u32) -> i32 {
    // SAFETY: `attach` gave this pointer, and the buffers live as long as the connection.
    let buffers = unsafe { &*context.cast::<Mutex<Buffers>>() };
    // SAFETY: the library passes room for that many bytes, which it has initialized.
    let place = unsafe { std::slice::from_raw_parts_mut(place, length as usize) };
    match lock(buffers).take(place) {
        Some(count) => i32::try_from(count).expect("the library asks for less than 2 GiB"),
        None => {
            set_errno(AGAIN);
            -1
        }
    }
}

/// Takes bytes to be sent from the library.
unsafe extern "C" fn send(context: *mut c_void, bytes: *const u8, length: u32) -> i32 {
    // SAFETY: as in `receive`.
    let buffers = unsafe { &*context.cast::<Mutex<Buffers>>() };
    // SAFETY: the library passes that many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length as usize) };
    lock(buffers).outbound.extend_from_slice(bytes);
    i32::try_from(length).expect("the library sends records")
}

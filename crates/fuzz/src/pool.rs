//! Payload buffers that are counted, and a buffer source that is empty when the input wants it to be.

use nvme::buffer::{Buffer, BufferSource, BufferUse};
use std::cell::Cell;
use std::rc::Rc;

/// Buffers in use.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) buffers: Cell<usize>,
    pub(crate) bytes: Cell<usize>,
}

/// A buffer that is counted in `live`.
#[derive(Debug)]
pub(crate) struct Counted {
    bytes: Vec<u8>,
    live: Rc<Live>,
}

impl Counted {
    /// A buffer with these contents.
    pub(crate) fn new(bytes: Vec<u8>, live: &Rc<Live>) -> Counted {
        live.buffers.set(live.buffers.get() + 1);
        live.bytes.set(live.bytes.get() + bytes.len());
        Counted { bytes, live: Rc::clone(live) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.buffers.set(self.live.buffers.get() - 1);
        self.live.bytes.set(self.live.bytes.get() - self.bytes.len());
    }
}

impl Buffer for Counted {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// A source of `left` more buffers.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) left: usize,
    pub(crate) live: Rc<Live>,
    /// The longest buffer that may be requested.
    pub(crate) length_max: usize,
}

impl BufferSource for Pool {
    type Buffer = Counted;

    fn take(&mut self, length: usize, _purpose: BufferUse) -> Option<Counted> {
        assert!((1..=self.length_max).contains(&length), "a buffer of {length} bytes was asked for");
        self.left = self.left.checked_sub(1)?;
        Some(Counted::new(vec![0; length], &self.live))
    }
}

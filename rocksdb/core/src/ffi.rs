//! The functions that the C++ half calls (`shim/cpp/gimbal.h`): nothing but translation, and the only `unsafe` of this crate.
//!
//! What C++ owns it owns as a `Box`, and gives back by the function that takes the `Box`. What it lends is a reference: the C++
//! classes keep what they lend alive during the call, and never pass null. So what is left to be unsafe is memory that is
//! given as an address and a length, which `Text` and `Space` turn into slices.

#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

use crate::files::{PendingRead, Reader, Writer};
use crate::kind::Kind;
use crate::mounts;
use crate::volume::Volume;
use blob::{Class, Fault, FileId};
use std::ffi::c_void;
use std::sync::Arc;

/// Bytes that somebody else owns. C++ passes it only for the time of a call.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Text {
    start: *const u8,
    length: usize,
}

impl Text {
    fn of(text: &str) -> Text {
        Text { start: text.as_ptr(), length: text.len() }
    }

    fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: C++ makes a `Text` of a string or slice that it keeps unchanged until the call returns, and no function here
        // keeps a `Text` for longer.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }

    /// RocksDB's names are bytes, a volume's are UTF-8.
    fn path(&self) -> Result<&str, Fault> {
        std::str::from_utf8(self.bytes()).map_err(|_| Fault::Invalid)
    }
}

/// Memory to be written to.
#[repr(C)]
pub(crate) struct Space {
    start: *mut u8,
    length: usize,
}

impl Space {
    fn fill(self, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.length);
        if length > 0 {
            // SAFETY: `start` is memory of at least `self.length` bytes that the caller lets nobody else use during the call;
            // `bytes` is ours, so the two do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start, length) };
        }
        length
    }
}

/// Takes texts: a C++ function, and what it puts them into.
#[repr(C)]
pub(crate) struct Sink {
    take: extern "C" fn(*mut c_void, Text),
    into: *mut c_void,
}

impl Sink {
    fn take(&self, text: &str) {
        (self.take)(self.into, Text::of(text));
    }
}

/// A volume, as C++ holds it.
struct Shared(Arc<Volume>);

impl std::ops::Deref for Shared {
    type Target = Arc<Volume>;

    fn deref(&self) -> &Arc<Volume> {
        &self.0
    }
}

/// How an operation ended.
#[repr(C)]
pub(crate) struct Status {
    kind: Kind,
    /// Lives as long as the process.
    text: Text,
}

/// An end with a number, which is 0 after an error.
#[repr(C)]
pub(crate) struct Number {
    status: Status,
    value: u64,
}

/// What a name stands for.
#[repr(C)]
pub(crate) struct Shape {
    status: Status,
    size: u64,
    time: u64,
    links: u64,
    is_dir: bool,
}

/// A file to write to; null after an error.
#[repr(C)]
pub(crate) struct OpenedWriter {
    status: Status,
    writer: Option<Box<Writer>>,
}

/// A file to read; null after an error.
#[repr(C)]
pub(crate) struct OpenedReader {
    status: Status,
    reader: Option<Box<Reader>>,
}

/// The bytes of a read, as C++ holds them.
pub(crate) struct Bytes {
    _held: Vec<u8>,
}

/// Bytes that were read; null after an error.
#[repr(C)]
pub(crate) struct Lent {
    status: Status,
    /// Lives as long as `bytes`.
    text: Text,
    bytes: Option<Box<Bytes>>,
}

impl<T> From<Result<T, Fault>> for Status {
    fn from(result: Result<T, Fault>) -> Status {
        match result {
            Ok(_) => Status { kind: Kind::Ok, text: Text::of("") },
            Err(fault) => Status { kind: Kind::from(fault), text: Text::of(fault.text()) },
        }
    }
}

impl From<Result<u64, Fault>> for Number {
    fn from(result: Result<u64, Fault>) -> Number {
        Number { value: result.unwrap_or(0), status: Status::from(result) }
    }
}

impl From<Result<Writer, Fault>> for OpenedWriter {
    fn from(result: Result<Writer, Fault>) -> OpenedWriter {
        match result {
            Ok(writer) => OpenedWriter { status: Ok::<_, Fault>(()).into(), writer: Some(Box::new(writer)) },
            Err(fault) => OpenedWriter { status: Err::<(), _>(fault).into(), writer: None },
        }
    }
}

/// The volume of a URI. Null after an error, whose text is put into the sink.
#[unsafe(no_mangle)]
extern "C" fn gimbal_open(uri: Text, error: Sink) -> Option<Box<Shared>> {
    let volume = match uri.path() {
        Ok(uri) => mounts::open(uri),
        Err(fault) => Err(fault.to_string()),
    };
    volume.map_err(|text| error.take(&text)).ok().map(|volume| Box::new(Shared(volume)))
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_release(volume: Option<Box<Shared>>) {
    drop(volume);
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_unmount_all() {
    mounts::unmount_all();
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_stat(volume: &Shared, path: Text) -> Shape {
    let stat = path.path().and_then(|path| volume.stat(path));
    let status = Status::from(stat);
    match stat {
        Ok(stat) => Shape {
            status,
            size: stat.size,
            time: stat.time,
            links: u64::from(stat.links),
            is_dir: stat.is_dir,
        },
        Err(_) => Shape { status, size: 0, time: 0, links: 0, is_dir: false },
    }
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_list(volume: &Shared, path: Text, names: Sink) -> Status {
    let list = path.path().and_then(|path| volume.list(path));
    list.map(|list| list.iter().for_each(|name| names.take(name))).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_rename(volume: &Shared, from: Text, to: Text) -> Status {
    from.path().and_then(|from| volume.rename(from, to.path()?)).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_link(volume: &Shared, from: Text, to: Text) -> Status {
    from.path().and_then(|from| volume.link(from, to.path()?)).into()
}

/// 1 if both stand for the same.
#[unsafe(no_mangle)]
extern "C" fn gimbal_is_same(volume: &Shared, first: Text, second: Text) -> Number {
    let is_same = first.path().and_then(|first| volume.is_same(first, second.path()?));
    is_same.map(u64::from).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_unlink(volume: &Shared, path: Text) -> Status {
    path.path().and_then(|path| volume.unlink(path)).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_make_dir(volume: &Shared, path: Text) -> Status {
    path.path().and_then(|path| volume.make_dir(path)).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_make_dirs(volume: &Shared, path: Text) -> Status {
    path.path().and_then(|path| volume.make_dirs(path)).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_remove_dir(volume: &Shared, path: Text) -> Status {
    path.path().and_then(|path| volume.remove_dir(path)).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_truncate(volume: &Shared, path: Text, size: u64) -> Status {
    path.path().and_then(|path| volume.truncate(path, size)).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_free(volume: &Shared) -> Number {
    volume.free().into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_sync_names(volume: &Shared) -> Status {
    volume.sync_names().into()
}

/// The number of a lock; 0 if this process has locked the file already.
#[unsafe(no_mangle)]
extern "C" fn gimbal_lock(volume: &Shared, path: Text) -> Number {
    let lock = path.path().and_then(|path| volume.lock(path));
    lock.map(|lock| lock.map_or(0, |file| file.0)).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_unlock(volume: &Shared, lock: u64) {
    volume.unlock(FileId(lock));
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_create(volume: &Shared, path: Text) -> OpenedWriter {
    path.path().and_then(|path| volume.create(path)).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_reopen(volume: &Shared, path: Text) -> OpenedWriter {
    path.path().and_then(|path| volume.reopen(path)).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_writer_release(writer: Option<Box<Writer>>) {
    drop(writer);
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_append(writer: &Writer, bytes: Text) -> Status {
    writer.append(bytes.bytes()).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_write_at(writer: &Writer, offset: u64, bytes: Text) -> Status {
    writer.write_at(offset, bytes.bytes()).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_flush(writer: &Writer) -> Status {
    writer.flush().into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_sync(writer: &Writer) -> Status {
    writer.sync().into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_writer_truncate(writer: &Writer, size: u64) -> Status {
    writer.truncate(size).into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_writer_size(writer: &Writer) -> Number {
    writer.size().into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_close(writer: &Writer) -> Status {
    writer.close().into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_open_reader(volume: &Shared, path: Text) -> OpenedReader {
    match path.path().and_then(|path| volume.open(path)) {
        Ok(reader) => OpenedReader { status: Ok::<_, Fault>(()).into(), reader: Some(Box::new(reader)) },
        Err(fault) => OpenedReader { status: Err::<(), _>(fault).into(), reader: None },
    }
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_reader_release(reader: Option<Box<Reader>>) {
    drop(reader);
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_reader_size(reader: &Reader) -> Number {
    reader.size().into()
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_read_begin(
    reader: &Reader,
    offset: u64,
    length: usize,
    is_background: bool,
) -> Box<PendingRead> {
    let class = if is_background { Class::Background } else { Class::Normal };
    Box::new(reader.begin(offset, length as u64, class))
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_read_is_done(read: &PendingRead) -> bool {
    read.is_done()
}

/// Waits, and puts the bytes where they are wanted. Answers how many there are: at most as many as there is space for.
#[unsafe(no_mangle)]
extern "C" fn gimbal_read_end(read: Box<PendingRead>, space: Space) -> Number {
    read.end().map(|bytes| space.fill(&bytes) as u64).into()
}

/// Waits, and gives the bytes to the caller.
#[unsafe(no_mangle)]
extern "C" fn gimbal_read_lend(read: Box<PendingRead>) -> Lent {
    match read.end() {
        Ok(bytes) => {
            // The bytes stay where they are when their vector moves.
            let text = Text { start: bytes.as_ptr(), length: bytes.len() };
            Lent { status: Ok::<_, Fault>(()).into(), text, bytes: Some(Box::new(Bytes { _held: bytes })) }
        }
        Err(fault) => Lent { status: Err::<(), _>(fault).into(), text: Text::of(""), bytes: None },
    }
}

#[unsafe(no_mangle)]
extern "C" fn gimbal_bytes_release(bytes: Option<Box<Bytes>>) {
    drop(bytes);
}

/// Forgets a read. What it finds goes nowhere.
#[unsafe(no_mangle)]
extern "C" fn gimbal_read_release(read: Option<Box<PendingRead>>) {
    drop(read);
}

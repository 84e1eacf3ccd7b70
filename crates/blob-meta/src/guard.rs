//! Keeps a library's panic about a damaged file from ending the process.
//!
//! Every client of a volume can write the file of a store, and disks can fail. The database checks most of the data
//! that it reads and panics on the rest. For this project such a panic is an error of the file, so it is caught here.
//! While a thread runs the database, panic hooks are not called (a target's hook aborts the process, because other
//! panics are its own bugs).
//!
//! Holds: for any damage of the file, a call ends with a result or an error (`no_damage_ends_the_process` in
//! `tests/embedded.rs`).

use blob::store::StoreError;
use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

thread_local! {
    /// Whether this thread runs the database.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs the database on the file at `path`.
pub(crate) fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_INSIDE.get() {
                hook(info);
            }
        }));
    });
    IS_INSIDE.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    IS_INSIDE.set(false);
    result.unwrap_or_else(|panic| Err(damaged(path, &*panic)))
}

fn damaged(path: &Path, panic: &(dyn Any + Send)) -> StoreError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default().to_owned();
    StoreError::Damaged {
        file: path.display().to_string(),
        why: format!("the database gave up on it: {line}"),
    }
}

//! The Env of a volume.

#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

use librocksdb_sys::rocksdb_env_t;
use rocksdb::Env;
use std::ffi::{CStr, CString, c_char};
use std::ptr::null_mut;

unsafe extern "C" {
    fn gimbal_rocksdb_env(uri: *const c_char, error: *mut *mut c_char) -> *mut rocksdb_env_t;
    fn free(memory: *mut c_char);
}

/// The Env of a volume, `gimbal://VOLUME?store=STORE`. Mounts the volume, which stays mounted until the process ends.
///
/// # Errors
/// The volume cannot be mounted, or the URI is wrong.
pub fn env(uri: &str) -> Result<Env, String> {
    let uri = CString::new(uri).map_err(|_| "a URI has no zero byte".to_owned())?;
    let mut error = null_mut();
    // SAFETY: `uri` ends with a zero byte and lives until the call returns, and `error` is a place for a text, now empty.
    let env = unsafe { gimbal_rocksdb_env(uri.as_ptr(), &raw mut error) };
    if !env.is_null() {
        // SAFETY: the Env came from the call, and nobody else has it.
        return Ok(unsafe { Env::from_raw(env) });
    }
    // SAFETY: without an Env there is a text that ends with a zero byte, or there was no memory for it. It is ours, and freed once.
    let text = unsafe {
        let text = (!error.is_null()).then(|| CStr::from_ptr(error).to_string_lossy().into_owned());
        free(error);
        text
    };
    Err(text.unwrap_or_else(|| "out of memory".to_owned()))
}

//! The libraries of RDMA, loaded once for the process, and the devices that they find.

use super::abi::{Api, LoadError};
use std::ffi::{CStr, c_int};
use std::fs;
use std::io;
use std::sync::OnceLock;

/// Where the kernel lists its RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";

/// Why RDMA cannot be used on this machine.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RdmaError {
    /// A library of user space is missing.
    #[error(
        "RDMA needs {library}, which cannot be loaded ({reason}): install the Debian packages libibverbs1, librdmacm1 and \
         ibverbs-providers, or their like"
    )]
    NoLibrary {
        /// Its name.
        library: &'static str,
        /// The dynamic linker's reason.
        reason: String,
    },
    /// A library is older than what is needed, or another of the same name.
    #[error(
        "RDMA needs the function {function} of {library}, which has none: install rdma-core 28 or newer (the Debian packages \
         libibverbs1, librdmacm1 and ibverbs-providers)"
    )]
    NoFunction {
        /// The library.
        library: &'static str,
        /// The function.
        function: &'static str,
    },
    /// The kernel has no device, or does not let this process use one.
    #[error(
        "there is no RDMA device here ({DEVICES} is empty): load its kernel module and see `rdma link`; without such hardware \
         `rdma link add rxe0 type rxe netdev NAME` makes one of a network interface"
    )]
    NoDevice,
    /// The kernel has a device that the libraries do not know.
    #[error(
        "no RDMA device can be used from user space, though the kernel has {devices}: install the Debian package \
         ibverbs-providers, load the module ib_uverbs, and give this process access to /dev/infiniband"
    )]
    NoProvider {
        /// The kernel's devices, separated by commas.
        devices: String,
    },
}

impl From<LoadError> for RdmaError {
    fn from(error: LoadError) -> RdmaError {
        match error {
            LoadError::NoLibrary(library, reason) => RdmaError::NoLibrary { library, reason },
            LoadError::NoFunction(library, function) => RdmaError::NoFunction { library, function },
        }
    }
}

/// The loaded libraries.
#[derive(Clone, Copy)]
pub struct Rdma {
    pub(super) api: &'static Api,
}

impl Rdma {
    /// Loads the libraries, at the first call. It does not look for devices.
    ///
    /// # Errors
    /// A library, or a function in it, is missing.
    pub fn load() -> Result<Rdma, RdmaError> {
        static LOADED: OnceLock<Result<Api, RdmaError>> = OnceLock::new();
        match LOADED.get_or_init(|| Ok(Api::load()?)) {
            Ok(api) => Ok(Rdma { api }),
            Err(error) => Err(error.clone()),
        }
    }

    /// The names of the devices that can be used now: at least one.
    ///
    /// # Errors
    /// There is none.
    pub fn devices(self) -> Result<Vec<String>, RdmaError> {
        let mut count: c_int = 0;
        // SAFETY: the count is written during the call. The list is null or has that many devices, until it is freed.
        let list = unsafe { (self.api.ibv_get_device_list)(&raw mut count) };
        let mut names = Vec::new();
        if !list.is_null() {
            for index in 0..usize::try_from(count).unwrap_or(0) {
                // SAFETY: the list has `count` devices, and a device's name ends with NUL and lives as long as the list.
                let name = unsafe { CStr::from_ptr((self.api.ibv_get_device_name)(*list.add(index))) };
                names.push(name.to_string_lossy().into_owned());
            }
            // SAFETY: the list is freed once, and no device of it is used after.
            unsafe { (self.api.ibv_free_device_list)(list) };
        }
        if names.is_empty() { Err(without_device()) } else { Ok(names) }
    }

    /// The text of a completion's status.
    pub(super) fn status_text(self, status: c_int) -> &'static str {
        // SAFETY: for any number the library returns a text of its own that ends with NUL; the library stays loaded.
        let text: &'static CStr = unsafe { CStr::from_ptr((self.api.ibv_wc_status_str)(status)) };
        text.to_str().unwrap_or("unknown")
    }
}

fn without_device() -> RdmaError {
    let mut devices: Vec<String> = fs::read_dir(DEVICES)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    devices.sort();
    if devices.is_empty() {
        RdmaError::NoDevice
    } else {
        RdmaError::NoProvider { devices: devices.join(", ") }
    }
}

/// Zero, or the error that `errno` names.
pub(super) fn succeeded(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A pointer, or the error that `errno` names.
pub(super) fn made<T>(pointer: *mut T) -> io::Result<*mut T> {
    if pointer.is_null() { Err(io::Error::last_os_error()) } else { Ok(pointer) }
}

/// An error with words around the system's.
pub(super) fn explained(error: &io::Error, what: impl AsRef<str>) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", what.as_ref()))
}

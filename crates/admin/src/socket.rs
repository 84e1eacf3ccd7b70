//! The Unix socket of the API.
//!
//! A lock beside the socket tells whether its target lives: the kernel releases it with the process. So a socket that a dead target left is
//! replaced, and that of a live one is not. The socket gets its name only when it has its mode.
//!
//! Holds: `a_socket_has_one_target` here.

use rustix::fs::FlockOperation;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Owner and group may use it.
const MODE: u32 = 0o660;
/// The longest path of a socket that Linux has.
const PATH_MAX: usize = 107;
const NAME: &str = "admin.sock";

/// A socket that is listened on. Dropping it removes it.
#[derive(Debug)]
pub struct Listener {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// The device and inode of the socket: another one at this path is not removed.
    own: (u64, u64),
    /// Held as long as the socket is.
    _lock: File,
}

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another target listens on it.
    #[error("another target has the admin socket {}: stop it, or give --admin-socket another path", .0.display())]
    Taken(PathBuf),
    /// There is something else at the path.
    #[error("{} is a {kind}, not a socket: remove it, or give --admin-socket another path", .path.display())]
    Other {
        /// The path.
        path: PathBuf,
        /// Its kind.
        kind: &'static str,
    },
    /// The path is too long.
    #[error("{} is longer than the 103 bytes that the path of the admin socket may have: give --admin-socket a shorter one", .0.display())]
    Long(PathBuf),
    /// The system refuses it.
    #[error("cannot listen on the admin socket {}: {error}; give --admin-socket a path in a folder that can be written, or none", .path.display())]
    System {
        /// The path.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

/// The path of the socket where none is given: in the runtime directory of the service, of root, or of the user, else in the state directory.
pub fn default_socket(state_dir: Option<&Path>) -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let by_user = || match rustix::process::geteuid().is_root() {
        true => Some(PathBuf::from("/run/gimbal")),
        false => absolute("XDG_RUNTIME_DIR").map(|folder| folder.join("gimbal")),
    };
    // systemd separates several directories by colons; the first one is the unit's own.
    let own = std::env::var("RUNTIME_DIRECTORY").ok();
    let own = own.and_then(|folders| {
        Some(PathBuf::from(folders.split(':').next()?)).filter(|path| path.is_absolute())
    });
    let folder = own.or_else(by_user).or_else(|| state_dir.map(Path::to_owned))?;
    Some(folder.join(NAME))
}

impl Listener {
    /// Listens on this path. The last folder of it is made if it is not there.
    ///
    /// # Errors
    /// The error says why, and what to do.
    pub fn bind(path: &Path) -> Result<Listener, SocketError> {
        let beside = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let (lock, new) = (beside(".lock"), beside(".new"));
        if new.as_os_str().len() > PATH_MAX {
            return Err(SocketError::Long(path.to_owned()));
        }
        let failed = |error: io::Error| SocketError::System { path: path.to_owned(), error };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            match DirBuilder::new().mode(0o755).create(folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
                _ => {}
            }
        }
        let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(flags.cast_signed())
            .open(lock)
            .map_err(failed)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(SocketError::Taken(path.to_owned())),
            locked => locked.map_err(|error| failed(error.into()))?,
        }
        check_place(path)?;
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&new).map_err(failed)?;
        let prepared = || {
            fs::set_permissions(&new, Permissions::from_mode(MODE))?;
            let metadata = fs::symlink_metadata(&new)?;
            listener.set_nonblocking(true)?;
            fs::rename(&new, path)?;
            Ok((metadata.dev(), metadata.ino()))
        };
        let own = prepared().map_err(|error| {
            // It is ours, and has no use.
            let _ = fs::remove_file(&new);
            failed(error)
        })?;
        Ok(Listener { listener, path: path.to_owned(), own, _lock: lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Checks that there is nothing at the path, or a socket on which nobody listens.
fn check_place(path: &Path) -> Result<(), SocketError> {
    let kind = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketError::System { path: path.to_owned(), error }),
        Ok(metadata) => metadata.file_type(),
    };
    let kind = match () {
        () if kind.is_socket() => match UnixStream::connect(path) {
            Ok(_) => return Err(SocketError::Taken(path.to_owned())),
            Err(_) => return Ok(()),
        },
        () if kind.is_symlink() => "symbolic link",
        () if kind.is_dir() => "folder",
        () if kind.is_fifo() => "FIFO",
        () if kind.is_file() => "regular file",
        () => "device",
    };
    Err(SocketError::Other { path: path.to_owned(), kind })
}

impl Drop for Listener {
    fn drop(&mut self) {
        let is_own = |found: fs::Metadata| (found.dev(), found.ino()) == self.own;
        if fs::symlink_metadata(&self.path).is_ok_and(is_own) {
            // If this fails, the next target replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_one_target() {
        let folder = std::env::temp_dir().join(format!("gimbal-admin-socket-{}", std::process::id()));
        let path = folder.join("a.sock");
        let first = Listener::bind(&path).expect("the folder is made");
        assert_eq!(path.metadata().expect("ours").mode() & 0o777, MODE);
        assert!(matches!(Listener::bind(&path), Err(SocketError::Taken(_))));
        drop(first);
        assert!(!path.exists());

        // One that a dead target left.
        drop(UnixListener::bind(&path).expect("a socket"));
        drop(Listener::bind(&path).expect("nobody listens there"));
        // One that another program listens on.
        let other = UnixListener::bind(&path).expect("a socket");
        assert!(matches!(Listener::bind(&path), Err(SocketError::Taken(_))));
        drop(other);
        fs::remove_file(&path).expect("ours");

        std::os::unix::fs::symlink("elsewhere", &path).expect("a link");
        let error = Listener::bind(&path).expect_err("a link").to_string();
        assert!(error.contains("symbolic link") && error.contains("--admin-socket"), "{error}");
        fs::remove_file(&path).expect("ours");
        fs::write(&path, "").expect("ours");
        assert!(matches!(Listener::bind(&path), Err(SocketError::Other { kind: "regular file", .. })));
        let long = folder.join("x".repeat(PATH_MAX));
        assert!(matches!(Listener::bind(&long), Err(SocketError::Long(_))));
        fs::remove_dir_all(&folder).expect("ours");
    }
}

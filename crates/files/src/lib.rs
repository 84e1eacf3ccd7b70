//! Reads a file that a person or another program has named.
//!
//! A name can lead to anything: opening a FIFO waits for a writer that never comes, and a device such as `/dev/zero` has no end. So only
//! regular files are read, they are opened without waiting, and only up to a size that no proper file of its kind has.
//!
//! Holds: reading ends, whatever the name leads to (`only_regular_files_of_a_proper_size_are_read`).

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// The largest configuration, profile or table, in bytes.
pub const TEXT_MAX: u64 = 16 << 20;
/// The largest file that is read as a key, in bytes.
const SECRET_MAX: u64 = 4096;
/// Permissions of others than the owner.
const OTHERS: u32 = 0o077;

/// The bytes of the regular file at `path`, at most `most`.
///
/// # Errors
/// It cannot be opened or read, is no regular file, or is larger.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        let text = format!("it is a {}, and only regular files are read", kind_of(kind));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    read_at_most(file, most)
}

/// The text in the regular file at `path`, at most [`TEXT_MAX`] bytes.
///
/// # Errors
/// As [`read`], or it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path, TEXT_MAX)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("it is not UTF-8: {error}")))
}

/// The text in the regular file at `path`, a key: at most 4 KiB, and overwritten when it is dropped. No error has a part of it.
///
/// # Errors
/// As [`read_text`].
pub fn read_secret(path: &Path) -> io::Result<Zeroizing<String>> {
    let bytes = Zeroizing::new(read(path, SECRET_MAX)?);
    let text = std::str::from_utf8(&bytes);
    let text = text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "this is no text"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// The problem of the permissions of a file with a secret, if others than its owner can read or change it, with the advice.
///
/// # Errors
/// There is no such file, or it cannot be looked at.
pub fn open_to_others(path: &Path) -> io::Result<Option<String>> {
    let mode = std::fs::metadata(path)?.mode();
    let advice = || format!("others can read or change it (mode {:o}); run chmod 600 on it", mode & 0o777);
    Ok((mode & OTHERS != 0).then(advice))
}

/// The file may grow while it is read, so its length is not asked for.
fn read_at_most(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("it is larger than the {most} bytes that such a file may have");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// The word for a file of this type, as in "it is a …".
pub fn kind_of(kind: FileType) -> &'static str {
    match () {
        () if kind.is_file() => "regular file",
        () if kind.is_symlink() => "link",
        () if kind.is_dir() => "folder",
        () if kind.is_fifo() => "FIFO",
        () if kind.is_socket() => "socket",
        () if kind.is_char_device() => "character device",
        () if kind.is_block_device() => "block device",
        () => "file of an unknown kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_regular_files_of_a_proper_size_are_read() {
        let folder = std::env::temp_dir().join(format!("gimbal-files-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("temporary files can be written");
        let file = folder.join("file");
        fs::write(&file, "12345").expect("the folder is ours");
        assert_eq!(read(&file, 5).expect("it is as long"), b"12345");
        let error = read(&file, 4).expect_err("it is longer");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{error}");
        let link = folder.join("link");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        assert_eq!(read_text(&link).expect("a link to a file is one"), "12345");

        let fifo = folder.join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .expect("a FIFO");
        for (path, name) in
            [(&*fifo, "FIFO"), (Path::new("/dev/zero"), "character device"), (&*folder, "folder")]
        {
            let said = read_text(path).expect_err("it is no file").to_string();
            assert!(said.contains(name) && said.contains("only regular files"), "{said}");
        }
        fs::write(&file, [0xff]).expect("the folder is ours");
        assert!(read_text(&file).expect_err("no text").to_string().contains("UTF-8"));
        assert_eq!(read(&folder.join("none"), 1).expect_err("absent").kind(), io::ErrorKind::NotFound);
        fs::remove_dir_all(&folder).expect("ours");
    }
}

//! `gimbal key`: makes, shows, checks and rotates the keys with which hosts and controllers authenticate.
//!
//! Each key is in its own file, which only its owner can read. It is never an argument of a command, and never printed
//! unless the user names standard output as the file.
//!
//! Holds: a key that this command makes is a valid key for nvme-cli, files are made with mode 0600 and never replaced, and no message
//!        contains a key (`tests/key.rs`).
//! Elsewhere: the formats are in the crate `auth`.

use crate::{output, rotate};
use anyhow::{Context, Result, bail};
use auth::psk::{Derivation, Retained, Version};
use auth::{DhKey, Hash, Secret, TlsKey};
use clap::{Subcommand, ValueEnum};
use host::Nqn;
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use zeroize::Zeroizing;

/// The largest file that is read as a key, in bytes.
const FILE_MAX: u64 = 4096;
/// Permissions of a file that only its owner can read.
const OWNER_ONLY: u32 = 0o600;

/// Arguments of `gimbal key`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Make a key and write it to a new file, which its owner alone can read
    Gen {
        /// The use of the key
        #[arg(long, value_enum, default_value = "dhchap")]
        kind: Kind,
        /// Hash that transforms the key; `none`: it is used as it is
        #[arg(long, value_enum, default_value = "sha256")]
        hash: HashName,
        /// Length in bytes, with `--hash none`: 32, 48 or 64 (TLS: 32 or 48)
        #[arg(long, value_name = "BYTES")]
        length: Option<usize>,
        /// The new file; `-` is standard output
        file: PathBuf,
    },
    /// Show the kind, the hash and the fingerprint of keys; never the key
    Show {
        /// Files with one key each; `-` is standard input
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Print one JSON object per key
        #[arg(long)]
        json: bool,
        /// NQN of a host: show the identities by which it offers keys for TLS, too
        #[arg(long, value_name = "NQN", value_parser = nqn, requires = "subsystem")]
        host: Option<Nqn>,
        /// NQN of the subsystem that it connects to
        #[arg(long, value_name = "NQN", value_parser = nqn, requires = "host")]
        subsystem: Option<Nqn>,
    },
    /// Report every problem of keys and of the permissions of their files
    Check {
        /// Files with one key each; `-` is standard input
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Replace the key of a host of a running target: begin with --new, and end without
    Rotate(rotate::Args),
}

/// The use of a key.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// DH-HMAC-CHAP
    Dhchap,
    /// TLS
    Tls,
}

/// A hash, or none.
#[derive(Clone, Copy, ValueEnum)]
enum HashName {
    None,
    Sha256,
    Sha384,
    Sha512,
}

impl HashName {
    fn hash(self) -> Option<Hash> {
        match self {
            HashName::None => None,
            HashName::Sha256 => Some(Hash::Sha256),
            HashName::Sha384 => Some(Hash::Sha384),
            HashName::Sha512 => Some(Hash::Sha512),
        }
    }
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        KeyCommand::Gen { kind, hash, length, file } => generate(kind, hash.hash(), length, &file),
        KeyCommand::Show { files, json, host, subsystem } => each(&files, |file| {
            let key = Key::read(file)?;
            let identities = match host.as_ref().zip(subsystem.as_ref()) {
                Some((host, subsystem)) => {
                    key.identities(host, subsystem).with_context(|| file.display().to_string())?
                }
                None => Vec::new(),
            };
            if json {
                return output::line(key.object(file, &identities));
            }
            output::line(key.line(file))?;
            identities.iter().try_for_each(|identity| output::line(identity.line()))
        }),
        KeyCommand::Rotate(args) => rotate::run(&args),
        KeyCommand::Check { files } => each(&files, |file| {
            let key = Key::read(file)?;
            if let Some(warning) = open_to_others(file)? {
                bail!("{}: {warning}", file.display());
            }
            output::line(format_args!("{}: a valid key for {}", file.display(), key.purpose()))
        }),
    }
}

/// Does the same for each file, and reports every failure.
fn each(files: &[PathBuf], work: impl Fn(&Path) -> Result<()>) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for file in files {
        if let Err(error) = work(file) {
            output::note(format_args!("{error:#}"));
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

fn generate(kind: Kind, hash: Option<Hash>, length: Option<usize>, file: &Path) -> Result<ExitCode> {
    let length = match (hash, length) {
        (Some(hash), Some(length)) if length != hash.length() => {
            bail!("--length {length}: a key with {hash} has {} bytes; leave --length out", hash.length())
        }
        (Some(hash), _) => hash.length(),
        (None, length) => length.unwrap_or(Hash::Sha256.length()),
    };
    let lengths: &[usize] = if kind == Kind::Tls { &[32, 48] } else { &[32, 48, 64] };
    if kind == Kind::Tls && hash == Some(Hash::Sha512) {
        bail!("--hash sha512: keys for TLS have sha256 or sha384");
    }
    if !lengths.contains(&length) {
        bail!("--length {length}: write one of {lengths:?}");
    }
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).context("the system gives no random bytes")?;
    let secret = Secret::new(bytes);
    let text = match kind {
        Kind::Dhchap => DhKey::new(hash, secret)?.to_text(),
        Kind::Tls => TlsKey::new(hash, secret)?.to_text(),
    };
    let line = Zeroizing::new(format!("{}\n", &*text));
    if output::is_stdout(file) {
        output::print(&line)?;
        return Ok(ExitCode::SUCCESS);
    }
    let opened = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(file);
    let mut new = match opened {
        Ok(new) => new,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{}: there is something of this name, and a key is never replaced; choose another name",
            file.display()
        ),
        Err(error) => return Err(error).with_context(|| format!("{}: cannot be made", file.display())),
    };
    if let Err(error) = new.write_all(line.as_bytes()).and_then(|()| new.sync_all()) {
        // Report the error of the write, not that of the removal.
        let _ = std::fs::remove_file(file);
        return Err(error).with_context(|| format!("{}: cannot be written", file.display()));
    }
    output::note(Key::parse(&text).context("the key that was just made")?.line(file));
    Ok(ExitCode::SUCCESS)
}

/// A name from the command line.
pub(crate) fn nqn(text: &str) -> Result<Nqn> {
    Ok(Nqn::new(text)?)
}

/// A text by which a host offers a key for TLS.
struct Identity {
    version: Version,
    derivation: Derivation,
    text: String,
}

impl Identity {
    fn version(&self) -> u8 {
        match self.version {
            Version::Zero => 0,
            Version::One => 1,
        }
    }

    fn line(&self) -> String {
        let derived = match self.derivation {
            Derivation::Standard => "",
            Derivation::OldLibnvme => ", by libnvme before 1.16",
        };
        format!("  identity of version {}{derived}: {}", self.version(), self.text)
    }

    fn object(&self) -> serde_json::Value {
        json!({
            "identity": self.text,
            "version": self.version(),
            "derivation": match self.derivation {
                Derivation::Standard => "standard",
                Derivation::OldLibnvme => "libnvme before 1.16",
            },
        })
    }
}

/// A key of either kind.
pub(crate) enum Key {
    Dhchap(DhKey),
    Tls(TlsKey),
}

impl Key {
    /// The key in a file.
    pub(crate) fn read(file: &Path) -> Result<Key> {
        let bytes = Zeroizing::new(
            match output::is_stdout(file) {
                true => read_stdin(),
                false => files::read(file, FILE_MAX),
            }
            .with_context(|| format!("{}: cannot be read", file.display()))?,
        );
        let text = std::str::from_utf8(&bytes);
        let text = text.map_err(|_| anyhow::anyhow!("{}: this is no text", file.display()))?;
        Key::parse(text).with_context(|| file.display().to_string())
    }

    fn parse(text: &str) -> Result<Key> {
        match TlsKey::parse(text) {
            Ok(key) => Ok(Key::Tls(key)),
            Err(error) if text.trim_start().starts_with("NVMeTLSkey-1:") => Err(error.into()),
            Err(_) => Ok(Key::Dhchap(DhKey::parse(text)?)),
        }
    }

    /// Its use.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Key::Dhchap(_) => Kind::Dhchap,
            Key::Tls(_) => Kind::Tls,
        }
    }

    /// Its use, in words.
    pub(crate) fn purpose(&self) -> &'static str {
        match self.kind() {
            Kind::Dhchap => "DH-HMAC-CHAP",
            Kind::Tls => "TLS",
        }
    }

    fn parts(&self) -> (Option<Hash>, &Secret) {
        match self {
            Key::Dhchap(DhKey { hash, secret }) | Key::Tls(TlsKey { hash, secret }) => (*hash, secret),
        }
    }

    fn line(&self, file: &Path) -> String {
        let (hash, secret) = self.parts();
        let hash = hash.map_or("no hash", Hash::name);
        let (file, purpose, length) = (file.display(), self.purpose(), secret.expose().len());
        format!("{file}: {purpose}, {hash}, {length} bytes, fingerprint {}", secret.fingerprint())
    }

    /// The identities of the key, each once.
    fn identities(&self, host: &Nqn, subsystem: &Nqn) -> Result<Vec<Identity>> {
        let Key::Tls(key) = self else {
            bail!("only keys for TLS have identities: leave --host and --subsystem out");
        };
        let mut identities: Vec<Identity> = Vec::new();
        for derivation in Derivation::ALL {
            let retained = Retained::of(key, host.as_str(), subsystem.as_str(), derivation);
            for version in [Version::Zero, Version::One] {
                let text = retained.identity(version);
                if identities.iter().all(|identity| identity.text != text) {
                    identities.push(Identity { version, derivation, text });
                }
            }
        }
        Ok(identities)
    }

    fn object(&self, file: &Path, identities: &[Identity]) -> serde_json::Value {
        let (hash, secret) = self.parts();
        let mut object = json!({
            "file": file.display().to_string(),
            "kind": match self.kind() { Kind::Dhchap => "dhchap", Kind::Tls => "tls" },
            "hash": hash.map(Hash::name),
            "bytes": secret.expose().len(),
            "fingerprint": secret.fingerprint(),
        });
        if !identities.is_empty() {
            object["identities"] = identities.iter().map(Identity::object).collect();
        }
        object
    }
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Describes the problem of a key file that users other than its owner can read or change.
fn open_to_others(file: &Path) -> Result<Option<String>> {
    if output::is_stdout(file) {
        return Ok(None);
    }
    files::open_to_others(file).with_context(|| file.display().to_string())
}

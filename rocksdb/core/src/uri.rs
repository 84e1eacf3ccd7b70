//! `gimbal://VOLUME?store=STORE&…`: which volume, and how to use it.
//!
//! RocksDB takes a text with `=` apart itself in some places (`--env_uri`, the option `env`). There `:` can be written for it:
//! `gimbal://db?store:etcd://192.0.2.1:2379`. So a name ends at the first of both.

use blob::Settings;
use blob::steer::Policy;
use blob_client::{Options, identity, unique_name};
use blob_meta::EtcdFiles;
use host::{Backend, KeyFiles, Keys, Nqn, TransportType, host_id};
use std::fmt;
use std::path::PathBuf;
use units::{Bytes, Nanos, NotAQuantity};

/// What a URI begins with.
pub const SCHEME: &str = "gimbal://";
/// Names the store when the URI does not.
pub const STORE_VARIABLE: &str = "GIMBAL_STORE";
/// Longer than the lease of a client that was killed.
const LOCK_PATIENCE: Nanos = Nanos::secs(20);

/// When `Flush` returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushMode {
    /// When nothing that was appended is lost by `kill -9`.
    #[default]
    Wait,
    /// At once: like a buffer of the process. What no `Sync` or `Close` has covered may be lost by `kill -9`.
    Buffered,
}

/// A URI, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// Name of the volume.
    pub volume: String,
    /// The metadata store, as `gimbal volume --store` takes it.
    pub store: String,
    /// Files for the store if it is an etcd cluster.
    pub etcd: EtcdFiles,
    /// When `Flush` returns.
    pub flush: FlushMode,
    policy: Policy,
    host: Option<String>,
    /// Files with the key of this host, and of the targets.
    key: Option<PathBuf>,
    ctrl_key: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    transport: TransportType,
    backend: Backend,
    ttl: Option<Nanos>,
    lock_patience: Nanos,
    quarantine: Option<Nanos>,
    patience: Option<Nanos>,
    away: Option<Nanos>,
    io_timeout: Nanos,
    memory: Bytes,
    window: Option<Bytes>,
}

/// What is wrong with a URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UriError {
    /// It does not begin with the scheme, or names no volume.
    NoVolume,
    /// Neither the URI nor the variable names a store.
    NoStore,
    /// There is no option of this name.
    Unknown(String),
    /// The option stands without a value.
    NoValue(String),
    /// The option has a value that it cannot have.
    Value(String, String),
    /// The option stands twice.
    Twice(String),
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UriError::NoVolume => f.write_str("no volume: write gimbal://VOLUME?store=STORE"),
            UriError::NoStore => {
                write!(f, "no metadata store: write gimbal://VOLUME?store=STORE, or set {STORE_VARIABLE}")
            }
            UriError::Unknown(key) => write!(f, "there is no option '{key}'; there are {}", KEYS.join(", ")),
            UriError::NoValue(key) => write!(f, "option '{key}' has no value: write {key}=VALUE"),
            UriError::Value(key, why) => write!(f, "option '{key}': {why}"),
            UriError::Twice(key) => write!(f, "option '{key}' stands twice"),
        }
    }
}

impl std::error::Error for UriError {}

const KEYS: [&str; 21] = [
    "store",
    "etcd_password",
    "etcd_ca",
    "etcd_cert",
    "etcd_key",
    "flush",
    "policy",
    "transport",
    "host",
    "key",
    "ctrl_key",
    "tls_key",
    "backend",
    "ttl",
    "lock_patience",
    "quarantine",
    "patience",
    "away",
    "io_timeout",
    "memory",
    "window",
];

fn quantity<T>(key: &str, text: &str) -> Result<T, UriError>
where
    T: std::str::FromStr<Err = NotAQuantity>,
{
    text.parse().map_err(|error: NotAQuantity| UriError::Value(key.to_owned(), error.to_string()))
}

fn choice<T: Copy>(key: &str, text: &str, all: &[(&str, T)]) -> Result<T, UriError> {
    let found = all.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        UriError::Value(key.to_owned(), format!("'{text}' is none of {}", names.join(", ")))
    })
}

impl Uri {
    /// Takes a URI apart. `store`: what the variable says, if it is set.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, store: Option<String>) -> Result<Uri, UriError> {
        let rest = text.strip_prefix(SCHEME).ok_or(UriError::NoVolume)?;
        let (volume, options) = rest.split_once('?').unwrap_or((rest, ""));
        let volume = volume.trim_end_matches('/');
        if volume.is_empty() {
            return Err(UriError::NoVolume);
        }
        let mut uri = Uri {
            volume: volume.to_owned(),
            store: String::new(),
            etcd: EtcdFiles::default(),
            flush: FlushMode::default(),
            policy: Policy::default(),
            host: None,
            key: None,
            ctrl_key: None,
            tls_key: None,
            transport: TransportType::Tcp,
            backend: Backend::Auto,
            ttl: None,
            lock_patience: LOCK_PATIENCE,
            quarantine: None,
            patience: None,
            away: None,
            io_timeout: Nanos::secs(10),
            memory: Bytes::mib(256),
            window: None,
        };
        let mut seen = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let end = option.find(['=', ':']).unwrap_or(option.len());
            let (key, value) = (&option[..end], option.get(end + 1..).unwrap_or(""));
            if !KEYS.contains(&key) {
                return Err(UriError::Unknown(key.to_owned()));
            }
            if value.is_empty() {
                return Err(UriError::NoValue(key.to_owned()));
            }
            if seen.contains(&key) {
                return Err(UriError::Twice(key.to_owned()));
            }
            seen.push(key);
            uri.set(key, value)?;
        }
        if uri.store.is_empty() {
            uri.store = store.filter(|store| !store.is_empty()).ok_or(UriError::NoStore)?;
        }
        Ok(uri)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), UriError> {
        match key {
            "store" => value.clone_into(&mut self.store),
            "etcd_password" => self.etcd.password = Some(value.into()),
            "etcd_ca" => self.etcd.ca = Some(value.into()),
            "etcd_cert" => self.etcd.cert = Some(value.into()),
            "etcd_key" => self.etcd.key = Some(value.into()),
            "flush" => {
                let all = [("wait", FlushMode::Wait), ("buffered", FlushMode::Buffered)];
                self.flush = choice(key, value, &all)?;
            }
            "policy" => self.policy = choice(key, value, &Policy::ALL)?,
            "transport" => {
                let all = [("tcp", TransportType::Tcp), ("rdma", TransportType::Rdma)];
                self.transport = choice(key, value, &all)?;
            }
            "host" => {
                Nqn::new(value)
                    .map_err(|_| UriError::Value(key.to_owned(), format!("'{value}' is no NQN")))?;
                self.host = Some(value.to_owned());
            }
            "key" => self.key = Some(value.into()),
            "ctrl_key" => self.ctrl_key = Some(value.into()),
            "tls_key" => self.tls_key = Some(value.into()),
            "backend" => {
                let all =
                    [("auto", Backend::Auto), ("io_uring", Backend::IoUring), ("epoll", Backend::Epoll)];
                self.backend = choice(key, value, &all)?;
            }
            "ttl" => self.ttl = Some(quantity(key, value)?),
            "lock_patience" => self.lock_patience = quantity(key, value)?,
            "quarantine" => self.quarantine = Some(quantity(key, value)?),
            "patience" => self.patience = Some(quantity(key, value)?),
            "away" => self.away = Some(quantity(key, value)?),
            "io_timeout" => self.io_timeout = quantity(key, value)?,
            "memory" => self.memory = quantity(key, value)?,
            "window" => self.window = Some(quantity(key, value)?),
            _ => unreachable!("not in KEYS: {key}"),
        }
        Ok(())
    }

    /// How to mount the volume. Reads the keys.
    ///
    /// # Errors
    /// There is no key in a file, or one for the targets alone.
    pub fn options(&self) -> Result<Options, UriError> {
        let (host, host_id) = match &self.host {
            Some(text) => {
                let host = Nqn::new(text).expect("was checked");
                (host.clone(), host_id(&host))
            }
            None => identity(),
        };
        let mut settings = Settings::new(&self.volume, &unique_name());
        settings.policy = self.policy;
        settings.lock_patience = self.lock_patience;
        settings.ttl = self.ttl.unwrap_or(settings.ttl);
        settings.quarantine = self.quarantine.unwrap_or(settings.quarantine);
        settings.patience = self.patience.unwrap_or(settings.patience);
        settings.away_max = self.away.unwrap_or(settings.away_max);
        settings.window = self.window.unwrap_or(settings.window);
        let Uri { transport, backend, memory, io_timeout, .. } = *self;
        let keys = self.keys()?;
        Ok(Options { settings, host, host_id, transport, keys, backend, memory, io_timeout, spin: None })
    }

    fn keys(&self) -> Result<Keys, UriError> {
        let wrong = |key: &str, why: String| UriError::Value(key.to_owned(), why);
        if self.ctrl_key.is_some() && self.key.is_none() {
            return Err(wrong("ctrl_key", "needs the option 'key', too".to_owned()));
        }
        let (dhchap, dhchap_ctrl) = (self.key.clone(), self.ctrl_key.clone());
        let dhchap = KeyFiles { dhchap, dhchap_ctrl, ..KeyFiles::default() };
        let tls = KeyFiles { tls: self.tls_key.clone(), ..KeyFiles::default() };
        let read = |name: &str, files: KeyFiles| files.read().map_err(|error| wrong(name, error.to_string()));
        Ok(Keys { tls: read("tls_key", tls)?.tls, ..read("key", dhchap)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Uri, UriError> {
        Uri::parse(text, None)
    }

    #[test]
    fn a_uri_says_which_volume_and_where_its_store_is() {
        let uri = parse(
            "gimbal://db?store=etcd://192.0.2.1:2379,192.0.2.2:2379&ttl=5s&policy=latency&flush=buffered&transport=rdma",
        )
        .expect("a URI");
        assert_eq!(uri.volume, "db");
        assert_eq!(uri.store, "etcd://192.0.2.1:2379,192.0.2.2:2379");
        assert_eq!(uri.flush, FlushMode::Buffered);
        let options = uri.options().expect("there are no keys");
        assert_eq!(options.settings.ttl, Nanos::secs(5));
        assert_eq!(options.settings.policy, Policy::Latency);
        assert_eq!(options.transport, TransportType::Rdma);
        assert_eq!(options.settings.name, "db");
    }

    #[test]
    fn a_colon_stands_for_an_equals_sign() {
        let text = "gimbal://db?store=etcd://192.0.2.1:2379&ttl=5s&memory=64m";
        assert_eq!(parse(text), parse(&text.replace('=', ":")));
    }

    #[test]
    fn the_variable_names_the_store_when_the_uri_does_not() {
        let variable = Some("/var/lib/store".to_owned());
        assert_eq!(Uri::parse("gimbal://db", variable.clone()).expect("a URI").store, "/var/lib/store");
        assert_eq!(Uri::parse("gimbal://db?store=/other", variable).expect("a URI").store, "/other");
        assert_eq!(parse("gimbal://db"), Err(UriError::NoStore));
        assert_eq!(Uri::parse("gimbal://db", Some(String::new())), Err(UriError::NoStore));
    }

    #[test]
    fn files_for_etcd_are_named_beside_the_store() {
        let text = "gimbal://db?store=etcds://db@192.0.2.1:2379&etcd_password=/p&etcd_ca=/ca.pem&etcd_cert=/c.pem&etcd_key=/c.key";
        let uri = parse(text).expect("a URI");
        assert_eq!(uri.store, "etcds://db@192.0.2.1:2379");
        let EtcdFiles { password, ca, cert, key } = &uri.etcd;
        let named = [password, ca, cert, key].map(|file| file.clone().expect("it was given"));
        assert_eq!(named, ["/p", "/ca.pem", "/c.pem", "/c.key"].map(PathBuf::from));
        assert_eq!(parse(&text.replace('=', ":")), Ok(uri));
        assert_eq!(parse("gimbal://db?store=etcds://db@h:1").expect("a URI").etcd, EtcdFiles::default());
    }

    #[test]
    fn keys_are_read_from_their_files() {
        let folder = std::env::temp_dir();
        let file = folder.join(format!("gimbal-uri-{}.dhchap", std::process::id()));
        let text = "DHHC-1:00:6Uw9yvIEYTOzFPN6xxc5DpSl1eryS7YAwR9uyVHrH7p1JU4O:";
        std::fs::write(&file, text).expect("a file");
        let uri = |more: &str| parse(&format!("gimbal://db?store=/s{more}")).expect("a URI").options();
        let one = format!("&key={}", file.display());
        let keys = uri(&one).expect("a key").keys.dhchap.expect("it was given");
        assert_eq!((keys.host.to_text().as_str(), keys.controller.is_some()), (text, false));
        let both = format!("{one}&ctrl_key={}", file.display());
        assert!(uri(&both).expect("two keys").keys.dhchap.expect("they were given").controller.is_some());
        let no_own = uri(&format!("&ctrl_key={}", file.display())).expect_err("no key of its own");
        assert!(no_own.to_string().contains("option 'ctrl_key'"), "{no_own}");
        std::fs::write(&file, text.replace("6Uw9", "6Uw8")).expect("a file");
        let wrong = uri(&one).expect_err("its sum is wrong").to_string();
        assert!(wrong.contains("option 'key'") && !wrong.contains("6Uw"), "{wrong}");
        std::fs::remove_file(&file).expect("it is there");
    }

    #[test]
    fn a_mistake_is_named() {
        assert_eq!(parse("gimbal://?store=/s"), Err(UriError::NoVolume));
        assert_eq!(parse("file://db?store=/s"), Err(UriError::NoVolume));
        assert_eq!(parse("gimbal://db?shop=/s"), Err(UriError::Unknown("shop".to_owned())));
        assert_eq!(parse("gimbal://db?store="), Err(UriError::NoValue("store".to_owned())));
        assert_eq!(parse("gimbal://db?store=/s&ttl=1s&ttl=2s"), Err(UriError::Twice("ttl".to_owned())));
        for wrong in ["ttl=soon", "policy=luck", "flush=never", "memory=much", "backend=carrier-pigeon"] {
            let error = parse(&format!("gimbal://db?store=/s&{wrong}")).expect_err(wrong);
            let (key, value) = wrong.split_once('=').expect("an option");
            let text = error.to_string();
            assert!(text.contains(key) && text.contains(value), "{text}");
        }
    }
}

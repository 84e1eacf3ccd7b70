//! The C++ half of RocksDB's file system on gimbal's volumes, compiled against the RocksDB that a build finds.
//!
//! RocksDB's classes differ from version to version, so each program needs the half that was compiled with the headers of the RocksDB in it: the plug-in
//! with the system's, a program that links RocksDB statically with those of the crate that bundles it. Build scripts call this. The sources are in
//! `cpp`; what differs between versions is in `cpp/versions.h`, and nowhere else.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

/// The name of RocksDB's package for pkg-config.
const PACKAGE: &str = "rocksdb";
/// The oldest version that has what a volume needs.
const OLDEST: Version = Version { major: 7, minor: 8, patch: 0 };
/// The newest version that this was compiled and tested with.
const NEWEST_TESTED: Version = Version { major: 11, minor: 12, patch: 0 };
/// RocksDB's headers are C++20 since this version.
const CXX20: Version = Version { major: 10, minor: 0, patch: 0 };

/// A version of RocksDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The RocksDB to compile for.
#[derive(Debug)]
pub struct RocksDb {
    include: Vec<PathBuf>,
    is_bundled: bool,
}

impl RocksDb {
    /// The system's, by pkg-config, which also tells cargo to link it.
    ///
    /// # Panics
    /// No RocksDB is found: a build script has no better way to end.
    pub fn of_system() -> RocksDb {
        let found = pkg_config::Config::new().probe(PACKAGE).unwrap_or_else(|error| {
            panic!("RocksDB's headers and library are needed (Debian: librocksdb-dev, pkg-config): {error}")
        });
        RocksDb { include: found.include_paths, is_bundled: false }
    }

    /// That of the crate with `links = "rocksdb"` on which the caller depends.
    ///
    /// # Panics
    /// The crate does not say where its headers are.
    pub fn of_crate() -> RocksDb {
        let told = |name: &str| env::var_os(name).map(PathBuf::from);
        let bundled = || told("DEP_ROCKSDB_CARGO_MANIFEST_DIR").map(|folder| folder.join("rocksdb/include"));
        let include = told("DEP_ROCKSDB_INCLUDE").or_else(|| told("ROCKSDB_INCLUDE_DIR")).or_else(bundled);
        let include = include.expect(
            "the crate that brings RocksDB does not say where its headers are: set ROCKSDB_INCLUDE_DIR",
        );
        println!("cargo:rerun-if-env-changed=ROCKSDB_INCLUDE_DIR");
        RocksDb { include: vec![include], is_bundled: true }
    }

    fn build(&self) -> cc::Build {
        let mut build = cc::Build::new();
        build.cpp(true).includes(&self.include).include(public_header()).flag("-Wno-unused-parameter");
        // RocksDB may have been compiled without type information: classes that have it could not be linked with its own.
        build.flag_if_supported("-fno-rtti");
        build
    }

    /// The version, as the compiler finds it in the headers.
    fn version(&self) -> Version {
        let source = sources().join("version.cc");
        let expanded = self.build().std("c++17").file(source).expand();
        let text = String::from_utf8_lossy(&expanded);
        let words = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
        let mut parts = words.skip_while(|word| *word != "rocksdb_version").skip(1).map(str::parse);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) => Version { major, minor, patch },
            _ => panic!("rocksdb/version.h in {:?} does not give a version", self.include),
        }
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cpp")
}

/// The folder of the header for C and C++ programs.
fn public_header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../include")
}

/// Compiles the file system for this RocksDB, tells cargo to link it, and says for which version it is.
///
/// # Panics
/// RocksDB is too old, or the compiler fails.
pub fn compile(rocksdb: &RocksDb) {
    let version = rocksdb.version();
    assert!(version >= OLDEST, "RocksDB {version} is too old: {OLDEST} or newer is needed");
    println!("cargo:warning=the file system on volumes is built for RocksDB {version}");
    if (version.major, version.minor) > (NEWEST_TESTED.major, NEWEST_TESTED.minor) {
        println!("cargo:warning=it was tested up to RocksDB {NEWEST_TESTED}");
    }
    let folder = sources();
    let names = ["file_system.cc", "logger.cc", "readers.cc", "registration.cc", "writers.cc"];
    let mut build = rocksdb.build();
    build.std(if version < CXX20 { "c++17" } else { "c++20" }).files(names.map(|name| folder.join(name)));
    if !rocksdb.is_bundled {
        // Nobody calls the plug-in's registration: a linker that picks objects by need would drop it.
        build.link_lib_modifier("+whole-archive");
    }
    build.compile("gimbal_rocksdb_shim");
    println!("cargo:rerun-if-changed={}", folder.display());
    println!("cargo:rerun-if-changed={}", public_header().display());
}

//! Compiles the C++ half against the RocksDB that pkg-config finds.

fn main() {
    let rocksdb = pkg_config::Config::new().atleast_version("7.8").probe("rocksdb").unwrap_or_else(|error| {
        panic!("RocksDB's headers and library are needed (Debian: librocksdb-dev, pkg-config): {error}")
    });
    cxx_build::bridge("src/database.rs")
        .std("c++17")
        .includes(&rocksdb.include_paths)
        // The differences between RocksDB's versions.
        .include("../shim/cpp")
        .file("cpp/database.cc")
        .flag("-Wno-unused-parameter")
        .compile("gimbal_ycsb_database");
    println!("cargo:rerun-if-changed=cpp");
    println!("cargo:rerun-if-changed=../shim/cpp/versions.h");
    println!("cargo:rerun-if-changed=src/database.rs");
}

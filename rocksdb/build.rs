//! Compiles the C++ half against the RocksDB that pkg-config finds, and links all of it: nobody calls its registration, so a
//! linker that picks objects by need would drop it.

fn main() {
    let rocksdb = pkg_config::Config::new().atleast_version("7.8").probe("rocksdb").unwrap_or_else(|error| {
        panic!("RocksDB's headers and library are needed (Debian: librocksdb-dev, pkg-config): {error}")
    });
    let sources =
        ["cpp/file_system.cc", "cpp/logger.cc", "cpp/readers.cc", "cpp/registration.cc", "cpp/writers.cc"];
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .includes(&rocksdb.include_paths)
        .files(sources)
        .flag("-Wno-unused-parameter")
        .link_lib_modifier("+whole-archive")
        .compile("gimbal_rocksdb_shim");
    println!("cargo:rerun-if-changed=cpp");
}

//! Remembers which compiler builds this: counts of two compilers cannot be compared.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var("RUSTC").expect("cargo names the compiler");
    let output = Command::new(&rustc).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("{rustc} --version: {error}"));
    let version = String::from_utf8(output.stdout).expect("the version is text");
    let machine = env::var("TARGET").expect("cargo names the target");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().replace('\u{1f}', " ");
    let flags = if flags.is_empty() { String::new() } else { format!(", {flags}") };
    let profile = env::var("PROFILE").expect("cargo names the profile");
    println!("cargo::rustc-env=COUNTS_COMPILER={}, {machine}, {profile}{flags}", version.trim());
}

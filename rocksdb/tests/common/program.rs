//! Test programs in C++ (`tests/programs`), compiled against the RocksDB of this machine and linked with the plug-in.

use super::plugin;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

fn tool(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    output
}

fn compiler(name: &str) -> (Command, PathBuf) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let unique = format!("{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique);
    let folder = env!("CARGO_MANIFEST_DIR");
    let mut command = Command::new("c++");
    command.args(["-std=c++17", "-O1", "-Wall", "-Werror", "-pthread", "-o"]).arg(&program);
    command.arg(format!("-I{folder}/shim/cpp")).arg(format!("{folder}/tests/programs/{name}.cc"));
    (command, program)
}

fn rocksdb_flags() -> Vec<String> {
    let found = tool(Command::new("pkg-config").args(["--cflags", "--libs", "rocksdb"]));
    String::from_utf8_lossy(&found.stdout).split_whitespace().map(str::to_owned).collect()
}

/// A compiled program, removed at the end.
pub(crate) struct Program(PathBuf);

impl Program {
    /// A program that is linked with the plug-in.
    pub(crate) fn with_plugin(name: &str) -> Program {
        let (mut command, program) = compiler(name);
        // By its path, so that no other one is found; and though nothing in the program refers to it.
        tool(command.arg("-Wl,--no-as-needed").arg(plugin()).args(rocksdb_flags()));
        Program(program)
    }

    /// A program that knows RocksDB only, and shows its functions to libraries.
    pub(crate) fn plain(name: &str) -> Program {
        let (mut command, program) = compiler(name);
        tool(command.arg("-rdynamic").args(rocksdb_flags()));
        Program(program)
    }

    /// A program in C that has RocksDB and the volumes in it.
    pub(crate) fn linked(name: &str) -> Program {
        let folder = env!("CARGO_MANIFEST_DIR");
        let (_, program) = compiler(name);
        let object = program.with_extension("o");
        let include = format!("-I{folder}/include");
        let source = format!("{folder}/tests/programs/{name}.c");
        tool(
            Command::new("cc")
                .args(["-O1", "-Wall", "-Wextra", "-Werror", "-c", &include, &source, "-o"])
                .arg(&object),
        );
        let libraries = tool(Command::new("pkg-config").args(["--variable=libdir", "rocksdb"]));
        let rocksdb = format!("{}/librocksdb.a", String::from_utf8_lossy(&libraries.stdout).trim());
        let mut command = Command::new("c++");
        command.arg("-o").arg(&program).arg(&object).arg(plugin().with_extension("a")).arg(rocksdb);
        tool(command.args(["-lsnappy", "-lbz2", "-lz", "-llz4", "-lzstd", "-pthread", "-ldl", "-lm"]));
        std::fs::remove_file(object).expect("it was just made");
        Program(program)
    }

    /// A program for the RocksDB that a crate brings along, linked with a static library that has it and the volumes in it.
    pub(crate) fn bundled(name: &str, library: &Path, include: &Path) -> Program {
        let (mut command, program) = compiler(name);
        // As the crate compiles RocksDB. Nothing in the program refers to the registration, so the linker is told.
        command.args(["-std=c++20", "-fno-rtti", "-Wl,-u,gimbal_rocksdb_register", "-isystem"]).arg(include);
        tool(command.arg(library).args(["-ldl", "-lm"]));
        Program(program)
    }

    /// To run it.
    pub(crate) fn command(&self) -> Command {
        Command::new(&self.0)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

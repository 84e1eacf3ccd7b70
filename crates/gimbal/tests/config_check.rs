//! `gimbal config check` prints the same problems as the library, for every file that fuzzing has kept.

use server::config::Config;
use std::path::{Path, PathBuf};
use std::process::Command;

fn kept() -> Vec<PathBuf> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let folders = ["corpus/config", "regressions/config"].map(|folder| fuzz.join(folder));
    let read = |folder: &PathBuf| {
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
    };
    folders.iter().flat_map(read).map(|entry| entry.expect("a readable folder").path()).collect()
}

#[test]
fn the_command_and_the_library_agree_on_every_kept_file() {
    let files = kept();
    assert!(!files.is_empty());
    for file in files {
        let output = Command::new(env!("CARGO_BIN_EXE_gimbal")).args(["config", "check"]).arg(&file).output();
        let output = output.expect("the command runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match Config::load(&file) {
            Ok(_) => assert!(output.status.success(), "{}: {said}", file.display()),
            Err(error) => {
                assert_eq!(output.status.code(), Some(1), "{}", file.display());
                assert_eq!(said.trim_end_matches('\n'), error.to_string(), "{}", file.display());
            }
        }
    }
}

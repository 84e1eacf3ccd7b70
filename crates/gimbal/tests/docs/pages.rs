//! The pages: README.md, and all of docs/ with its folders.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

pub(crate) fn pages() -> Vec<PathBuf> {
    let mut pages = files(Path::new(&format!("{ROOT}/docs")), &["md"]);
    pages.push(format!("{ROOT}/README.md").into());
    pages
}

/// The files below a folder that have one of these extensions.
pub(crate) fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is in the tree") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            found.extend(files(&path, extensions));
        } else if path.extension().is_some_and(|of| extensions.iter().any(|extension| of == *extension)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

pub(crate) fn text(page: &Path) -> String {
    fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// The lines outside of fenced blocks.
pub(crate) fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_block = false;
    page.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_block ^= is_fence;
        !is_block && !is_fence
    })
}

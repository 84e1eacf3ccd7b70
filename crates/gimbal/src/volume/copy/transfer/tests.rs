//! Copies from one place in memory to another.

use super::super::memory::Memory;
use super::super::place::is_part;
use super::*;

const TREE: [(&str, &[u8]); 6] = [
    ("db/000007.sst", b"a table of some bytes"),
    ("db/CURRENT", b"MANIFEST-000005\n"),
    ("db/LOCK", b""),
    ("db/MANIFEST-000005", b"12345678"),
    ("other/f", b"x"),
    ("CURRENT", b"0123"),
];

fn copy(from: &Memory, to: &Memory, replace: bool) -> Result<Summary> {
    let watch = Watch::silent();
    Transfer { from, to, replace, is_own: false, watch: &watch }.run()
}

fn assert_same(from: &Memory, to: &Memory) {
    assert_eq!(*from.files.borrow(), *to.files.borrow());
    assert_eq!(*from.dirs.borrow(), *to.dirs.borrow());
}

/// Whether the destination has a `CURRENT` while one of the other files is not there as in the source.
fn has_half_a_database(from: &Memory, to: &Memory) -> bool {
    let (from, to) = (from.files.borrow(), to.files.borrow());
    let lacks = from.iter().any(|(path, bytes)| !is_current(path) && to.get(path) != Some(bytes));
    lacks && to.keys().any(|path| is_current(path))
}

#[test]
fn a_copy_interrupted_anywhere_and_continued_is_whole() {
    let from = Memory::with(&TREE);
    let mut steps = 0;
    loop {
        let to = Memory::default();
        to.fuel.set(Some(steps));
        let first = copy(&from, &to, false);
        assert!(!has_half_a_database(&from, &to), "{steps}");
        to.fuel.set(None);
        let parts: usize =
            to.files.borrow().iter().filter(|(path, _)| is_part(path)).map(|(_, bytes)| bytes.len()).sum();
        let second = copy(&from, &to, false).expect("nothing is in its way");
        assert_same(&from, &to);
        assert_eq!(second.continued_bytes, parts as u64, "{steps}");
        assert_eq!(second.copied_files + second.skipped_files, TREE.len() as u64);
        if first.is_ok() {
            assert_eq!((second.copied_files, second.extra.len()), (0, 0));
            break;
        }
        steps += 1;
    }
    assert!(steps > 30, "{steps} steps");
}

#[test]
fn a_replacement_interrupted_anywhere_never_leaves_a_mixed_database() {
    let old = [("db/CURRENT", b"old".as_slice()), ("db/000007.sst", b"an old table"), ("other/f", b"x")];
    let from = Memory::with(&TREE);
    let mut steps = 0;
    loop {
        let to = Memory::with(&old);
        to.fuel.set(Some(steps));
        let first = copy(&from, &to, true);
        let is_as_before =
            to.files.borrow().get("db/000007.sst").is_some_and(|bytes| bytes == b"an old table");
        assert!(is_as_before || !has_half_a_database(&from, &to), "{steps}");
        to.fuel.set(None);
        copy(&from, &to, true).expect("nothing is in its way");
        assert_same(&from, &to);
        if first.is_ok() {
            break;
        }
        steps += 1;
    }
}

#[test]
fn a_destination_that_differs_is_refused_as_it_is() {
    for (path, bytes) in
        [("db/CURRENT", b"MANIFEST-000009\n".as_slice()), ("other/f", b"longer"), ("db", b"")]
    {
        let from = Memory::with(&TREE);
        let to = Memory::default();
        to.files.borrow_mut().insert(path.to_owned(), bytes.to_vec());
        let before = to.files.borrow().clone();
        let said = copy(&from, &to, false).expect_err("it differs").to_string();
        assert!(said.contains(&to.name(path)), "{said}");
        assert_eq!(*to.files.borrow(), before);
        assert!(to.dirs.borrow().is_empty());
    }
}

#[test]
fn a_part_that_differs_is_begun_again() {
    let from = Memory::with(&TREE);
    for part in [b"a table OF".as_slice(), b"a table of some bytes, and more than there are", b""] {
        let to = Memory::with(&[("db/000007.sst.gimbal-part", part)]);
        let summary = copy(&from, &to, false).expect("nothing is in its way");
        assert_same(&from, &to);
        assert_eq!(summary.continued_bytes, 0);
    }
}

#[test]
fn bytes_that_the_destination_damages_are_found() {
    let (from, to) = (Memory::with(&TREE), Memory::default());
    to.is_bad.set(true);
    let said = copy(&from, &to, false).expect_err("it is damaged").to_string();
    assert!(said.contains("damages data"), "{said}");
    assert!(to.files.borrow().is_empty(), "what is damaged is removed");
}

#[test]
fn a_source_that_changes_is_found_before_its_current_is_copied() {
    let (from, to) = (Memory::with(&TREE), Memory::default());
    *from.appears.borrow_mut() = Some("db/000008.log".to_owned());
    let said = copy(&from, &to, false).expect_err("it changed").to_string();
    assert!(said.contains("close it"), "{said}");
    assert!(!to.files.borrow().keys().any(|path| is_current(path)));
}

#[test]
fn a_place_with_files_of_others_is_no_place_for_an_export() {
    let (from, to) = (Memory::with(&TREE), Memory::with(&[("notes.txt", b"mine")]));
    let watch = Watch::silent();
    let export = Transfer { from: &from, to: &to, replace: true, is_own: true, watch: &watch };
    let said = export.run().expect_err("nothing there is from an export").to_string();
    assert!(said.contains("new or empty"), "{said}");
    // Beside files of an earlier copy they are reported.
    let (name, bytes) = TREE[4];
    to.dirs.borrow_mut().insert("other".to_owned());
    to.files.borrow_mut().insert(name.to_owned(), bytes.to_vec());
    assert_eq!(export.run().expect("it goes on").extra, ["notes.txt"]);
}

#[test]
fn logs_of_another_state_are_not_replayed_into_a_database() {
    let from = Memory::with(&TREE);
    let mut old = TREE.to_vec();
    old[1] = ("db/CURRENT", b"MANIFEST-000002\n");
    old.extend([
        ("db/000099.log", b"newer".as_slice()),
        ("db/000098.log.gimbal-aside", b""),
        ("db/000098.log", b"y"),
    ]);
    // One beside no database of the source, and one in a database that is equal.
    old.extend([("other/000099.log", b"z".as_slice()), ("000099.log", b"z")]);
    let to = Memory::with(&old);
    let summary = copy(&from, &to, true).expect("nothing is in its way");
    assert_eq!(summary.set_aside, ["db/000098.log.gimbal-aside+", "db/000099.log.gimbal-aside"]);
    assert_eq!(summary.extra, ["000099.log", "db/000098.log.gimbal-aside", "other/000099.log"]);
    assert_eq!(to.files.borrow()["db/000099.log.gimbal-aside"], b"newer");
}

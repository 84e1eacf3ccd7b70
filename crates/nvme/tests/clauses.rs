//! Checks the tables of clauses: the requirements of the specifications, and the tests that show that we meet
//! them.
//!
//! `docs/clauses/*.toml` has the clauses, `docs/clauses.md` explains them. A clause names its tests, or says
//! why there are none.
//!
//! Holds: if a named test is renamed, moved or deleted, a test here fails. The totals on the page are those
//!        of the tables.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// One table: the clauses of a specification.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// The specification, and the revisions that were read.
    spec: String,
    /// Short names of files with tests.
    files: BTreeMap<String, PathBuf>,
    section: Vec<Section>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    title: String,
    /// Only if it is certain. Titles hardly ever change between revisions, numbers do.
    number: Option<String>,
    clause: Vec<Clause>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Side {
    Host,
    Controller,
    Both,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum Level {
    #[serde(rename = "shall")]
    Shall,
    #[serde(rename = "shall not")]
    ShallNot,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Clause {
    id: String,
    side: Side,
    level: Level,
    /// The requirement in our words.
    says: String,
    /// `file::test`, the file by its short name.
    #[serde(default)]
    tests: Vec<String>,
    /// Why the code cannot violate it, so no test is needed.
    by_construction: Option<String>,
    /// Our different behaviour, with the reason.
    not_kept: Option<String>,
    /// Why it does not apply to us.
    not_claimed: Option<String>,
}

/// Number of clauses per kind of answer.
#[derive(Clone, Copy, Default)]
struct Count {
    tested: usize,
    by_construction: usize,
    not_kept: usize,
    not_claimed: usize,
}

impl Count {
    fn all(self) -> usize {
        self.tested + self.by_construction + self.not_kept + self.not_claimed
    }

    fn row(self, name: &str) -> String {
        let Count { tested, by_construction, not_kept, not_claimed } = self;
        format!("| {name} | {} | {tested} | {by_construction} | {not_kept} | {not_claimed} |", self.all())
    }

    fn of(table: &Table) -> Count {
        let mut count = Count::default();
        for clause in table.clauses() {
            count.tested += usize::from(!clause.tests.is_empty());
            count.by_construction += usize::from(clause.by_construction.is_some());
            count.not_kept += usize::from(clause.not_kept.is_some());
            count.not_claimed += usize::from(clause.not_claimed.is_some());
        }
        count
    }

    fn plus(self, other: Count) -> Count {
        Count {
            tested: self.tested + other.tested,
            by_construction: self.by_construction + other.by_construction,
            not_kept: self.not_kept + other.not_kept,
            not_claimed: self.not_claimed + other.not_claimed,
        }
    }
}

impl Table {
    fn clauses(&self) -> impl Iterator<Item = &Clause> {
        self.section.iter().flat_map(|section| &section.clause)
    }
}

/// Root folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is in crates/").to_path_buf()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All tables, by file name.
fn tables() -> BTreeMap<String, Table> {
    let folder = root().join("docs/clauses");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let table = |path: PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8").to_owned();
        let table = toml::from_str(&read(&path)).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, table)
    };
    entries.map(|entry| table(entry.expect("a readable folder").path())).collect()
}

/// The functions of `source` that are marked as tests. Works on lines, as `rustfmt` formats them, because the
/// contents of macros cannot be parsed.
fn tests_of(source: &str) -> BTreeSet<&str> {
    let mut is_marked = false;
    let mut names = BTreeSet::new();
    for line in source.lines().map(str::trim_start) {
        if line == "#[test]" {
            is_marked = true;
        } else if let Some(function) = line.strip_prefix("fn ").filter(|_| is_marked) {
            names.extend(function.split('(').next());
            is_marked = false;
        } else if !(line.starts_with("#[") || line.starts_with("//")) {
            is_marked = false;
        }
    }
    names
}

/// Whether the file is part of a crate: a test of its own, or a module of a file next to it.
fn is_compiled(path: &Path) -> bool {
    let (Some(folder), Some(stem)) = (path.parent(), path.file_stem().and_then(|stem| stem.to_str())) else {
        return false;
    };
    let is_a_test =
        folder.ends_with("tests") && folder.parent().is_some_and(|up| up.join("Cargo.toml").exists());
    let mentions = |file: PathBuf| {
        let statement = format!("mod {stem};");
        fs::read_to_string(file)
            .is_ok_and(|text| text.lines().any(|line| line.trim_start().ends_with(&statement)))
    };
    is_a_test
        || ["main", "lib"].contains(&stem)
        || ["mod.rs", "main.rs", "lib.rs"].into_iter().any(|name| mentions(folder.join(name)))
        || mentions(folder.with_extension("rs"))
}

/// Paths in the repository that a text mentions.
fn paths_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|byte: char| byte.is_whitespace() || "`():,;".contains(byte));
    words.filter(|word| word.starts_with("crates/")).map(|word| word.trim_end_matches('.'))
}

#[test]
fn every_clause_is_tested_or_explained_and_has_a_unique_id() {
    let (mut ids, mut wrong) = (BTreeSet::new(), Vec::new());
    for (file, table) in &tables() {
        assert!(!table.spec.is_empty());
        for section in &table.section {
            assert!(
                !section.title.is_empty() && section.number.as_deref() != Some(""),
                "{file}: a section has no title or an empty number"
            );
        }
        for clause in table.clauses() {
            let Clause { id, side, level, says, .. } = clause;
            let reasons = [&clause.by_construction, &clause.not_kept, &clause.not_claimed];
            let given: Vec<&String> = reasons.into_iter().flatten().collect();
            if given.len() + usize::from(!clause.tests.is_empty()) != 1 {
                wrong.push(format!("{file}: {id} needs tests, or one reason why there are none"));
            }
            if given.iter().any(|reason| reason.len() < 20) || says.len() < 15 {
                wrong.push(format!("{file}: {id} ({side:?}, {level:?}) says too little"));
            }
            if clause.by_construction.as_ref().is_some_and(|reason| paths_in(reason).next().is_none()) {
                wrong.push(format!("{file}: {id} does not say which file keeps it"));
            }
            for path in given.into_iter().flat_map(|reason| paths_in(reason)) {
                if !root().join(path).exists() {
                    wrong.push(format!("{file}: {id} names {path}, which does not exist"));
                }
            }
            if !ids.insert(id.clone()) {
                wrong.push(format!("{file}: {id} exists twice"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_test_that_a_clause_names_is_in_the_tree() {
    let (mut wrong, mut sources) = (Vec::new(), BTreeMap::new());
    for (file, table) in &tables() {
        let mut used = BTreeSet::new();
        for path in table.files.values() {
            let whole = root().join(path);
            if !is_compiled(&whole) {
                wrong.push(format!("{file}: {} is not part of a crate", path.display()));
            }
            sources.entry(path.clone()).or_insert_with(|| fs::read_to_string(whole).unwrap_or_default());
        }
        for clause in table.clauses() {
            let mut named = BTreeSet::new();
            for test in &clause.tests {
                let found = test.split_once("::").and_then(|(short, name)| {
                    used.insert(short);
                    Some((sources.get(table.files.get(short)?)?, name))
                });
                if !found.is_some_and(|(source, name)| tests_of(source).contains(name)) {
                    wrong.push(format!("{file}: {} names {test}, which is not a test", clause.id));
                }
                if !named.insert(test) {
                    wrong.push(format!("{file}: {} names {test} twice", clause.id));
                }
            }
        }
        let idle = table.files.keys().filter(|short| !used.contains(short.as_str()));
        wrong.extend(idle.map(|short| format!("{file}: {short} is named in no clause")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_page_has_the_totals_of_the_tables() {
    let counts = tables().into_iter().map(|(name, table)| (name, Count::of(&table)));
    let counts: Vec<(String, Count)> = counts.collect();
    let total = counts.iter().fold(Count::default(), |sum, (_, count)| sum.plus(*count));
    let rows = counts.iter().map(|(name, count)| count.row(&format!("`{name}`")));
    let rows: Vec<String> = rows.chain([total.row("all")]).collect();
    let expected = rows.join("\n");
    println!("| table | clauses | shown by tests | by construction | not kept | not claimed |\n{expected}");
    let page = read(&root().join("docs/clauses.md"));
    assert!(page.contains(&expected), "the table in docs/clauses.md should be:\n{expected}");
}

#[test]
fn a_renamed_test_is_noticed() {
    let source = "
        #[test]
        fn plain() {}

        /// Not a test.
        fn helper() {}

        #[test]
        #[ignore = \"long\"]
        // Why.
        fn ignored() {}

        #[test]
        fn random(
            length in 0..4,
        ) {}
    ";
    assert!(tests_of(source).into_iter().eq(["ignored", "plain", "random"]));
    assert!(is_compiled(&root().join("crates/nvme/tests/transport/ends.rs")));
    assert!(!is_compiled(&root().join("crates/nvme/tests/transport/gone.rs")));
    assert!(
        paths_in("`crates/nvme/src/tcp/pdu/ic.rs`: one struct, crates/units.")
            .eq(["crates/nvme/src/tcp/pdu/ic.rs", "crates/units"])
    );
}

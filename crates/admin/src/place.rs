//! The parts of a configuration that can be read and written by themselves, and where they stand in the file.

/// A list of the file, as [[table]]: the name of the table in the file, and the field that names its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    /// The table in the file.
    pub(crate) table: &'static str,
    /// The field that is the name of an entry.
    pub(crate) key: &'static str,
    /// The word in a path.
    pub(crate) path: &'static str,
}

pub(crate) const NAMESPACES: List = List { table: "namespace", key: "nsid", path: "namespaces" };

/// The lists at the top of a file.
pub(crate) const LISTS: [List; 5] = [
    List { table: "device", key: "name", path: "devices" },
    List { table: "subsystem", key: "nqn", path: "subsystems" },
    List { table: "host", key: "nqn", path: "hosts" },
    List { table: "tenant", key: "host", path: "tenants" },
    List { table: "group", key: "name", path: "groups" },
];

/// The fields at the top of a file that are parts by themselves.
pub(crate) const SECTIONS: [&str; 5] = ["limits", "log", "listen", "security", "rack"];

/// A part of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The whole.
    Whole,
    /// A field or table at the top.
    Section(&'static str),
    /// All entries of a list at the top, or of the namespaces of a subsystem.
    All(Entry),
    /// One entry.
    One(Entry, String),
}

/// A list, and what it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub(crate) list: List,
    /// The entry of the list of subsystems that has this list.
    pub(crate) of: Option<String>,
}

impl Place {
    /// The place of these words of a path after `/v1/`.
    pub fn of(words: &[&str]) -> Option<Place> {
        let list = |word: &str| LISTS.into_iter().find(|list| list.path == word);
        match *words {
            ["config"] => Some(Place::Whole),
            [word] if let Some(section) = SECTIONS.into_iter().find(|section| *section == word) => {
                Some(Place::Section(section))
            }
            [word] => Some(Place::All(Entry { list: list(word)?, of: None })),
            [word, name] => Some(Place::One(Entry { list: list(word)?, of: None }, name.to_owned())),
            ["subsystems", nqn, "namespaces"] => Some(Place::All(Entry::namespaces(nqn))),
            ["subsystems", nqn, "namespaces", nsid] => {
                Some(Place::One(Entry::namespaces(nqn), nsid.to_owned()))
            }
            _ => None,
        }
    }
}

impl Entry {
    fn namespaces(nqn: &str) -> Entry {
        Entry { list: NAMESPACES, of: Some(nqn.to_owned()) }
    }
}

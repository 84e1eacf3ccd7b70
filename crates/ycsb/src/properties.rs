//! Properties as YCSB reads them: Java property files, and `key=value`.

use std::collections::BTreeMap;
use std::io::Read;
use std::str::FromStr;
use thiserror::Error;

/// A problem of properties.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PropertyError {
    /// The text is not a property file.
    #[error("no property file: {0}")]
    Syntax(String),
    /// There is no `=`.
    #[error("'{0}' is no property: write KEY=VALUE")]
    NoAssignment(String),
    /// The property cannot have this value.
    #[error("property {key} = '{value}': {why}")]
    Value {
        /// The property.
        key: String,
        /// Its value.
        value: String,
        /// The reason.
        why: String,
    },
    /// Values that contradict each other.
    #[error("{0}")]
    Together(String),
    /// There is no such core workload.
    #[error("there is no core workload '{0}': there are A, B, C, D, E and F, and property files")]
    NoWorkload(char),
}

/// Properties by name. Later ones replace earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

/// The properties in which each core workload differs from the defaults.
const CORE: [(char, &[(&str, &str)]); 6] = [
    ('a', &[("readproportion", "0.5"), ("updateproportion", "0.5"), ("requestdistribution", "zipfian")]),
    ('b', &[("readproportion", "0.95"), ("updateproportion", "0.05"), ("requestdistribution", "zipfian")]),
    ('c', &[("readproportion", "1"), ("updateproportion", "0"), ("requestdistribution", "zipfian")]),
    (
        'd',
        &[
            ("readproportion", "0.95"),
            ("updateproportion", "0"),
            ("insertproportion", "0.05"),
            ("requestdistribution", "latest"),
        ],
    ),
    (
        'e',
        &[
            ("readproportion", "0"),
            ("updateproportion", "0"),
            ("scanproportion", "0.95"),
            ("insertproportion", "0.05"),
            ("requestdistribution", "zipfian"),
            ("maxscanlength", "100"),
        ],
    ),
    (
        'f',
        &[
            ("readproportion", "0.5"),
            ("updateproportion", "0"),
            ("readmodifywriteproportion", "0.5"),
            ("requestdistribution", "zipfian"),
        ],
    ),
];

impl Properties {
    /// The properties of a core workload, A to F, with a thousand records and operations.
    ///
    /// # Errors
    /// If there is no such workload.
    pub fn core(name: char) -> Result<Properties, PropertyError> {
        let found = CORE.iter().find(|(core, _)| *core == name.to_ascii_lowercase());
        let (_, special) = found.ok_or(PropertyError::NoWorkload(name))?;
        let counts = [("recordcount", "1000"), ("operationcount", "1000")];
        let all = counts.iter().chain(special.iter());
        Ok(Properties(all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()))
    }

    /// Adds the properties of a file.
    ///
    /// # Errors
    /// If it is not a property file, or cannot be read.
    pub fn add(&mut self, file: impl Read) -> Result<(), PropertyError> {
        let read = java_properties::read(file).map_err(|error| PropertyError::Syntax(error.to_string()))?;
        self.0.extend(read);
        Ok(())
    }

    /// Adds `key=value`.
    ///
    /// # Errors
    /// If it is not of that form.
    pub fn set(&mut self, assignment: &str) -> Result<(), PropertyError> {
        let (key, value) = assignment
            .split_once('=')
            .map(|(key, value)| (key.trim(), value.trim()))
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| PropertyError::NoAssignment(assignment.to_owned()))?;
        self.put(key, value);
        Ok(())
    }

    /// Adds a property.
    pub fn put(&mut self, key: &str, value: impl ToString) {
        self.0.insert(key.to_owned(), value.to_string());
    }

    /// The text of a property.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The names of all properties.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The value of a property.
    ///
    /// # Errors
    /// If it is not of this type.
    pub fn get<T: FromStr>(&self, key: &str, what: &str) -> Result<Option<T>, PropertyError> {
        let Some(value) = self.text(key) else { return Ok(None) };
        let parsed = value.trim().parse().map_err(|_| self.wrong(key, &format!("this must be {what}")));
        parsed.map(Some)
    }

    /// A property that is true or false.
    ///
    /// # Errors
    /// If it is neither.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, PropertyError> {
        match self.text(key).map(|text| text.trim().to_ascii_lowercase()).as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(self.wrong(key, "this must be true or false")),
        }
    }

    /// A property with one of several words as its value.
    ///
    /// # Errors
    /// If it is none of them.
    pub fn choice<T: Clone>(&self, key: &str, default: &str, all: &[(&str, T)]) -> Result<T, PropertyError> {
        let text = self.text(key).unwrap_or(default).trim();
        let found = all.iter().find(|(word, _)| *word == text).map(|(_, value)| value.clone());
        found.ok_or_else(|| {
            let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
            self.wrong(key, &format!("this must be one of {}", words.join(", ")))
        })
    }

    /// An error about a property.
    pub(crate) fn wrong(&self, key: &str, why: &str) -> PropertyError {
        let value = self.text(key).unwrap_or_default().to_owned();
        PropertyError::Value { key: key.to_owned(), value, why: why.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_file_is_read_as_java_does() {
        let mut properties = Properties::core('a').expect("a core workload");
        let file = "# a comment\nrecordcount = 5000\n! another\nfieldlength:200\ntable=user\\\n  table\n";
        properties.add(file.as_bytes()).expect("a property file");
        assert_eq!(properties.get("recordcount", "a number"), Ok(Some(5000u64)));
        assert_eq!(properties.get("fieldlength", "a number"), Ok(Some(200u64)));
        assert_eq!(properties.text("table"), Some("usertable"));
        assert_eq!(properties.text("requestdistribution"), Some("zipfian"));
        properties.set("recordcount = 7").expect("a property");
        assert_eq!(properties.text("recordcount"), Some("7"));
    }

    #[test]
    fn a_mistake_is_named() {
        let mut properties = Properties::default();
        assert_eq!(properties.set("recordcount"), Err(PropertyError::NoAssignment("recordcount".to_owned())));
        properties.set("recordcount=many").expect("a property");
        let error = properties.get::<u64>("recordcount", "a number").expect_err("no number");
        assert_eq!(error.to_string(), "property recordcount = 'many': this must be a number");
        properties.set("readallfields=perhaps").expect("a property");
        assert!(properties.flag("readallfields", true).is_err());
        assert_eq!(Properties::core('g'), Err(PropertyError::NoWorkload('g')));
        assert!(matches!(Properties::default().add(&b"a=\\u12"[..]), Err(PropertyError::Syntax(_))));
    }
}

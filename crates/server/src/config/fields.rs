//! One table of the file while it is read: typed answers, collected problems, remembered lines.
//!
//! `Fields::take` returns a value and marks its name as known. A name that is left at the end is unknown,
//! most often misspelt. A value that cannot be read is a problem and counts as absent, so that reading goes on.

use super::bounds::COUNT_MAX;
use super::problem::{ConfigError, Problem};
use sched::Cost;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use units::{ByteRate, Bytes, Nanos, thousandths};

/// The largest whole number that is a cost.
const COST_MAX: u64 = 65_535;

/// Problems and lines that were found so far.
pub(super) struct Findings {
    pub(super) problems: Vec<Problem>,
    pub(super) lines: Lines,
}

/// The line of each field in a file.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Offset of the first byte of every line.
    starts: Vec<usize>,
    fields: HashMap<String, usize>,
}

impl Lines {
    fn new(text: &str) -> Lines {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { starts, fields: HashMap::new() }
    }

    fn at(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }

    /// Adds the file, and the lines in it, to problems that were found with its contents later.
    pub fn locate(&self, file: &Path, error: ConfigError) -> ConfigError {
        match error {
            ConfigError::Wrong { file: None, mut problems } => {
                problems.iter_mut().for_each(|problem| problem.line = self.of(&problem.field));
                ConfigError::Wrong { file: Some(file.to_owned()), problems }
            }
            error => error,
        }
    }

    /// The line of a field, or of the table it is missing from.
    pub(crate) fn of(&self, field: &str) -> Option<usize> {
        let mut field = field;
        loop {
            if let Some(&line) = self.fields.get(field) {
                return Some(line);
            }
            field = &field[..field.rfind(['.', '['])?];
        }
    }
}

impl Findings {
    pub(super) fn new(text: &str) -> Findings {
        Findings { problems: Vec::new(), lines: Lines::new(text) }
    }

    pub(super) fn report(&mut self, span: Option<Range<usize>>, problem: Problem) {
        let line = span.map(|span| self.lines.at(span.start));
        self.problems.push(Problem { line, ..problem });
    }
}

/// A table, with the names of fields that were read.
pub(super) struct Fields<'t, 'i> {
    path: String,
    table: &'t DeTable<'i>,
    known: Vec<&'static str>,
}

impl<'t, 'i> Fields<'t, 'i> {
    pub(super) fn new(path: String, table: &'t DeTable<'i>, findings: &mut Findings) -> Fields<'t, 'i> {
        for (key, _) in table {
            let line = findings.lines.at(key.span().start);
            findings.lines.fields.insert(join(&path, key.get_ref()), line);
        }
        Fields { path, table, known: Vec::new() }
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// The value called `name`, whatever it is.
    fn value(&mut self, name: &'static str) -> Option<&'t Spanned<DeValue<'i>>> {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        self.table.iter().find_map(|(key, value)| (key.get_ref() == name).then_some(value))
    }

    /// The value called `name` as `read` understands it; otherwise reports a problem with the `expected` form.
    pub(super) fn take<T>(
        &mut self,
        findings: &mut Findings,
        name: &'static str,
        expected: &str,
        read: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(name)?;
        let read = read(value.get_ref());
        if read.is_none() {
            self.reject(findings, name, expected);
        }
        read
    }

    /// Reports a value called `name` that differs from the `expected` form.
    pub(super) fn reject(&mut self, findings: &mut Findings, name: &'static str, expected: &str) {
        let Some(value) = self.value(name) else { return };
        let what = format!("{} is not {expected}", shown(value.get_ref()));
        let advice = format!("write {expected}");
        findings.report(Some(value.span()), Problem::new(self.path_of(name), what, advice));
    }

    /// The items of the list called `name`, with their paths.
    pub(super) fn items(
        &mut self,
        findings: &mut Findings,
        name: &'static str,
        expected: &str,
    ) -> Option<Vec<(String, &'t Spanned<DeValue<'i>>)>> {
        let Some(items) = self.value(name)?.get_ref().as_array() else {
            self.reject(findings, name, expected);
            return None;
        };
        let path = self.path_of(name);
        Some(items.iter().enumerate().map(|(index, item)| (format!("{path}[{index}]"), item)).collect())
    }

    pub(super) fn text(&mut self, findings: &mut Findings, name: &'static str) -> Option<String> {
        self.take(findings, name, "a text in quotes", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn truth(&mut self, findings: &mut Findings, name: &'static str) -> Option<bool> {
        self.take(findings, name, "true or false", |value| value.as_bool())
    }

    pub(super) fn number<T: TryFrom<u64>>(
        &mut self,
        findings: &mut Findings,
        name: &'static str,
    ) -> Option<T> {
        self.fitting_number(findings, name, |number| T::try_from(number).ok())
    }

    /// A whole number that `fit` accepts.
    pub(super) fn fitting_number<T>(
        &mut self,
        findings: &mut Findings,
        name: &'static str,
        fit: impl FnOnce(u64) -> Option<T>,
    ) -> Option<T> {
        self.take(findings, name, "a whole number in range", |value| fit(whole(value)?))
    }

    pub(super) fn cost(&mut self, findings: &mut Findings, name: &'static str) -> Option<Cost> {
        self.take(findings, name, "a factor such as 9 or 2.5, in whole thousandths, at most 65535", |value| {
            let thousandths = thousandths(&number_text(value)?).ok()?;
            (thousandths <= COST_MAX * 1000).then(|| Cost::ratio(thousandths as u32, 1000))
        })
    }

    pub(super) fn size(&mut self, findings: &mut Findings, name: &'static str) -> Option<Bytes> {
        self.take(findings, name, "a size such as \"100G\", \"512M\" or a number of bytes", as_size)
    }

    pub(super) fn rate(&mut self, findings: &mut Findings, name: &'static str) -> Option<ByteRate> {
        self.take(findings, name, "a number of bytes per second such as \"200M\"", |value| {
            as_size(value).map(|size| ByteRate(size.get()))
        })
    }

    pub(super) fn span(&mut self, findings: &mut Findings, name: &'static str) -> Option<Nanos> {
        self.take(findings, name, "a span of time with its unit, such as \"30s\" or \"250us\"", |value| {
            value.as_str()?.parse().ok()
        })
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        findings: &mut Findings,
        name: &'static str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
        let expected = words.join(" or ");
        self.take(findings, name, &expected, |value| {
            let text = value.as_str()?;
            choices.iter().find_map(|&(word, choice)| (word == text).then_some(choice))
        })
    }

    /// A list of texts, each read by `read`.
    pub(super) fn list<T>(
        &mut self,
        findings: &mut Findings,
        name: &'static str,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.take(findings, name, expected, |value| {
            value.as_array()?.iter().map(|item| read(item.get_ref().as_str()?)).collect()
        })
    }

    /// The table called `name`.
    pub(super) fn table(&mut self, findings: &mut Findings, name: &'static str) -> Option<Fields<'t, 'i>> {
        let value = self.value(name)?;
        let path = self.path_of(name);
        match value.get_ref() {
            DeValue::Table(table) => Some(Fields::new(path, table, findings)),
            other => {
                let what = format!("{} is not a table", shown(other));
                findings.report(Some(value.span()), Problem::new(path, what, format!("write [{name}]")));
                None
            }
        }
    }

    /// Whether the table has `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.table.iter().any(|(key, _)| key.get_ref() == name)
    }

    /// Whether the table has `name`, and it is a table.
    pub(super) fn is_table(&self, name: &str) -> bool {
        self.table.iter().any(|(key, value)| key.get_ref() == name && value.get_ref().is_table())
    }

    /// The tables of `[[name]]`, in file order.
    pub(super) fn tables(&mut self, findings: &mut Findings, name: &'static str) -> Vec<Fields<'t, 'i>> {
        let Some(value) = self.value(name) else { return Vec::new() };
        let path = self.path_of(name);
        let mut tables = Vec::new();
        let mut strange = value.get_ref().as_array().is_none_or(|array| array.is_empty()).then_some(value);
        let items = value.get_ref().as_array().map(|array| array.iter()).into_iter().flatten();
        for item in items {
            if let DeValue::Table(table) = item.get_ref() {
                let path = format!("{path}[{}]", tables.len());
                let line = findings.lines.at(item.span().start);
                findings.lines.fields.insert(path.clone(), line);
                tables.push(Fields::new(path, table, findings));
            } else {
                strange = Some(item);
            }
        }
        if let Some(strange) = strange {
            let what = format!("{} is not a table", shown(strange.get_ref()));
            findings
                .report(Some(strange.span()), Problem::new(path, what, format!("write [[{name}]] for each")));
        }
        tables
    }

    /// Ends the reading: unknown names are problems.
    pub(super) fn finish(self, findings: &mut Findings) {
        for (key, _) in self.table {
            let name = key.get_ref().as_ref();
            if !self.known.contains(&name) {
                let what = "unknown field".to_owned();
                let advice = format!("known fields: {}", self.known.join(", "));
                findings.report(Some(key.span()), Problem::new(self.path_of(key.get_ref()), what, advice));
            }
        }
    }
}

/// A whole number in any base that TOML has, at most `COUNT_MAX`.
pub(super) fn whole(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
    number.filter(|number| *number <= COUNT_MAX)
}

/// A whole or decimal number as it was written.
pub(super) fn number_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::Float(float) => Some(float.as_str().to_owned()),
        DeValue::Integer(integer) if integer.radix() == 10 => Some(integer.as_str().to_owned()),
        _ => None,
    }
}

fn as_size(value: &DeValue<'_>) -> Option<Bytes> {
    match value.as_str() {
        Some(text) => text.parse().ok(),
        None => whole(value).map(Bytes),
    }
}

/// `name` in `path`, in quotes if it needs them: a name may contain line ends and control characters.
fn join(path: &str, name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let name = if !name.is_empty() && name.bytes().all(is_bare) {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("{name:?}"))
    };
    if path.is_empty() { name.into_owned() } else { format!("{path}.{name}") }
}

/// The value as the user wrote it, or its type when it is long.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(truth) => truth.to_string(),
        other => format!("this {}", other.type_str()),
    }
}

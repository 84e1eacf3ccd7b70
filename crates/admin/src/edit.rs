//! Edits of the text of a configuration. Comments, order and spelling of everything else stay.
//!
//! Holds: an edit changes the fields it names and leaves every other byte (`an_edit_leaves_every_other_byte`);
//!        what was put can be read again (`what_is_put_is_read_again`).
//! Elsewhere: whether the result is a valid configuration is judged by `server`.

use crate::json::{of_item, of_table, to_item, to_table};
use crate::place::{Entry, LISTS, NAMESPACES, Place};
use crate::refusal::Refusal;
use serde_json::{Map, Value as Json};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike};

/// A change of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// The whole text is another one.
    Text(String),
    /// A part is another one.
    Part(Place, Change),
}

/// A change of one part.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It has these fields and no others; an entry that is not there is added.
    Put(Json),
    /// As `Put`, for an entry that is not there.
    Add(Json),
    /// These fields get these values; `null` removes one (RFC 7396).
    Merge(Json),
    /// It is removed.
    Remove,
}

impl Edit {
    /// The text after the edit.
    ///
    /// # Errors
    /// There is no such part, or its new value is no value of TOML.
    pub fn apply(self, text: &str) -> Result<String, Refusal> {
        let (place, change) = match self {
            Edit::Text(text) => return Ok(text),
            Edit::Part(place, change) => (place, change),
        };
        let mut document = parse(text)?;
        match place {
            Place::Whole => whole(&mut document, change)?,
            Place::Section(name) => section(&mut document, name, change)?,
            Place::All(entry) => return Err(not_by_itself(&entry)),
            Place::One(entry, name) => one(tables_of(&mut document, &entry)?, &entry, &name, change)?,
        }
        Ok(document.to_string())
    }
}

/// The JSON of a part.
///
/// # Errors
/// There is no such part.
pub(crate) fn read(text: &str, place: &Place) -> Result<Json, Refusal> {
    let mut document = parse(text)?;
    match place {
        Place::Whole => Ok(of_table(document.as_table())),
        Place::Section(name) => match document.get(name) {
            Some(item) => Ok(of_item(item)),
            None => Err(Refusal::new(404, format!("the file has no {name}: the defaults apply"))),
        },
        Place::All(entry) => {
            Ok(tables_of(&mut document, entry)?.iter().map(|table| of_table(table)).collect())
        }
        Place::One(entry, name) => {
            let tables = tables_of(&mut document, entry)?;
            let index = position(tables, entry, name).ok_or_else(|| absent(tables, entry, name))?;
            Ok(of_table(tables.get(index).expect("it was found")))
        }
    }
}

fn parse(text: &str) -> Result<DocumentMut, Refusal> {
    // The running document was parsed before.
    text.parse().map_err(|error| Refusal::new(409, format!("the configuration is not TOML: {error}")))
}

fn not_by_itself(entry: &Entry) -> Refusal {
    let (path, key) = (entry.list.path, entry.list.key);
    let detail = format!("a list is changed one entry at a time: {path}/{key}");
    Refusal::new(405, detail)
}

fn object(json: &Json) -> Result<&Map<String, Json>, Refusal> {
    json.as_object().ok_or_else(|| Refusal::new(422, "the body is no JSON object; write {\"field\": value}"))
}

fn whole(document: &mut DocumentMut, change: Change) -> Result<(), Refusal> {
    let table = document.as_table_mut();
    match change {
        Change::Put(json) | Change::Add(json) => put(table, object(&json)?, true),
        Change::Merge(json) => merge(table, object(&json)?, true),
        Change::Remove => Err(Refusal::new(405, "the configuration cannot be removed")),
    }
}

fn section(document: &mut DocumentMut, name: &'static str, change: Change) -> Result<(), Refusal> {
    let table = document.as_table_mut();
    match change {
        Change::Put(json) | Change::Add(json) => put_field(table, name, &json, true),
        Change::Merge(json) => merge(table, &Map::from_iter([(name.to_owned(), json)]), true),
        Change::Remove => {
            table.remove(name);
            Ok(())
        }
    }
}

fn one(tables: &mut ArrayOfTables, entry: &Entry, name: &str, change: Change) -> Result<(), Refusal> {
    let found = position(tables, entry, name);
    let found = found.map(|index| (index, tables.get_mut(index).expect("it was found")));
    match (change, found) {
        (Change::Add(_), Some(_)) => {
            let detail = format!("{} {name} is there already; change it instead", entry.list.table);
            Err(Refusal::new(412, detail))
        }
        (Change::Put(json), Some((_, table))) => put(table, &named(object(&json)?, entry, name)?, false),
        (Change::Merge(json), Some((_, table))) => {
            let fields = object(&json)?;
            named(fields, entry, name)?;
            merge(table, fields, false)
        }
        (Change::Put(json) | Change::Add(json), None) => {
            let fields = named(object(&json)?, entry, name)?;
            let mut table = Table::new();
            // The name comes first, as people write it.
            put_field(&mut table, entry.list.key, &fields[entry.list.key], false)?;
            put(&mut table, &fields, false)?;
            table.decor_mut().set_prefix("\n");
            tables.push(table);
            Ok(())
        }
        (Change::Remove, Some((index, _))) => {
            tables.remove(index);
            Ok(())
        }
        (Change::Merge(_) | Change::Remove, None) => Err(absent(tables, entry, name)),
    }
}

/// The fields with the name of the entry, which they may leave out and may not contradict.
fn named(fields: &Map<String, Json>, entry: &Entry, name: &str) -> Result<Map<String, Json>, Refusal> {
    let key = entry.list.key;
    let own = match entry.list == NAMESPACES {
        true => name.parse::<u32>().map(Json::from).map_err(|_| {
            Refusal::new(422, format!("{name:?} is no number of a namespace; write 1, 2, 3 ..."))
        })?,
        false => Json::from(name),
    };
    if fields.get(key).is_some_and(|given| *given != own) {
        let detail = format!("{key} is {} in the body and {own} in the path; leave it out", fields[key]);
        return Err(Refusal::new(422, detail));
    }
    let rest = fields.iter().filter(|(field, _)| *field != key);
    let rest = rest.map(|(field, json)| (field.clone(), json.clone()));
    Ok(std::iter::once((key.to_owned(), own)).chain(rest).collect())
}

/// The tables of a list. A list that is not there is made; an inline one becomes one of `[[table]]`.
fn tables_of<'d>(document: &'d mut DocumentMut, entry: &Entry) -> Result<&'d mut ArrayOfTables, Refusal> {
    let top = document.as_table_mut();
    let Some(nqn) = &entry.of else { return Ok(tables_in(top, entry.list.table)) };
    let subsystems = Entry { list: LISTS[1], of: None };
    let tables = tables_in(top, subsystems.list.table);
    match position(tables, &subsystems, nqn) {
        Some(index) => {
            let subsystem = tables.get_mut(index).expect("it was found");
            Ok(tables_in(subsystem, entry.list.table))
        }
        None => Err(absent(tables, &subsystems, nqn)),
    }
}

fn tables_in<'t>(table: &'t mut Table, name: &str) -> &'t mut ArrayOfTables {
    let item = table.entry(name).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    if !item.is_array_of_tables() {
        let tables = std::mem::take(item).into_array_of_tables().unwrap_or_default();
        *item = Item::ArrayOfTables(tables);
    }
    item.as_array_of_tables_mut().expect("it is one now")
}

fn position(tables: &ArrayOfTables, entry: &Entry, name: &str) -> Option<usize> {
    tables.iter().position(|table| name_of(table, entry).as_deref() == Some(name))
}

fn name_of(table: &Table, entry: &Entry) -> Option<String> {
    match of_item(table.get(entry.list.key)?) {
        Json::String(name) => Some(name),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn absent(tables: &ArrayOfTables, entry: &Entry, name: &str) -> Refusal {
    /// Names in a message at most.
    const SHOWN: usize = 20;
    let there: Vec<String> = tables.iter().filter_map(|table| name_of(table, entry)).take(SHOWN).collect();
    let there = match there.is_empty() {
        true => "there is none".to_owned(),
        false => format!("there are {}", there.join(" ")),
    };
    Refusal::new(404, format!("there is no {} {name:?}; {there}", entry.list.table))
}

/// The table has these fields and no others. `is_top` is the table of the whole file.
fn put(table: &mut dyn TableLike, fields: &Map<String, Json>, is_top: bool) -> Result<(), Refusal> {
    let gone: Vec<String> = table.iter().map(|(name, _)| name.to_owned()).collect();
    gone.iter().filter(|name| !fields.contains_key(*name)).for_each(|name| drop(table.remove(name)));
    fields.iter().try_for_each(|(name, json)| put_field(table, name, json, is_top))
}

fn put_field(table: &mut dyn TableLike, name: &str, json: &Json, is_top: bool) -> Result<(), Refusal> {
    if table.get(name).is_some_and(|item| of_item(item) == *json) {
        return Ok(());
    }
    match json {
        Json::Array(items) if is_top && put_list(table, name, items)? => Ok(()),
        Json::Object(fields) => match table.get_mut(name).and_then(Item::as_table_like_mut) {
            Some(inner) => put(inner, fields, false),
            None if is_top => {
                table.insert(name, Item::Table(to_table(fields)?));
                Ok(())
            }
            None => {
                set(table, name, to_item(name, json)?);
                Ok(())
            }
        },
        _ => {
            set(table, name, to_item(name, json)?);
            Ok(())
        }
    }
}

/// Puts the entries of a list at the top of the file, each in its place. Returns whether `name` is such a list, with a name for each entry.
fn put_list(table: &mut dyn TableLike, name: &str, items: &[Json]) -> Result<bool, Refusal> {
    let Some(list) = LISTS.into_iter().find(|list| list.table == name) else { return Ok(false) };
    let Some(tables) = table.get_mut(name).and_then(Item::as_array_of_tables_mut) else { return Ok(false) };
    let entry = Entry { list, of: None };
    let name_in = |item: &Json| item.get(list.key).and_then(Json::as_str).map(str::to_owned);
    let Some(names) = items.iter().map(name_in).collect::<Option<Vec<String>>>() else { return Ok(false) };
    tables.retain(|table| name_of(table, &entry).is_some_and(|name| names.contains(&name)));
    for (name, item) in names.iter().zip(items) {
        one(tables, &entry, name, Change::Put(item.clone()))?;
    }
    // A table of the file has at least one entry.
    if tables.is_empty() {
        table.remove(name);
    }
    Ok(true)
}

/// RFC 7396.
fn merge(table: &mut dyn TableLike, fields: &Map<String, Json>, is_top: bool) -> Result<(), Refusal> {
    for (name, json) in fields {
        let inner = table.get_mut(name).and_then(Item::as_table_like_mut);
        match (json, inner) {
            (Json::Null, _) => drop(table.remove(name)),
            (Json::Object(fields), Some(inner)) => merge(inner, fields, false)?,
            (json, _) => put_field(table, name, &without_nulls(json), is_top)?,
        }
    }
    Ok(())
}

/// The value without members that are null, as RFC 7396 has it for an object that is new.
fn without_nulls(json: &Json) -> Json {
    match json {
        Json::Object(fields) => {
            let fields = fields.iter().filter(|(_, json)| !json.is_null());
            Json::Object(fields.map(|(name, json)| (name.clone(), without_nulls(json))).collect())
        }
        other => other.clone(),
    }
}

/// Sets a field. A value keeps the comments around the one in its place.
fn set(table: &mut dyn TableLike, name: &str, mut item: Item) {
    let old = table.get(name).and_then(Item::as_value).map(|value| value.decor().clone());
    if let (Some(decor), Some(value)) = (old, item.as_value_mut()) {
        *value.decor_mut() = decor;
    }
    match table.get_mut(name) {
        Some(place) => *place = item,
        None => drop(table.insert(name, item)),
    }
}

#[cfg(test)]
mod tests;

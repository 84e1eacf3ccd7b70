//! Values of TOML as JSON and back: the same names, numbers and texts.

use crate::refusal::Refusal;
use serde_json::{Map, Value as Json};
use toml_edit::{Array, ArrayOfTables, InlineTable, Item, Table, TableLike, Value};

/// The tables of the file that are written as `[[table]]`.
const REPEATED: [&str; 6] = ["device", "subsystem", "host", "tenant", "namespace", "fault"];

/// The JSON of an item.
pub(crate) fn of_item(item: &Item) -> Json {
    match item {
        Item::None => Json::Null,
        Item::Value(value) => of_value(value),
        Item::Table(table) => of_table(table),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| of_table(table)).collect(),
    }
}

/// The JSON of a table.
pub(crate) fn of_table(table: &dyn TableLike) -> Json {
    Json::Object(table.iter().map(|(name, item)| (name.to_owned(), of_item(item))).collect())
}

fn of_value(value: &Value) -> Json {
    match value {
        Value::String(text) => Json::from(text.value().as_str()),
        Value::Integer(number) => Json::from(*number.value()),
        Value::Float(number) => Json::from(*number.value()),
        Value::Boolean(truth) => Json::from(*truth.value()),
        Value::Datetime(time) => Json::from(time.value().to_string()),
        Value::Array(items) => items.iter().map(of_value).collect(),
        Value::InlineTable(table) => of_table(table),
    }
}

/// The item for the field `name` of a table of its own.
pub(crate) fn to_item(name: &str, json: &Json) -> Result<Item, Refusal> {
    match json {
        Json::Array(items) if REPEATED.contains(&name) && items.iter().all(Json::is_object) => {
            let mut tables = ArrayOfTables::new();
            for item in items {
                tables.push(to_table(item.as_object().expect("all are objects"))?);
            }
            Ok(Item::ArrayOfTables(tables))
        }
        other => to_value(name, other).map(Item::Value),
    }
}

/// A table of its own.
pub(crate) fn to_table(fields: &Map<String, Json>) -> Result<Table, Refusal> {
    let mut table = Table::new();
    for (name, json) in fields {
        table.insert(name, to_item(name, json)?);
    }
    Ok(table)
}

fn to_value(name: &str, json: &Json) -> Result<Value, Refusal> {
    Ok(match json {
        Json::Null => {
            let detail = format!("{name} is null, which only a PATCH can have; leave it out");
            return Err(Refusal::new(422, detail));
        }
        Json::Bool(truth) => Value::from(*truth),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => Value::from(number),
            (None, None, Some(number)) => Value::from(number),
            _ => {
                let detail = format!("{name}: {number} is beyond the integers of TOML; write it as a text");
                return Err(Refusal::new(422, detail));
            }
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => {
            let items = items.iter().map(|item| to_value(name, item));
            Value::Array(items.collect::<Result<Array, Refusal>>()?)
        }
        Json::Object(fields) => {
            let mut table = InlineTable::new();
            for (name, json) in fields {
                table.insert(name, to_value(name, json)?);
            }
            Value::InlineTable(table)
        }
    })
}

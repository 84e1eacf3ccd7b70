//! Numeric fields of a table as data: one row has all that the reader, the checks, the list of changes, a reload and the writer know of a
//! field.
//!
//! Elsewhere: the rows are `limits::FIELDS` and `tenant::FIELDS`; rules between fields are `check`.

use super::bounds::COUNT_MAX;
use super::fields::{Fields, Findings};
use super::problem::Problem;
use super::text;
use units::{ByteRate, Bytes, Nanos};

/// The unit of a field, which says how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A whole number.
    Count,
    /// Bytes.
    Size,
    /// Bytes per second.
    Rate,
    /// A span of time.
    Span,
}

impl Unit {
    /// The value as people read it.
    fn shown(self, number: u64) -> String {
        match self {
            Unit::Count => number.to_string(),
            Unit::Size => Bytes(number).to_string(),
            Unit::Rate => ByteRate(number).to_string(),
            Unit::Span => Nanos(number).to_string(),
        }
    }

    /// The exact value in the form of a file.
    pub(super) fn written(self, number: u64) -> toml::Value {
        match self {
            Unit::Count => text::count(number),
            Unit::Size | Unit::Rate => text::size(Bytes(number)).into(),
            Unit::Span => text::span(Nanos(number)).into(),
        }
    }

    /// The kind of value, for the reference.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Count => "number",
            Unit::Size => "size",
            Unit::Rate => "bytes per second",
            Unit::Span => "time",
        }
    }
}

/// A type that a numeric field may have.
pub(super) trait Number: Sized {
    /// Its unit.
    const UNIT: Unit;

    /// The value; `None` if the field may be left out, and is.
    fn number(&self) -> Option<u64>;

    /// The field with this value; `None` if it does not fit.
    fn with_number(number: u64) -> Option<Self>;
}

macro_rules! number {
    ($($type:ty: $unit:ident, $get:expr, $make:expr;)*) => {
        $(impl Number for $type {
            const UNIT: Unit = Unit::$unit;

            fn number(&self) -> Option<u64> {
                let get: fn(&$type) -> u64 = $get;
                Some(get(self))
            }

            fn with_number(number: u64) -> Option<$type> {
                let make: fn(u64) -> Option<$type> = $make;
                make(number)
            }
        })*
    };
}

number! {
    u8: Count, |n| u64::from(*n), |n| n.try_into().ok();
    u16: Count, |n| u64::from(*n), |n| n.try_into().ok();
    u32: Count, |n| u64::from(*n), |n| n.try_into().ok();
    u64: Count, |n| *n, Some;
    Bytes: Size, |n| n.get(), |n| Some(Bytes(n));
    ByteRate: Rate, |n| n.0, |n| Some(ByteRate(n));
    Nanos: Span, |n| n.get(), |n| Some(Nanos(n));
}

impl<T: Number> Number for Option<T> {
    const UNIT: Unit = T::UNIT;

    fn number(&self) -> Option<u64> {
        self.as_ref().and_then(T::number)
    }

    fn with_number(number: u64) -> Option<Option<T>> {
        T::with_number(number).map(Some)
    }
}

/// The unit of the field that an accessor returns.
pub(super) const fn unit_of<S, T: Number>(_: fn(&S) -> &T) -> Unit {
    T::UNIT
}

/// A bound of a field: the reason for it, in which `{}` is the value, and the advice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    number: u64,
    what: &'static str,
    advice: &'static str,
}

/// One numeric field of the table `S`.
pub struct Field<S: 'static> {
    /// Its name in the file.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Whether a reload may change it.
    pub is_live: bool,
    /// One line for people.
    pub about: &'static str,
    /// The meaning of leaving it out, for a field without a default value.
    pub absent: &'static str,
    get: fn(&S) -> Option<u64>,
    set: fn(&mut S, u64) -> bool,
    least: Option<Bound>,
    most: Option<Bound>,
}

/// A row for the field `$name` of `$table`.
macro_rules! field {
    ($table:ty, $name:ident, $about:literal) => {
        $crate::config::schema::Field::<$table>::new(
            (stringify!($name), $about),
            $crate::config::schema::unit_of(|table: &$table| &table.$name),
            |table| $crate::config::schema::Number::number(&table.$name),
            |table, number| {
                let value = $crate::config::schema::Number::with_number(number);
                value.map(|value| table.$name = value).is_some()
            },
        )
    };
}
pub(super) use field;

impl<S> Field<S> {
    pub(super) const fn new(
        (name, about): (&'static str, &'static str),
        unit: Unit,
        get: fn(&S) -> Option<u64>,
        set: fn(&mut S, u64) -> bool,
    ) -> Field<S> {
        Field { name, unit, is_live: true, about, absent: "", get, set, least: None, most: None }
    }

    /// The field takes effect at a start only.
    pub(super) const fn at_start(self) -> Field<S> {
        Field { is_live: false, ..self }
    }

    /// The meaning of leaving the field out.
    pub(super) const fn absent(self, absent: &'static str) -> Field<S> {
        Field { absent, ..self }
    }

    /// The least value, the reason why less is refused, and the advice.
    pub(super) const fn least(self, number: u64, what: &'static str, advice: &'static str) -> Field<S> {
        Field { least: Some(Bound { number, what, advice }), ..self }
    }

    /// The largest value, the reason why more is refused, and the advice.
    pub(super) const fn most(self, number: u64, what: &'static str, advice: &'static str) -> Field<S> {
        Field { most: Some(Bound { number, what, advice }), ..self }
    }

    /// The values directly outside its bounds, as a file has them.
    #[cfg(test)]
    pub(super) fn beyond(&self) -> Vec<toml::Value> {
        let below = self.least.map(|bound| bound.number - 1);
        let above = self.most.map(|bound| bound.number + 1);
        below.into_iter().chain(above).map(|number| self.unit.written(number)).collect()
    }

    /// The value, for people.
    pub fn shown(&self, table: &S) -> String {
        (self.get)(table).map_or_else(|| self.absent.to_owned(), |number| self.unit.shown(number))
    }

    /// Whether the field is set, or differs from `other`.
    pub(crate) fn differs(&self, table: &S, other: &S) -> bool {
        (self.get)(table) != (self.get)(other)
    }

    /// The exact value in the form of a file; `None` if it is left out.
    pub fn written(&self, table: &S) -> Option<toml::Value> {
        (self.get)(table).map(|number| self.unit.written(number))
    }

    /// Reads the field into `table`, which keeps its value if the file does not have the field.
    fn read(&self, fields: &mut Fields<'_, '_>, findings: &mut Findings, table: &mut S) {
        let number = match self.unit {
            Unit::Count => {
                let set = |number: u64| (self.set)(table, number).then_some(());
                fields.fitting_number(findings, self.name, set);
                return;
            }
            Unit::Size => fields.size(findings, self.name).map(Bytes::get),
            Unit::Rate => fields.rate(findings, self.name).map(|rate| rate.0),
            Unit::Span => fields.span(findings, self.name).map(Nanos::get),
        };
        number.into_iter().for_each(|number| {
            (self.set)(table, number);
        });
    }

    fn problem(&self, table: &S) -> Option<(String, &'static str)> {
        let number = (self.get)(table)?;
        if self.unit == Unit::Count && number > COUNT_MAX {
            return Some((format!("{number} is more than {COUNT_MAX}"), "write a smaller number"));
        }
        let below = self.least.filter(|bound| number < bound.number);
        let bound = below.or(self.most.filter(|bound| number > bound.number))?;
        Some((bound.what.replace("{}", &self.unit.shown(number)), bound.advice))
    }
}

/// Reads all `rows` into `table`.
pub(super) fn read<S>(
    rows: &[Field<S>],
    fields: &mut Fields<'_, '_>,
    findings: &mut Findings,
    table: &mut S,
) {
    rows.iter().for_each(|row| row.read(fields, findings, table));
}

/// Every value of `table` that is out of its bounds.
pub(super) fn problems<S>(rows: &[Field<S>], table: &S, field: impl Fn(&str) -> String) -> Vec<Problem> {
    let found = rows.iter().filter_map(|row| Some((row.name, row.problem(table)?)));
    found.map(|(name, (what, advice))| Problem::new(field(name), what, advice)).collect()
}

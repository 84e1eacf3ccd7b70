//! Units in a profile: the field's name in the file carries the unit, the field's type in the program is the quantity.
//!
//! A value that is not a whole number of the file's unit is written rounded down.

/// A module for `#[serde(with = "…")]` that reads a whole number of `$unit` as `$quantity`.
macro_rules! unit {
    ($(#[$about:meta])* $name:ident, $quantity:ident, $unit:expr) => {
        $(#[$about])*
        pub(super) mod $name {
            use serde::{Deserialize, Deserializer, Serializer, de::Error};
            use units::$quantity;

            pub(in crate::profile) fn serialize<S: Serializer>(
                quantity: &$quantity,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_u64(quantity.0 / $unit)
            }

            pub(in crate::profile) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$quantity, D::Error> {
                let count = u64::deserialize(deserializer)?;
                let quantity = count.checked_mul($unit);
                quantity.map($quantity).ok_or_else(|| D::Error::custom(format!("{count} is far too large")))
            }
        }
    };
}

unit!(
    /// Nanoseconds.
    nanos,
    Nanos,
    1
);
unit!(
    /// Microseconds.
    micros,
    Nanos,
    1_000
);
unit!(
    /// Milliseconds.
    millis,
    Nanos,
    1_000_000
);
unit!(
    /// Megabytes (10^6) per second, as data sheets give them.
    megabytes_per_second,
    ByteRate,
    1_000_000
);
unit!(
    /// MiB per second.
    mebibytes_per_second,
    ByteRate,
    1 << 20
);
unit!(
    /// MiB.
    mebibytes,
    Bytes,
    1 << 20
);

//! Units of a profile's fields: in the file, the field's name carries the unit; in the program, its type
//! does.
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
                quantity.map($quantity).ok_or_else(|| D::Error::custom(format!("{count} is too large")))
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

/// A cost as a decimal number with at most three decimal places.
pub(super) mod cost {
    use sched::Cost;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    const THOUSANDTHS: f64 = 1000.0;

    pub(in crate::profile) fn serialize<S: Serializer>(
        cost: &Cost,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(cost.thousandths() as f64 / THOUSANDTHS)
    }

    pub(in crate::profile) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Cost, D::Error> {
        let number = f64::deserialize(deserializer)?;
        let thousandths = (number * THOUSANDTHS).round();
        // The division gives the float nearest to the decimal number, which is what was parsed.
        if thousandths / THOUSANDTHS != number
            || !(0.0..=f64::from(u16::MAX) * THOUSANDTHS).contains(&thousandths)
        {
            return Err(D::Error::custom(format!(
                "{number} is not a cost from 0 to 65535 in whole thousandths"
            )));
        }
        Ok(Cost::ratio(thousandths as u32, 1000))
    }
}

//! A record as the value of one key: its fields with their names, one after the other.
//!
//! A field is the length of its name (4 bytes, big-endian), the name, the length of its bytes, and the bytes.

/// A field: its name and its bytes.
pub type Field = (String, Vec<u8>);

/// Encodes the fields.
pub fn encode(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(fields.iter().map(|(name, value)| 8 + name.len() + value.len()).sum());
    for (name, value) in fields {
        for part in [name.as_bytes(), value] {
            bytes.extend_from_slice(&(part.len() as u32).to_be_bytes());
            bytes.extend_from_slice(part);
        }
    }
    bytes
}

/// Decodes the fields of a record; `None` if the bytes are not a record.
pub fn decode(mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut part = || -> Option<Option<Vec<u8>>> {
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
            return bytes.is_empty().then_some(None);
        };
        let (part, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        bytes = rest;
        Some(Some(part.to_vec()))
    };
    let mut fields = Vec::new();
    while let Some(name) = part()? {
        fields.push((String::from_utf8(name).ok()?, part()??));
    }
    Some(fields)
}

/// Replaces the bytes of fields; those that the record does not have are added.
pub fn merge(record: &mut Vec<Field>, written: Vec<Field>) {
    for (name, value) in written {
        match record.iter_mut().find(|(other, _)| *other == name) {
            Some((_, old)) => *old = value,
            None => record.push((name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, value: &str) -> Field {
        (name.to_owned(), value.as_bytes().to_vec())
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = vec![field("field0", "a"), field("field1", "")];
        assert_eq!(decode(&encode(&record)).as_ref(), Some(&record));
        merge(&mut record, vec![field("field1", "b"), field("field2", "c")]);
        assert_eq!(record, [field("field0", "a"), field("field1", "b"), field("field2", "c")]);
        assert_eq!(decode(&[]), Some(Vec::new()));
    }

    #[test]
    fn what_was_cut_is_no_record() {
        let whole = encode(&[field("field0", "abc")]);
        for length in 1..whole.len() {
            assert_eq!(decode(&whole[..length]), None, "{length} bytes");
        }
    }
}

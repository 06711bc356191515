//! Stored documents: rows of JSON.

use crate::workload::profiles::{COLUMNS, Profiles};
use anyhow::{Result, ensure};

/// Fewer documents say nothing of a codec.
const DOCUMENTS_MIN: usize = 40;
/// Tables are named after collections and arms, in 48 characters.
const NAME_CHARACTERS_MAX: usize = 20;

/// Documents of one kind. Rows are numbered, and their numbers are the keys of the table.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Small letters, digits and underscores, beginning with a letter.
    pub name: String,
    pub columns: Vec<String>,
    /// The stored rows, one document per column.
    pub rows: Vec<Vec<String>>,
    /// Rows of the same kind that are learned from and not stored.
    pub samples: Vec<Vec<String>>,
}

impl Collection {
    /// User profiles of five columns.
    pub fn profiles(rows: usize, samples: usize, seed: u64) -> Self {
        let mut profiles = Profiles::new(seed);
        let mut draw = |count: usize| (0..count).map(|_| profiles.draw_columns().into()).collect();
        Self {
            name: "profiles".into(),
            columns: COLUMNS.map(str::to_owned).into(),
            samples: draw(samples),
            rows: draw(rows),
        }
    }

    /// Documents of a file, in one column: every second one is learned from, the others are stored. `name` may
    /// be anything.
    ///
    /// # Errors
    /// If there are too few.
    pub fn of_documents(name: &str, documents: Vec<String>, rows_max: usize) -> Result<Self> {
        let found = documents.len();
        ensure!(
            found >= DOCUMENTS_MIN,
            "{name} has {found} documents, of which one half is learned from and the other is stored: at least \
             {DOCUMENTS_MIN} are needed"
        );
        let (mut rows, mut samples) = (Vec::new(), Vec::new());
        for (number, document) in documents.into_iter().enumerate() {
            let half = if number % 2 == 0 {
                &mut samples
            } else {
                &mut rows
            };
            half.push(vec![document]);
        }
        rows.truncate(rows_max);
        Ok(Self {
            name: identifier(name),
            columns: vec!["document".into()],
            rows,
            samples,
        })
    }

    /// The documents that a row has after it was written this often. Each time it gets those of the next row,
    /// so that values change and stay alike.
    pub(super) fn row(&self, key: u64, writes: u64) -> &[String] {
        let number = key.wrapping_add(writes) % self.rows.len().max(1) as u64;
        &self.rows[number as usize]
    }

    /// True if these are the documents of a row that was written at most this often. Those of two writes do not
    /// mix: a row is written at once.
    pub(super) fn was_written(&self, key: u64, writes_max: u64, found: &[Vec<u8>]) -> bool {
        let mut rows = (0..=writes_max).map(|writes| self.row(key, writes));
        rows.any(|documents| documents.iter().map(String::as_bytes).eq(found.iter()))
    }

    /// Bytes of all documents that are stored.
    pub fn bytes(&self) -> u64 {
        let documents = self.rows.iter().flatten();
        documents.map(|document| document.len() as u64).sum()
    }

    /// The samples of a column.
    pub fn samples_of(&self, column: usize) -> impl Iterator<Item = &str> {
        self.samples.iter().map(move |row| &*row[column])
    }
}

/// The name in small letters, with underscores in place of all that is neither letter nor digit.
pub(super) fn identifier(name: &str) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '_',
    };
    let begins_with_letter = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let prefix = if begins_with_letter { "" } else { "c" };
    let name = prefix.chars().chain(name.chars().map(plain));
    name.take(NAME_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_learned_from_is_not_stored() {
        let documents: Vec<String> = (0..100).map(|number| format!("[{number}]")).collect();
        let found = Collection::of_documents("3166-2 Länder", documents, 30).unwrap();
        assert_eq!(found.name, "c3166_2_l_nder");
        assert_eq!((found.rows.len(), found.samples.len()), (30, 50));
        assert!(found.rows.iter().all(|row| !found.samples.contains(row)));
        let profiles = Collection::profiles(20, 10, 1);
        assert_eq!((profiles.rows.len(), profiles.samples.len()), (20, 10));
        assert!(
            profiles
                .rows
                .iter()
                .all(|row| !profiles.samples.contains(row))
        );
        let few = Collection::of_documents("few", vec!["1".into(); 39], 100);
        assert!(few.unwrap_err().to_string().contains("at least 40"));
    }

    #[test]
    fn only_rows_as_they_were_written_are_right() {
        let profiles = Collection::profiles(5, 0, 1);
        let stored = |row: usize| -> Vec<Vec<u8>> {
            let documents = profiles.rows[row].iter();
            documents
                .map(|document| document.as_bytes().to_vec())
                .collect()
        };
        assert!(profiles.was_written(1, 0, &stored(1)));
        assert!(profiles.was_written(1, 1, &stored(1)));
        assert!(profiles.was_written(1, 1, &stored(2)));
        assert!(!profiles.was_written(1, 0, &stored(2)), "not yet");
        assert!(!profiles.was_written(1, 1, &stored(0)), "of another row");
        let mut mixed = stored(1);
        mixed[4] = stored(2).remove(4);
        assert!(!profiles.was_written(1, 1, &mixed), "of two writes");
        assert!(
            !profiles.was_written(1, 1, &stored(1)[..4]),
            "a column is missing"
        );
    }

    #[test]
    fn each_write_gives_a_row_the_documents_of_the_next() {
        let profiles = Collection::profiles(3, 0, 1);
        assert_eq!(profiles.row(1, 0), profiles.rows[1]);
        assert_eq!(profiles.row(1, 1), profiles.rows[2]);
        assert_eq!(profiles.row(1, 2), profiles.rows[0]);
        let bytes: u64 = profiles.rows.iter().flatten().map(|d| d.len() as u64).sum();
        assert_eq!(profiles.bytes(), bytes);
        assert_eq!(profiles.samples_of(4).count(), 0);
    }
}

//! The attributes of a user, each as a document in a column of its own.

use std::fmt::Write as _;

use rand::RngExt;

use super::{Profiles, comma};

/// Names of the columns.
pub const COLUMNS: [&str; 5] = [
    "items_viewed",
    "items_purchased",
    "searches",
    "sellers",
    "geolocation",
];

/// The share of the places that are in the city where the user lives.
const AT_HOME: f64 = 0.7;

impl Profiles {
    /// The documents of the next user, in the order of [`COLUMNS`].
    pub fn draw_columns(&mut self) -> [String; COLUMNS.len()] {
        let user = self.rng.random_range(1..50_000_000u64);
        let home = self.city();
        std::array::from_fn(|number| {
            let mut out = String::with_capacity(704);
            // Writing to a string never fails.
            let _ = self.write_column(number, user, home, &mut out);
            out
        })
    }

    fn write_column(
        &mut self,
        number: usize,
        user: u64,
        home: usize,
        out: &mut String,
    ) -> std::fmt::Result {
        write!(out, "{{\"user_id\":{user},\"{}\":[", COLUMNS[number])?;
        // So that documents have 500 to 600 bytes.
        let [least, most] = [[12, 14], [10, 11], [29, 33], [33, 37], [8, 8]][number];
        for place in 0..self.rng.random_range(least..=most) {
            out.push_str(comma(place));
            match number {
                0 => self.write_viewed(out)?,
                1 => self.write_purchased(out)?,
                2 => self.write_search(out),
                3 => self.write_seller(out)?,
                _ => {
                    let is_at_home = self.rng.random::<f64>() < AT_HOME;
                    let city = if is_at_home { home } else { self.city() };
                    self.write_place(city, out)?;
                }
            }
        }
        out.push_str("]}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_json_of_the_published_size_and_repeats() {
        let (mut profiles, mut again) = (Profiles::new(1), Profiles::new(1));
        let mut bytes = [0; COLUMNS.len()];
        for _ in 0..1_000 {
            let row = profiles.draw_columns();
            assert_eq!(row, again.draw_columns());
            let mut users = Vec::new();
            for (at, document) in row.iter().enumerate() {
                let parsed: serde_json::Value = serde_json::from_str(document).expect("JSON");
                assert!(parsed[COLUMNS[at]].is_array(), "{document}");
                users.push(parsed["user_id"].clone());
                bytes[at] += document.len();
            }
            assert!(users.windows(2).all(|pair| pair[0] == pair[1]), "{users:?}");
        }
        for (column, bytes) in COLUMNS.iter().zip(bytes) {
            assert!(
                (500..600).contains(&(bytes / 1_000)),
                "{column}: {} bytes",
                bytes / 1_000
            );
        }
    }
}

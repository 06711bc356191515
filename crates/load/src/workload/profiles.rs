//! User profiles as JSON documents: items viewed, items bought, searches, sellers, and where the user is. All
//! in one document of 500 to 600 bytes, or each in a column of its own, with as many bytes.
//!
//! Items, sellers and words are drawn with YCSB's skew, as a shop's are; numbers of users, times and
//! coordinates are uniform and cannot be compressed.
//!
//! Source: the attributes and the size are those of Jamal and Nayyar, "Scaling under heavy load".

use std::fmt::Write as _;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::workload::keys::Zipf;

mod columns;

pub use columns::COLUMNS;

const ITEMS: u64 = 100_000;
const SELLERS: u64 = 5_000;
const SKEW: f64 = 0.99;
/// Of the first view, in milliseconds since 1970, and over how long views are spread.
const FIRST_MS: u64 = 1_704_067_200_000;
const SPAN_MS: u64 = 90 * 24 * 3_600 * 1_000;

const WORDS: [&str; 48] = [
    "running",
    "shoes",
    "wireless",
    "headphones",
    "usb",
    "charger",
    "men",
    "women",
    "kids",
    "winter",
    "jacket",
    "black",
    "white",
    "red",
    "blue",
    "green",
    "laptop",
    "stand",
    "coffee",
    "grinder",
    "bike",
    "helmet",
    "phone",
    "case",
    "leather",
    "wallet",
    "desk",
    "lamp",
    "garden",
    "hose",
    "yoga",
    "mat",
    "water",
    "bottle",
    "steel",
    "kitchen",
    "knife",
    "set",
    "board",
    "game",
    "puzzle",
    "camera",
    "tripod",
    "tent",
    "backpack",
    "travel",
    "pillow",
    "watch",
];
const CITIES: [(&str, &str, f64, f64); 12] = [
    ("London", "GB", 51.5, -0.12),
    ("Paris", "FR", 48.85, 2.35),
    ("Berlin", "DE", 52.52, 13.4),
    ("Madrid", "ES", 40.41, -3.7),
    ("Rome", "IT", 41.9, 12.49),
    ("Vienna", "AT", 48.2, 16.37),
    ("Lahore", "PK", 31.54, 74.34),
    ("Mumbai", "IN", 19.07, 72.87),
    ("Tokyo", "JP", 35.68, 139.69),
    ("São Paulo", "BR", -23.55, -46.63),
    ("New York", "US", 40.71, -74.0),
    ("Toronto", "CA", 43.65, -79.38),
];

/// Documents, one after another. The same seed gives the same.
#[derive(Debug)]
pub struct Profiles {
    rng: ChaCha8Rng,
    items: Zipf,
    sellers: Zipf,
    words: Zipf,
}

impl Profiles {
    pub fn new(seed: u64) -> Self {
        Profiles {
            rng: ChaCha8Rng::seed_from_u64(seed),
            items: Zipf::new(ITEMS, SKEW),
            sellers: Zipf::new(SELLERS, SKEW),
            words: Zipf::new(WORDS.len() as u64, SKEW),
        }
    }

    /// The next one.
    pub fn draw(&mut self) -> String {
        let mut out = String::with_capacity(640);
        // Writing to a string never fails.
        let _ = self.write(&mut out);
        out
    }

    fn write(&mut self, out: &mut String) -> std::fmt::Result {
        write!(
            out,
            "{{\"user_id\":{},\"items_viewed\":[",
            self.rng.random_range(1..50_000_000u64)
        )?;
        for item in 0..self.rng.random_range(4..8) {
            out.push_str(comma(item));
            self.write_viewed(out)?;
        }
        out.push_str("],\"items_purchased\":[");
        for item in 0..self.rng.random_range(1..3) {
            out.push_str(comma(item));
            self.write_purchased(out)?;
        }
        out.push_str("],\"searches\":[");
        for search in 0..self.rng.random_range(2..5) {
            out.push_str(comma(search));
            self.write_search(out);
        }
        out.push_str("],\"sellers\":[");
        for seller in 0..self.rng.random_range(1..4) {
            out.push_str(comma(seller));
            self.write_seller(out)?;
        }
        out.push_str("],\"geolocation\":");
        let city = self.city();
        self.write_place(city, out)?;
        out.push('}');
        Ok(())
    }

    fn write_viewed(&mut self, out: &mut String) -> std::fmt::Result {
        let at = FIRST_MS + self.rng.random_range(0..SPAN_MS);
        let number = self.item();
        write!(out, "{{\"item_id\":{number},\"at\":{at}}}")
    }

    fn write_purchased(&mut self, out: &mut String) -> std::fmt::Result {
        let (number, cents) = (self.item(), self.rng.random_range(199..50_000u64));
        let (price, quantity) = (cents as f64 / 100.0, self.rng.random_range(1..4u8));
        write!(
            out,
            "{{\"item_id\":{number},\"price\":{price},\"quantity\":{quantity}}}"
        )
    }

    fn write_search(&mut self, out: &mut String) {
        out.push('"');
        for word in 0..self.rng.random_range(1..4) {
            let rank = self.words.draw(&mut self.rng) as usize;
            out.push_str(if word > 0 { " " } else { "" });
            out.push_str(WORDS[rank - 1]);
        }
        out.push('"');
    }

    fn write_seller(&mut self, out: &mut String) -> std::fmt::Result {
        let rank = self.sellers.draw(&mut self.rng);
        write!(out, "\"seller-{:05}\"", scattered(rank, SELLERS))
    }

    /// An index into [`CITIES`].
    fn city(&mut self) -> usize {
        self.rng.random_range(0..CITIES.len())
    }

    fn write_place(&mut self, city: usize, out: &mut String) -> std::fmt::Result {
        let (city, country, latitude, longitude) = CITIES[city];
        let (latitude, longitude) = (self.near(latitude), self.near(longitude));
        write!(
            out,
            "{{\"lat\":{latitude},\"lon\":{longitude},\"city\":\"{city}\",\"country\":\"{country}\"}}"
        )
    }

    /// Within some twenty kilometres, to a millionth of a degree.
    fn near(&mut self, degrees: f64) -> f64 {
        let millionths = (degrees + self.rng.random_range(-0.2..0.2)) * 1e6;
        millionths.round() / 1e6
    }

    fn item(&mut self) -> u64 {
        1_000_000 + scattered(self.items.draw(&mut self.rng), ITEMS)
    }
}

fn comma(position: i32) -> &'static str {
    if position > 0 { "," } else { "" }
}

/// Popular things are not neighbours.
fn scattered(rank: u64, count: u64) -> u64 {
    rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_json_of_the_published_size_and_repeat() {
        let (mut profiles, mut again) = (Profiles::new(1), Profiles::new(1));
        let mut bytes = 0;
        for _ in 0..1_000 {
            let profile = profiles.draw();
            assert_eq!(profile, again.draw());
            let parsed: serde_json::Value = serde_json::from_str(&profile).expect("JSON");
            assert!(parsed["items_viewed"].is_array());
            bytes += profile.len();
        }
        assert!((500..600).contains(&(bytes / 1_000)), "{}", bytes / 1_000);
    }
}

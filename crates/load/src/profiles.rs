//! User profiles as JSON documents of 500 to 600 bytes: items viewed, items bought, searches, sellers, and
//! where the user is.
//!
//! Items, sellers and words are drawn with YCSB's skew, as a shop's are; numbers of users, times and
//! coordinates are uniform and cannot be compressed.
//!
//! Source: the attributes and the size are those of Jamal and Nayyar, "Scaling under heavy load".

use std::fmt::Write as _;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::keys::Zipf;

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
            let at = FIRST_MS + self.rng.random_range(0..SPAN_MS);
            let number = self.item();
            write!(out, "{}{{\"item_id\":{number},\"at\":{at}}}", comma(item))?;
        }
        out.push_str("],\"items_purchased\":[");
        for item in 0..self.rng.random_range(1..3) {
            let (number, cents) = (self.item(), self.rng.random_range(199..50_000u64));
            write!(
                out,
                "{}{{\"item_id\":{number},\"price\":{},\"quantity\":{}}}",
                comma(item),
                cents as f64 / 100.0,
                self.rng.random_range(1..4u8)
            )?;
        }
        out.push_str("],\"searches\":[");
        for search in 0..self.rng.random_range(2..5) {
            write!(out, "{}\"", comma(search))?;
            for word in 0..self.rng.random_range(1..4) {
                let rank = self.words.draw(&mut self.rng) as usize;
                write!(
                    out,
                    "{}{}",
                    if word > 0 { " " } else { "" },
                    WORDS[rank - 1]
                )?;
            }
            out.push('"');
        }
        out.push_str("],\"sellers\":[");
        for seller in 0..self.rng.random_range(1..4) {
            let rank = self.sellers.draw(&mut self.rng);
            write!(
                out,
                "{}\"seller-{:05}\"",
                comma(seller),
                scattered(rank, SELLERS)
            )?;
        }
        let (city, country, latitude, longitude) = CITIES[self.rng.random_range(0..CITIES.len())];
        write!(
            out,
            "],\"geolocation\":{{\"lat\":{},\"lon\":{},\"city\":\"{city}\",\"country\":\"{country}\"}}}}",
            self.near(latitude),
            self.near(longitude)
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

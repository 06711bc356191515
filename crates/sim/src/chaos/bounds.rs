//! What a run may contain, and how the shortest run is found that breaks in the same way.
//!
//! Any change of what happens moves all that comes later, so that a seed with fewer clients or faults is
//! another run. So for each thing that is left out, the seed itself is tried, and then a few others; it
//! stays left out if one of them breaks as the first one did.

use std::collections::BTreeSet;
use std::time::Instant;

use super::checks::Violation;
use super::world::run_within;

/// Seeds that are tried for each thing that is left out.
const TRIES: u64 = 30;

/// Declares the causes and their names.
macro_rules! causes {
    ($($cause:ident = $text:literal,)*) => {
        /// What can go wrong in a run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Cause { $($cause,)* }

        impl Cause {
            pub const ALL: &[Cause] = &[$(Cause::$cause,)*];

            pub fn name(self) -> &'static str {
                match self { $(Cause::$cause => $text,)* }
            }
        }
    };
}

causes! {
    ClientBreak = "client-break",
    ClientCut = "client-cut",
    ClientLeave = "client-leave",
    LinkBreak = "link-break",
    LinkCut = "link-cut",
    Freeze = "freeze",
    Pause = "pause",
    Crash = "crash",
    Away = "away",
    Partition = "partition",
    Evict = "evict",
    Errors = "errors",
    Silence = "silence",
    Alter = "alter",
    Snapshot = "snapshot",
    Settings = "settings",
    Drain = "drain",
    Kill = "kill",
    DropRole = "drop-role",
    Catalogue = "catalogue",
    Lie = "lie",
    Slow = "slow",
    Unreached = "unreached",
    LoginFails = "login-fails",
    Aggressor = "aggressor",
}

impl std::str::FromStr for Cause {
    type Err = String;

    fn from_str(text: &str) -> Result<Cause, String> {
        let found = Cause::ALL.iter().find(|cause| cause.name() == text);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = Cause::ALL.iter().map(|cause| cause.name()).collect();
            format!("is none of {}", names.join(", "))
        })
    }
}

/// What a run may contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub clients_max: usize,
    /// Nothing is begun, and nothing goes wrong, from then on.
    pub until_us: u64,
    pub without: BTreeSet<Cause>,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            clients_max: 12,
            until_us: 1_700_000_000,
            without: BTreeSet::new(),
        }
    }
}

/// A run that breaks.
#[derive(Clone, Debug)]
pub struct Broken {
    pub seed: u64,
    pub bounds: Bounds,
    pub violation: Violation,
}

impl Broken {
    /// The command that repeats it.
    pub fn command(&self) -> String {
        let whole = Bounds::default();
        let mut command = format!("helenus sim chaos --seed {} --seeds 1", self.seed);
        if self.bounds.clients_max < whole.clients_max {
            command.push_str(&format!(" --clients {}", self.bounds.clients_max));
        }
        if self.bounds.until_us < whole.until_us {
            command.push_str(&format!(" --until-us {}", self.bounds.until_us));
        }
        if !self.bounds.without.is_empty() {
            let names: Vec<&str> = self.bounds.without.iter().map(|c| c.name()).collect();
            command.push_str(&format!(" --without {}", names.join(",")));
        }
        command
    }

    /// Everything that happens in it.
    pub fn log(&self, begin: Instant) -> String {
        run_within(self.seed, &self.bounds, begin, true).1
    }
}

/// A run with as little in it as can be found that breaks as this one does.
pub fn shortest(broken: Broken, begin: Instant) -> Broken {
    let kind = kind(&broken.violation.what);
    shrink(broken, &mut |seed, bounds| {
        let violation = run_within(seed, bounds, begin, false).0.err()?;
        (self::kind(&violation.what) == kind).then_some(violation)
    })
}

/// What is broken, without the numbers in it.
fn kind(what: &str) -> String {
    let text: String = what.chars().filter(|c| !c.is_ascii_digit()).collect();
    text.chars().take(60).collect()
}

type Fails<'a> = &'a mut dyn FnMut(u64, &Bounds) -> Option<Violation>;

fn shrink(mut broken: Broken, fails: Fails<'_>) -> Broken {
    broken = cut_short(broken, fails);
    for cause in Cause::ALL {
        let mut bounds = broken.bounds.clone();
        bounds.without.insert(*cause);
        broken = attempt(&broken, bounds, fails).unwrap_or(broken);
    }
    let mut clients = 1;
    while clients < broken.bounds.clients_max {
        let mut bounds = broken.bounds.clone();
        bounds.clients_max = clients;
        match attempt(&broken, bounds, fails) {
            Some(fewer) => broken = fewer,
            None => clients += 1,
        }
    }
    cut_short(broken, fails)
}

/// The same with other bounds, by the same seed or another one.
fn attempt(broken: &Broken, bounds: Bounds, fails: Fails<'_>) -> Option<Broken> {
    let seeds = std::iter::once(broken.seed).chain(0..TRIES);
    for seed in seeds {
        if let Some(violation) = fails(seed, &bounds) {
            let bounds = bounds.clone();
            return Some(Broken {
                seed,
                bounds,
                violation,
            });
        }
    }
    None
}

/// The same seed, with nothing more begun as early as it still breaks.
fn cut_short(mut broken: Broken, fails: Fails<'_>) -> Broken {
    let mut too_short_us = 0;
    let most_us = broken.violation.at_us.min(broken.bounds.until_us);
    let mut until_us = most_us + 1;
    while until_us - too_short_us > 1_000 {
        let bounds = Bounds {
            until_us,
            ..broken.bounds.clone()
        };
        match fails(broken.seed, &bounds) {
            Some(violation) => {
                broken.bounds = bounds;
                broken.violation = violation;
            }
            // Where the end of the trouble itself is what it takes, it is left where it is.
            None if until_us == most_us + 1 => return broken,
            None => too_short_us = until_us,
        }
        let known_us = broken.bounds.until_us;
        until_us = too_short_us + (known_us - too_short_us) / 2;
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_it_does_not_take_is_left_out() {
        let broken = Broken {
            seed: 77,
            bounds: Bounds::default(),
            violation: violation(9_000_000),
        };
        let found = shrink(broken, &mut |_, bounds| {
            let breaks = bounds.clients_max >= 3
                && bounds.until_us > 2_000_000
                && !bounds.without.contains(&Cause::Crash)
                && !bounds.without.contains(&Cause::Evict);
            breaks.then(|| violation(9_000_000))
        });
        assert_eq!(found.bounds.clients_max, 3);
        assert!((2_000_000..2_002_000).contains(&found.bounds.until_us));
        assert_eq!(found.bounds.without.len(), Cause::ALL.len() - 2);
        assert!(
            found
                .command()
                .starts_with("helenus sim chaos --seed 77 --seeds 1 --clients 3 ")
        );
    }

    #[test]
    fn another_seed_may_take_the_place_of_the_first() {
        let broken = Broken {
            seed: 77,
            bounds: Bounds::default(),
            violation: violation(1),
        };
        let found = shrink(broken, &mut |seed, bounds| {
            let breaks = bounds.clients_max > 1 && seed == 77 || seed == 4;
            breaks.then(|| violation(1))
        });
        assert_eq!((found.seed, found.bounds.clients_max), (4, 1));
    }

    #[test]
    fn numbers_do_not_tell_two_kinds_apart() {
        assert_eq!(
            kind("client 3 has 4 of 25 keys"),
            kind("client 11 has 9 of 60 keys")
        );
        assert_ne!(kind("a panic"), kind("client 3 has 4 of 25 keys"));
    }

    fn violation(at_us: u64) -> Violation {
        Violation {
            at_us,
            what: "so the test".to_owned(),
        }
    }
}

//! Scenes that share nodes and build on each other, each with a test of its own.
//!
//! All scenes of a module are played, in order, when the first of their tests runs; whatever becomes of one, the next
//! is played, too.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The outcome of each scene.
pub struct Scenes {
    names: &'static [&'static str],
    played: Vec<(&'static str, Result<(), String>)>,
    /// Why no more were played.
    broken_off: Option<String>,
}

impl Scenes {
    pub fn play(names: &'static [&'static str], all: impl FnOnce(&mut Scenes)) -> Scenes {
        let mut scenes = Scenes {
            names,
            played: Vec::new(),
            broken_off: None,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| all(&mut scenes)));
        if let Err(panic) = outcome {
            let why = words(panic);
            // Also if all scenes had been played: what breaks behind the last is its failure.
            let last = scenes.played.last().map(|(name, _)| *name);
            if let Some(name) = last.or(names.first().copied()) {
                scenes.played.push((name, Err(why.clone())));
            }
            scenes.broken_off = Some(why);
        }
        scenes
    }

    /// Plays one.
    pub fn scene(&mut self, name: &'static str, act: impl FnOnce()) {
        assert!(self.names.contains(&name), "no test is called {name}");
        println!("scene {name}");
        let outcome = catch_unwind(AssertUnwindSafe(act)).map_err(words);
        self.played.push((name, outcome));
    }

    /// Fails as often as the scene was not played, or not well.
    pub fn check(&self, name: &str) {
        let played = || self.played.iter().filter(|(played, _)| *played == name);
        for (_, outcome) in played() {
            if let Err(why) = outcome {
                panic!("{why}");
            }
        }
        let why = self.broken_off.as_deref().unwrap_or("nobody plays it");
        assert!(played().count() > 0, "not played: {why}");
    }
}

fn words(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

/// `scenes!(play; names)`: a test for each scene. `play` is given the [`Scenes`](crate::scenes::Scenes), and plays all.
#[macro_export]
macro_rules! scenes {
    ($play:expr; $($scene:ident),* $(,)?) => {
        static SCENES: std::sync::LazyLock<$crate::scenes::Scenes> = std::sync::LazyLock::new(|| {
            $crate::scenes::Scenes::play(&[$(stringify!($scene)),*], $play)
        });

        mod scene {
            $(
                #[test]
                fn $scene() {
                    super::SCENES.check(stringify!($scene));
                }
            )*
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_failed(scenes: &Scenes, name: &str) -> bool {
        catch_unwind(AssertUnwindSafe(|| scenes.check(name))).is_err()
    }

    #[test]
    fn what_breaks_beside_the_scenes_is_the_failure_of_the_last() {
        let scenes = Scenes::play(&["first", "second"], |scenes| {
            scenes.scene("first", || {});
            scenes.scene("second", || {});
            panic!("the proxy has ended");
        });
        assert!(!has_failed(&scenes, "first") && has_failed(&scenes, "second"));
        let scenes = Scenes::play(&["first", "second"], |_| panic!("no node"));
        assert!(has_failed(&scenes, "first") && has_failed(&scenes, "second"));
    }

    #[test]
    fn a_scene_that_fails_once_has_failed_and_the_next_is_played() {
        let scenes = Scenes::play(&["often", "next"], |scenes| {
            for round in 0..3 {
                scenes.scene("often", || assert_ne!(round, 1));
            }
            scenes.scene("next", || {});
        });
        assert!(has_failed(&scenes, "often") && !has_failed(&scenes, "next"));
    }
}

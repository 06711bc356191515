//! Typical work of requests of each class at present, whatever their statements: it counts for those of which nothing
//! else is known.
//!
//! Without it a text that is another one each time would pass for an empty node's read of a row, however busy nodes are:
//! it would go before all that is known to take what it takes, and be charged next to nothing for it.

use helenus_policy::predict::Estimate;
use helenus_policy::schedule::Class;

use super::mean::{moved, service_inertia};

/// In microseconds, by class; 0 before the first answer.
#[derive(Debug, Default)]
pub(crate) struct Typical([u32; Class::COUNT]);

impl Typical {
    /// An answer took this long from sending.
    pub(crate) fn note(&mut self, class: Class, service_us: u32) {
        let known = &mut self.0[class as usize];
        *known = moved(*known, service_us, service_inertia(*known, service_us));
    }

    /// The work of a request. Scans differ too much from each other.
    pub(super) fn us(&self, class: Class) -> u32 {
        match self.0[class as usize] {
            us if us > 0 && class != Class::Scan => us,
            _ => Estimate::of_class(class).typical_us(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::learned::Learned;

    #[test]
    fn a_new_text_is_taken_for_what_others_of_its_class_take() {
        let (new, mut typical) = (Learned::default(), Typical::default());
        let prior = Estimate::of_class(Class::Point).typical_us();
        assert_eq!(new.service_us_or(Class::Point, &typical), prior);
        (0..100).for_each(|_| typical.note(Class::Point, 20_000));
        assert_eq!(new.service_us_or(Class::Point, &typical), 20_000);
        let prior = Estimate::of_class(Class::Write).typical_us();
        assert_eq!(new.service_us_or(Class::Write, &typical), prior);
        (0..100).for_each(|_| typical.note(Class::Scan, 9));
        assert!(new.service_us_or(Class::Scan, &typical) > 9);
        new.note_answer(1, 300);
        assert_eq!(new.service_us_or(Class::Point, &typical), 300, "its own");
    }
}

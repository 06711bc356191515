//! The order in which waiting queries are served: the paper's six variants, and ours.

use std::fmt;
use std::str::FromStr;

/// Named as in the paper, except `Default`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Variant {
    /// First come, first served; ranges query one node after another.
    O,
    /// Points before ranges.
    ReS,
    /// Ranges query all their nodes at once.
    P,
    /// Both.
    ReSP,
    /// Parallel, and ranges with fewer nodes left go first.
    PRaS,
    /// All three.
    A,
    /// Least remaining work first, scan permits, adaptive window.
    #[default]
    Default,
}

impl Variant {
    pub const ALL: [Variant; 7] = [
        Variant::O,
        Variant::ReS,
        Variant::P,
        Variant::ReSP,
        Variant::PRaS,
        Variant::A,
        Variant::Default,
    ];

    /// True if points go before all ranges.
    pub fn points_first(self) -> bool {
        matches!(self, Variant::ReS | Variant::ReSP | Variant::A)
    }

    /// True if a range is sent to all the nodes it needs at once. The default leaves that to the caller, which
    /// knows whether those nodes are idle.
    pub fn parallel(self) -> bool {
        matches!(
            self,
            Variant::P | Variant::ReSP | Variant::PRaS | Variant::A
        )
    }

    /// True if ranges are ordered among themselves by nodes left, then rows.
    pub fn ranges_ordered(self) -> bool {
        matches!(self, Variant::PRaS | Variant::A)
    }

    /// True if it is one of the paper's: one queue, one fixed window, no permits.
    pub fn is_preset(self) -> bool {
        self != Variant::Default
    }

    pub fn name(self) -> &'static str {
        match self {
            Variant::O => "O",
            Variant::ReS => "ReS",
            Variant::P => "P",
            Variant::ReSP => "ReS+P",
            Variant::PRaS => "P+RaS",
            Variant::A => "A",
            Variant::Default => "default",
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No variant has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVariant(pub String);

impl fmt::Display for UnknownVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no scheduling variant is called {:?}; there are O, ReS, P, ReS+P, P+RaS, A and default",
            self.0
        )
    }
}

impl std::error::Error for UnknownVariant {}

impl FromStr for Variant {
    type Err = UnknownVariant;

    fn from_str(text: &str) -> Result<Self, UnknownVariant> {
        let found = Variant::ALL.into_iter().find(|v| v.name() == text);
        found.ok_or_else(|| UnknownVariant(text.to_owned()))
    }
}

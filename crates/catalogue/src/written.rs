//! How far layouts and encoded columns have come, as the catalogue names it.

/// How far a layout has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutState {
    /// Proxies write it, and nobody reads it.
    Writing,
    /// Proxies write it and read it.
    Ready,
    /// Derived, and known to have missed a write: nobody writes or reads it until it is compared with its table.
    Behind,
}

impl LayoutState {
    pub fn name(self) -> &'static str {
        match self {
            LayoutState::Writing => "writing",
            LayoutState::Ready => "ready",
            LayoutState::Behind => "behind",
        }
    }

    pub fn of_name(name: &str) -> Option<LayoutState> {
        let all = [
            LayoutState::Writing,
            LayoutState::Ready,
            LayoutState::Behind,
        ];
        all.into_iter().find(|state| state.name() == name)
    }
}

/// The form in which a value is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Text,
    Encoded,
}

/// From where to where the values of a column are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The form of all values before the first of them was written otherwise.
    pub from: Form,
    pub to: Form,
}

impl Way {
    const NAMES: [(&'static str, Form, Form); 4] = [
        ("encoded", Form::Text, Form::Encoded),
        ("text", Form::Encoded, Form::Text),
        // It was turned back.
        ("encoded again", Form::Encoded, Form::Encoded),
        ("text again", Form::Text, Form::Text),
    ];

    /// As the catalogue names it: as a goal.
    pub fn name(self) -> &'static str {
        let mut names = Way::NAMES.iter();
        let known = names.find(|(_, from, to)| (*from, *to) == (self.from, self.to));
        known.map_or("", |(name, ..)| name)
    }

    pub fn of_name(goal: &str) -> Option<Way> {
        let known = Way::NAMES.iter().find(|(name, ..)| *name == goal);
        known.map(|(_, from, to)| Way {
            from: *from,
            to: *to,
        })
    }
}

/// Which of the two columns is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The text alone: the other column may not be there yet, or is about to be dropped. Clients do not see it.
    Announced,
    /// The text; the encoded value is deleted. Before rows are encoded, and while they are taken back.
    Text,
    /// One value in both.
    Both,
    /// The encoded value; the text is deleted.
    Encoded,
    /// The encoded value, and no row has a text any more.
    EncodedOnly,
}

impl Written {
    /// In the order in which a column is encoded.
    pub const ALL: [Written; 5] = [
        Written::Announced,
        Written::Text,
        Written::Both,
        Written::Encoded,
        Written::EncodedOnly,
    ];

    /// As the catalogue names it.
    pub fn name(self) -> &'static str {
        match self {
            Written::Announced => "announced",
            Written::Text => "text",
            Written::Both => "both",
            Written::Encoded => "encoded",
            Written::EncodedOnly => "encoded_only",
        }
    }

    pub fn of_name(name: &str) -> Option<Written> {
        Written::ALL.into_iter().find(|state| state.name() == name)
    }

    /// True if rows may have values in the column of encoded ones.
    pub fn has_encoded(self) -> bool {
        self != Written::Announced
    }

    /// True if rows may have values in the text column.
    pub fn has_texts(self) -> bool {
        self != Written::EncodedOnly
    }

    /// True if a read that was made for this state finds every value while the column is in the other: one that
    /// looks at one of the two columns needs all proxies to write that.
    pub fn sees_all_of(self, other: Written) -> bool {
        match self {
            Written::Announced => !other.has_encoded(),
            Written::Text | Written::Both | Written::Encoded => true,
            // In the state both, other proxies may write texts already.
            Written::EncodedOnly => other.is_encoded(),
        }
    }

    /// True if the text is not written any more.
    pub fn is_encoded(self) -> bool {
        matches!(self, Written::Encoded | Written::EncodedOnly)
    }
}

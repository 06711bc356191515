//! How things look.

use ratatui::style::{Color, Modifier, Style};

/// Styles of everything that is drawn.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Theme {
    /// Without colours everything is said by words, and by what is bold or reversed.
    pub has_colours: bool,
}

impl Theme {
    fn coloured(self, colour: Color) -> Style {
        match self.has_colours {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    /// Style of secondary text.
    pub(super) fn faint(self) -> Style {
        self.coloured(Color::DarkGray)
    }

    pub(super) fn head(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

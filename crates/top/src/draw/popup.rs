//! Boxes over everything else: help, details of a row, a question.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::super::app::{App, Mode};
use super::super::details::{Details, QUESTION_SIZE, popup_size};
use super::theme::Theme;

const HELP: &[(&str, &str)] = &[
    ("1 … 9, 0, Tab", "what is shown; also ← and →"),
    ("j k ↓ ↑ PgDn PgUp", "up and down; g, G, Home, End"),
    ("s > <", "sort by the next or previous column"),
    ("r", "reverse the order"),
    ("/", "only rows with a text; Esc shows all"),
    ("Enter", "all that is known of a row"),
    ("K", "disconnect a client (in Clients)"),
    ("[ ]", "another proxy, or all together"),
    ("p, Space", "pause"),
    ("+ -", "look less, or more often"),
    ("Ctrl-L, Ctrl-Z", "draw anew, suspend"),
    ("q, Esc, Ctrl-C", "quit"),
];

pub(super) fn draw(app: &App, theme: Theme, frame: &mut Frame<'_>) {
    match &app.mode {
        Mode::Rows | Mode::Filter(_) => {}
        Mode::Help => draw_help(theme, frame),
        Mode::Details(details) => draw_details(details, theme, frame),
        Mode::Confirm(victim) => {
            let question = "Disconnect this client? y: yes, any other key: no";
            // First: no name is so long that it pushes the question away.
            let text = Text::from(vec![
                Line::styled(question, theme.bad()),
                Line::raw(""),
                Line::raw(victim.text.clone()),
            ]);
            let (width, height) = QUESTION_SIZE;
            let area = centred(frame.area(), width, height);
            let block = Block::bordered()
                .title(" Client ")
                .border_style(theme.bad());
            frame.render_widget(Clear, area);
            let text = Paragraph::new(text).wrap(Wrap { trim: false });
            frame.render_widget(text.block(block), area);
        }
    }
}

fn draw_help(theme: Theme, frame: &mut Frame<'_>) {
    let lines = HELP.iter().map(|(keys, what)| {
        Line::from(vec![
            Span::styled(format!(" {keys:<18}"), theme.head()),
            Span::raw(format!(" {what}")),
        ])
    });
    let text = Text::from_iter(lines);
    let area = centred(frame.area(), 64, HELP.len() as u16 + 2);
    let block = Block::bordered()
        .title(" Keys ")
        .title_bottom(" any key ends this ");
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).block(block), area);
}

fn draw_details(details: &Details, theme: Theme, frame: &mut Frame<'_>) {
    let whole = frame.area();
    let (width, height) = popup_size(whole.width, whole.height);
    let lines = details.on_screen(width);
    let all = lines.len();
    let seen = lines.into_iter().skip(details.scroll).take(height);
    let seen = seen
        .map(|(name, text)| Line::from(vec![Span::styled(name, theme.head()), Span::raw(text)]));
    let text = Text::from_iter(seen);
    let bottom = match all > height {
        true => {
            let last = (details.scroll + height).min(all);
            format!(
                " lines {} to {last} of {all}, Esc ends this ",
                details.scroll + 1
            )
        }
        false => " Esc ends this ".to_owned(),
    };
    let area = centred(whole, width as u16 + 2, height.min(all) as u16 + 2);
    let block = Block::bordered()
        .title(format!(" {} ", details.title))
        .title_bottom(bottom);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).block(block), area);
}

/// An area of a size in the middle of another, as far as it fits.
fn centred(within: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(within.width), height.min(within.height));
    Rect {
        x: within.x + (within.width - width) / 2,
        y: within.y + (within.height - height) / 2,
        width,
        height,
    }
}

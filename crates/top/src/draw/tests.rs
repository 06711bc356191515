//! Screens as text. `HELENUS_UPDATE_SCREENS=1 cargo test -p helenus-top` writes what is drawn now into
//! `screens/`: look at the difference before it is committed.

use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::super::app::{App, Input};
use super::super::tab::Tab;
use super::super::testing::{looked, press};
use super::{Theme, draw};

const PLAIN: Theme = Theme { has_colours: false };

fn drawn(app: &mut App, width: u16, height: u16, theme: Theme) -> Terminal<TestBackend> {
    app.update(Input::Resized(width, height), app.now_ms);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| draw(app, theme, frame))
        .expect("drawn");
    terminal
}

fn text_of(terminal: &Terminal<TestBackend>) -> String {
    let buffer = terminal.backend().buffer();
    let lines = buffer
        .content()
        .chunks(buffer.area.width.into())
        .map(|cells| {
            let line: String = cells.iter().map(|cell| cell.symbol()).collect();
            line.trim_end().to_owned() + "\n"
        });
    lines.collect()
}

fn check(name: &str, mut app: App) {
    let shown = text_of(&drawn(&mut app, 80, 24, PLAIN));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/draw/screens");
    let path = folder.join(format!("{name}.txt"));
    if std::env::var_os("HELENUS_UPDATE_SCREENS").is_some() {
        std::fs::write(&path, &shown).expect("written");
    }
    let expected = std::fs::read_to_string(&path).expect("a screen");
    assert_eq!(shown, expected, "{name} looks otherwise:\n{shown}");
}

#[test]
fn the_overview_shows_figures_their_course_and_all_proxies() {
    check(
        "overview",
        looked(&["127.0.0.1:9180"], Tab::Overview, 30, &[]),
    );
    let names = ["10.0.0.1:9180", "10.0.0.2:9180", "10.0.0.3:9180"];
    check(
        "overview-of-several",
        looked(&names, Tab::Overview, 30, &[1]),
    );
}

#[test]
fn tables_show_what_fits() {
    let one = |tab| looked(&["127.0.0.1:9180"], tab, 3, &[]);
    for (name, tab) in [
        ("nodes", Tab::Nodes),
        ("clients", Tab::Clients),
        ("statements", Tab::Statements),
        ("slow", Tab::Slow),
        ("errors", Tab::Errors),
        ("keys", Tab::Keys),
        ("queues", Tab::Queues),
        ("pools", Tab::Pools),
    ] {
        check(name, one(tab));
    }
    let mut app = looked(&["10.0.0.1:9180", "10.0.0.2:9180"], Tab::Clients, 3, &[]);
    press(&mut app, "/shop<enter>s<end>");
    check("clients-of-several", app);
}

#[test]
fn popups_are_over_everything_else() {
    let mut app = looked(&["127.0.0.1:9180"], Tab::Slow, 3, &[]);
    press(&mut app, "j<enter>");
    check("slow-details", app);
    let mut app = looked(&["127.0.0.1:9180"], Tab::Overview, 3, &[]);
    press(&mut app, "?");
    check("help", app);
    let mut app = looked(&["127.0.0.1:9180"], Tab::Clients, 3, &[]);
    press(&mut app, "K");
    check("kill", app);
}

#[test]
fn any_size_can_be_drawn() {
    for keys in ["", "2", "3", "3K", "5<enter>", "?", "4/x"] {
        let mut app = looked(&["10.0.0.1:9180", "10.0.0.2:9180"], Tab::Overview, 2, &[1]);
        press(&mut app, keys);
        for (width, height) in [
            (1, 1),
            (2, 30),
            (10, 3),
            (40, 10),
            (79, 23),
            (200, 5),
            (300, 100),
        ] {
            drawn(&mut app, width, height, PLAIN);
        }
    }
}

#[test]
fn without_colours_nothing_is_coloured() {
    for (has_colours, theme) in [(false, PLAIN), (true, Theme { has_colours: true })] {
        let mut app = looked(&["a:1", "b:1"], Tab::Overview, 5, &[1]);
        let terminal = drawn(&mut app, 80, 24, theme);
        let cells = terminal.backend().buffer().content().iter();
        let mut coloured = cells.filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(coloured.next().is_some(), has_colours);
    }
}

#[test]
fn on_narrow_screens_the_chosen_tab_is_seen() {
    let mut app = looked(&["a:1"], Tab::Pools, 2, &[]);
    let shown = text_of(&drawn(&mut app, 30, 10, PLAIN));
    let tabs = shown.lines().nth(1).unwrap_or_default();
    assert!(tabs.starts_with('…') && tabs.contains("9Pools"), "{tabs}");
    let shown = text_of(&drawn(&mut app, 120, 10, PLAIN));
    assert!(shown.contains("1 Overview  2 Nodes"), "{shown}");
}

#[test]
fn any_screen_is_drawn_whatever_its_size() {
    let tabs = Tab::ALL.map(|tab| (tab, ""));
    let popups = ["?", "<enter>", "K", "/"].map(|keys| (Tab::Clients, keys));
    for (tab, keys) in tabs.into_iter().chain(popups) {
        let mut app = looked(&["a:1", "b:1"], tab, 3, &[1]);
        press(&mut app, keys);
        for width in [0, 1, 2, 5, 13, 40, 200] {
            for height in [0, 1, 2, 4, 6, 30] {
                drawn(&mut app, width, height, PLAIN);
            }
        }
    }
}

#[test]
fn a_question_that_cannot_be_seen_is_not_asked() {
    let long = "x".repeat(2_000);
    for (size, is_asked) in [((54, 5), true), ((53, 5), false), ((54, 4), false)] {
        let mut app = looked(&["a:1"], Tab::Clients, 3, &[]);
        app.rows[0].value["application"] = long.clone().into();
        drawn(&mut app, size.0, size.1, PLAIN);
        press(&mut app, "K");
        let shown = text_of(&drawn(&mut app, size.0, size.1, PLAIN));
        let question = "Disconnect this client? y: yes, any other key: no";
        assert_eq!(shown.contains(question), is_asked, "{size:?}:\n{shown}");
        assert_eq!(press(&mut app, "y").is_some(), is_asked, "{size:?}");
    }
}

#[test]
fn thousands_of_rows_are_drawn_as_far_as_they_are_seen() {
    let mut app = looked(&["a:1"], Tab::Clients, 3, &[]);
    let row = app.rows[0].clone();
    app.rows = (0..5_000)
        .map(|number| {
            let mut row = row.clone();
            row.value["id"] = number.to_string().into();
            row.value["application"] = "漢字\u{202e}\u{1b}[2J".into();
            row
        })
        .collect();
    press(&mut app, "G");
    let shown = text_of(&drawn(&mut app, 80, 24, PLAIN));
    assert!(!shown.contains(['\u{202e}', '\u{1b}']), "{shown}");
    assert_eq!(shown.lines().count(), 24);
}

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::testing::{NOW_MS, answer, looked, press};
use super::*;

fn feeds(asks: &[Ask]) -> Vec<(usize, Feed)> {
    asks.iter().map(|ask| (ask.proxy, ask.feed)).collect()
}

fn selected(app: &App) -> String {
    let row = app.selected_row().expect("a row");
    row.value["id"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn each_round_asks_once_and_never_twice_at_a_time() {
    let mut app = App::new(vec!["a".to_owned(), "b".to_owned()], Tab::Slow, 1_000);
    let asks = app.due(NOW_MS);
    let expected = [
        (0, Feed::Snapshot),
        (1, Feed::Snapshot),
        (0, Feed::Errors),
        (0, Feed::Events),
        (1, Feed::Errors),
        (1, Feed::Events),
        (0, Feed::Slow),
        (1, Feed::Slow),
    ];
    assert_eq!(feeds(&asks), expected);
    // None of them has answered: nothing is asked again, however long that takes.
    assert_eq!(app.due(NOW_MS + 500), []);
    assert_eq!(app.due(NOW_MS + 60_000), []);
    for ask in asks.iter().filter(|ask| ask.proxy == 0) {
        app.update(
            Input::Answered(ask.clone(), answer(ask, 1)),
            NOW_MS + 60_000,
        );
    }
    assert_eq!(app.next_ms(), Some(NOW_MS + 61_000));
    let asks = app.due(NOW_MS + 61_000);
    assert_eq!(
        feeds(&asks),
        [(0, Feed::Snapshot), (0, Feed::Errors), (0, Feed::Slow)]
    );
}

#[test]
fn what_is_switched_to_is_asked_for_at_once() {
    let mut app = looked(&["a"], Tab::Overview, 2, &[]);
    press(&mut app, "3");
    assert_eq!(app.tab, Tab::Clients);
    assert_eq!(feeds(&app.due(app.now_ms)), [(0, Feed::Clients)]);
    press(&mut app, "<tab><tab>");
    assert_eq!(app.tab, Tab::Slow);
    press(&mut app, "<backtab>");
    assert_eq!(app.tab, Tab::Statements);
    // There is no tab for what proxies do not know.
    press(&mut app, "0");
    assert_eq!(app.tab, Tab::Statements);
    assert!(!app.tabs().contains(&Tab::Events) && !app.tabs().contains(&Tab::Layouts));
}

#[test]
fn a_pause_asks_nothing_and_its_end_asks_at_once() {
    let mut app = looked(&["a"], Tab::Overview, 2, &[]);
    press(&mut app, "p");
    assert_eq!(
        (app.due(app.now_ms + 10_000), app.next_ms()),
        (vec![], None)
    );
    press(&mut app, " ");
    assert!(!app.due(app.now_ms).is_empty());
}

#[test]
fn the_pace_is_changed_in_steps() {
    let mut app = looked(&["a"], Tab::Overview, 1, &[]);
    press(&mut app, "+");
    assert_eq!(
        (app.every_ms, app.next_ms()),
        (2_000, Some(app.now_ms + 1_000))
    );
    press(&mut app, "----------");
    assert_eq!((app.every_ms, app.next_ms()), (250, Some(app.now_ms + 250)));
    press(&mut app, "==================");
    assert_eq!(app.every_ms, 60_000);
}

#[test]
fn the_selected_row_stays_selected_wherever_it_goes() {
    let mut app = looked(&["a"], Tab::Clients, 1, &[]);
    // By requests in flight, the most first.
    assert_eq!(selected(&app), "1f-0-6");
    press(&mut app, "jj");
    let known = selected(&app);
    assert_eq!(known, "1f-0-20");
    press(&mut app, "r");
    assert_eq!(
        (selected(&app), app.list().selected > 30),
        (known.clone(), true)
    );
    press(&mut app, "/0.20:<enter>");
    assert_eq!((selected(&app), app.list().selected), (known.clone(), 0));
    press(&mut app, "<esc>r");
    assert_eq!((selected(&app), app.list().selected), (known, 2));
    // The first row is the first, whoever it is.
    press(&mut app, "gr");
    assert_eq!(selected(&app), "1f-0-7");
}

#[test]
fn the_selected_row_is_on_the_screen() {
    let mut app = looked(&["a"], Tab::Clients, 1, &[]);
    let page = app.page();
    assert_eq!(page, 19);
    for (keys, selected, offset) in [
        ("<end>", 39, 21),
        ("k", 38, 21),
        ("g", 0, 0),
        ("<pgdn>", 19, 1),
        ("<pgdn><pgdn>", 39, 21),
        ("<down>", 39, 21),
    ] {
        press(&mut app, keys);
        assert_eq!(
            (app.list().selected, app.list().offset),
            (selected, offset),
            "{keys}"
        );
    }
    app.update(Input::Resized(80, 60), app.now_ms);
    assert_eq!((app.list().selected, app.list().offset), (39, 0));
    app.update(Input::Resized(80, 4), app.now_ms);
    assert_eq!((app.list().selected, app.list().offset), (39, 39));
}

#[test]
fn rows_are_sorted_by_any_column() {
    let mut app = looked(&["a"], Tab::Clients, 1, &[]);
    press(&mut app, "s");
    assert_eq!(app.tab.columns()[app.list().sort].title, "requests");
    assert_eq!(selected(&app), "1f-0-40");
    // Another column may bring other clients: the proxy is asked for these.
    let asks = app.due(app.now_ms);
    let clients = asks.iter().find(|ask| ask.feed == Feed::Clients);
    let path = &clients.expect("a question").path;
    assert!(path.contains("sort=requests"), "{path}");
    press(&mut app, "<r");
    assert_eq!(app.tab.columns()[app.list().sort].title, "in flight");
    assert_eq!(selected(&app), "1f-0-7");
    for _ in 0..Tab::Clients.columns().len() {
        press(&mut app, ">");
    }
    assert_eq!(app.tab.columns()[app.list().sort].title, "in flight");
}

#[test]
fn filters_are_written_kept_and_dropped() {
    let mut app = looked(&["a"], Tab::Statements, 1, &[]);
    press(&mut app, "/fILT");
    assert_eq!((app.rows.len(), app.rows_of_all()), (1, 2));
    press(&mut app, "<back><back><back><back>x");
    assert_eq!((app.rows.len(), &*app.list().filter), (0, "x"));
    press(&mut app, "<esc>");
    assert_eq!((app.rows.len(), &app.mode), (2, &Mode::Rows));
    // In a filter keys are text and have no other effect.
    press(&mut app, "/qpK<enter>");
    assert_eq!((&*app.list().filter, app.is_paused), ("qpK", false));
    // Of another table it is another.
    press(&mut app, "5");
    assert_eq!((&*app.list().filter, app.tab), ("", Tab::Slow));
    assert_eq!(press(&mut app, "4<esc>"), None);
    assert_eq!(press(&mut app, "<esc>"), Some(Wish::Quit));
}

#[test]
fn several_proxies_are_shown_together_or_one_by_one() {
    let mut app = looked(&["a:1", "b:1"], Tab::Clients, 2, &[]);
    assert_eq!((app.rows.len(), app.names_proxies()), (80, true));
    let of_all = app.moment().expect("a moment").reads_per_s;
    press(&mut app, "]");
    assert_eq!(
        (app.shown, app.rows.len(), app.names_proxies()),
        (Some(0), 40, false)
    );
    assert_eq!(app.moment().expect("a moment").reads_per_s * 2.0, of_all);
    press(&mut app, "]]");
    assert_eq!(app.shown, None);
    press(&mut app, "[");
    assert_eq!(app.shown, Some(1));
    // Partitions are added up.
    press(&mut app, "[[7");
    for ask in app.due(app.now_ms) {
        let answer = answer(&ask, 2);
        app.update(Input::Answered(ask, answer), app.now_ms);
    }
    assert_eq!(
        (app.rows.len(), &app.rows[0].value["reads_per_s"]),
        (1, &Value::from(18.0))
    );
}

#[test]
fn a_proxy_that_does_not_answer_is_asked_again() {
    let mut app = looked(&["a:1", "b:1"], Tab::Nodes, 3, &[1]);
    let (why, since_ms) = app.proxies[1].failure.clone().expect("a failure");
    assert_eq!((&*why, since_ms), ("Connection refused", NOW_MS + 1_000));
    assert_eq!(app.rows.len(), 2);
    let asks = app.due(app.now_ms + 1_000);
    let ask = asks
        .into_iter()
        .find(|ask| ask.proxy == 1 && ask.feed == Feed::Snapshot);
    let ask = ask.expect("asked again");
    let answer = answer(&ask, 4);
    app.update(Input::Answered(ask, answer), app.now_ms);
    assert_eq!((app.proxies[1].failure.clone(), app.rows.len()), (None, 4));
}

#[test]
fn a_client_is_disconnected_only_after_a_yes() {
    let mut app = looked(&["a:1", "b:1"], Tab::Clients, 1, &[]);
    press(&mut app, "]]");
    for no in ["n", "<esc>", "<enter>", "K"] {
        assert_eq!(press(&mut app, "K"), None);
        assert!(matches!(app.mode, Mode::Confirm(_)));
        assert_eq!(press(&mut app, no), None, "{no}");
        assert_eq!(app.mode, Mode::Rows);
    }
    // Whoever has moved below the question is not the one.
    press(&mut app, "jK");
    let Mode::Confirm(victim) = &app.mode else {
        panic!("no question");
    };
    assert!(
        victim
            .text
            .starts_with("1f-0-13 at 10.1.0.13:50000, role “app”"),
        "{}",
        victim.text
    );
    app.lists
        .get_mut(&Tab::Clients)
        .expect("a list")
        .is_reversed = true;
    app.refresh();
    let wish = press(&mut app, "y");
    let id = "1f-0-13".to_owned();
    assert_eq!(wish, Some(Wish::Kill { proxy: 1, id }));
    app.update(
        Input::Acted(Err("this token \u{1b}only reads".to_owned())),
        app.now_ms,
    );
    assert_eq!(
        app.note,
        Some((false, "this token \u{fffd}only reads".to_owned()))
    );
    // Elsewhere there is nobody to disconnect.
    press(&mut app, "2K");
    assert_eq!(app.mode, Mode::Rows);
    assert!(
        app.note
            .as_ref()
            .is_some_and(|(_, text)| text.contains("Clients"))
    );
}

#[test]
fn details_scroll_as_far_as_there_is_something() {
    let mut app = looked(&["a"], Tab::Slow, 1, &[]);
    app.update(Input::Resized(80, 10), app.now_ms);
    press(&mut app, "<enter>");
    let scroll = |app: &App| match &app.mode {
        Mode::Details(details) => details.scroll,
        other => panic!("{other:?}"),
    };
    press(&mut app, "k");
    assert_eq!(scroll(&app), 0);
    press(&mut app, "<end>");
    let most = scroll(&app);
    assert!(most > 10, "{most}");
    press(&mut app, "jk");
    assert_eq!(scroll(&app), most - 1);
    press(&mut app, "q");
    assert_eq!(app.mode, Mode::Rows);
}

#[test]
fn quitting_works_from_everywhere() {
    for keys in ["", "?", "/x", "3K", "5<enter>"] {
        let mut app = looked(&["a"], Tab::Overview, 1, &[]);
        press(&mut app, keys);
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.on_key(key, NOW_MS), Some(Wish::Quit), "{keys}");
    }
}

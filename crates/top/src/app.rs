//! The whole state of the live view, without a terminal, a clock or a network.
//!
//! Answers, keys and the passing of time go in by [`App::update`], [`App::on_key`] and [`App::due`]; what comes out
//! is what to ask proxies for, and what to do. `draw` shows the state.

mod keys;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use helenus_console::cells::printable;
use serde_json::Value;

use super::details::Details;
use super::history;
use super::moments::Moments;
use super::proxy::{Failed, Proxy, merged_keys};
use super::snapshot::Moment;
use super::tab::{Feed, Tab, clients_by};

/// Partitions shown.
const KEYS_MAX: usize = 100;
/// Lines that do not belong to the rows: title, tabs, status, head of the table, hints.
const OTHER_LINES: u16 = 5;

/// Inputs other than keys.
#[derive(Debug)]
pub(super) enum Input {
    Resized(u16, u16),
    Answered(Ask, Result<Value, Failed>),
    /// The outcome of an action.
    Acted(Result<String, String>),
}

/// A question to a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// Its place in the list.
    pub proxy: usize,
    pub feed: Feed,
    pub path: String,
    round: u64,
}

/// An action that the view wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    /// Draw all anew: something else has written to the terminal.
    Redraw,
    /// Let the shell have the terminal for a while.
    Suspend,
    /// Disconnect a client of a proxy.
    Kill {
        proxy: usize,
        id: String,
    },
}

/// The subject of keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Rows,
    /// The filter is being written; what it was before.
    Filter(String),
    Help,
    Details(Details),
    /// The question whether a client is to be disconnected.
    Confirm(Victim),
}

/// A client that somebody wants to disconnect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Victim {
    proxy: usize,
    id: String,
    /// Who it is.
    pub text: String,
}

/// A row of a table, and of which proxy it is; None of all together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub proxy: Option<usize>,
    pub value: Value,
}

/// How a table is looked at.
#[derive(Debug)]
pub(super) struct List {
    pub sort: usize,
    pub is_reversed: bool,
    pub filter: String,
    pub selected: usize,
    /// The first row on the screen.
    pub offset: usize,
    /// The selected row, wherever it goes; none: the first, whichever it is.
    follows: Option<String>,
}

/// The state.
pub(super) struct App {
    pub proxies: Vec<Proxy>,
    /// The one that is shown; none: all together.
    pub shown: Option<usize>,
    pub tab: Tab,
    pub mode: Mode,
    pub is_paused: bool,
    pub every_ms: u64,
    /// The outcome of the last action, until the next key; true if it went well.
    pub note: Option<(bool, String)>,
    /// Proxies are asked for their history.
    pub wants_past: bool,
    /// Of the tab, filtered and sorted.
    pub rows: Vec<Row>,
    /// In milliseconds since 1970.
    pub now_ms: u64,
    size: (u16, u16),
    lists: BTreeMap<Tab, List>,
    moments: Moments,
    in_flight: BTreeSet<(usize, Feed)>,
    round: u64,
    next_ms: u64,
}

impl App {
    pub(super) fn new(names: Vec<String>, tab: Tab, every_ms: u64) -> App {
        let list = |tab: &Tab| {
            let list = List {
                sort: tab.sorted_by(),
                is_reversed: false,
                filter: String::new(),
                selected: 0,
                offset: 0,
                follows: None,
            };
            (*tab, list)
        };
        App {
            shown: (names.len() == 1).then_some(0),
            proxies: names.into_iter().map(Proxy::new).collect(),
            tab,
            mode: Mode::Rows,
            is_paused: false,
            every_ms,
            note: None,
            wants_past: false,
            rows: Vec::new(),
            now_ms: 0,
            size: (80, 24),
            lists: Tab::ALL.iter().map(list).collect(),
            moments: Moments::default(),
            in_flight: BTreeSet::new(),
            round: 0,
            next_ms: 0,
        }
    }

    /// Takes what has happened.
    pub(super) fn update(&mut self, input: Input, now_ms: u64) {
        self.now_ms = now_ms;
        match input {
            Input::Resized(width, height) => {
                self.size = (width, height);
                self.scroll_to_selected();
            }
            Input::Answered(ask, answer) => self.on_answer(&ask, answer),
            Input::Acted(result) => {
                self.note = Some(match result {
                    Ok(text) => (true, text),
                    Err(text) => (false, printable(&text)),
                });
            }
        }
    }

    /// The questions that proxies are to be asked now.
    pub(super) fn due(&mut self, now_ms: u64) -> Vec<Ask> {
        self.now_ms = now_ms;
        if self.is_paused {
            return Vec::new();
        }
        let is_round = now_ms >= self.next_ms;
        let mut asks = Vec::new();
        if is_round {
            self.round += 1;
            self.next_ms = now_ms + self.every_ms;
            let all = 0..self.proxies.len();
            let is_asked = |at: usize| self.ask(&mut asks, at, Feed::Snapshot);
            let is_asked: Vec<bool> = all.map(is_asked).collect();
            let asked = is_asked.iter().filter(|is_asked| **is_asked).count();
            // While nobody answers there is nothing to show.
            if asked > 0 {
                let proxies = self.proxies.iter().zip(is_asked);
                let known = proxies.map(|(proxy, is_asked)| match is_asked {
                    true => None,
                    false => proxy.moment.clone(),
                });
                self.moments.begin(self.round, asked, known.collect());
            }
            for at in 0..self.proxies.len() {
                self.ask(&mut asks, at, Feed::Errors);
                // The tab is there if there are any; a proxy with some may come later.
                if self.proxies[at].fed(Feed::Events).is_none() {
                    self.ask(&mut asks, at, Feed::Events);
                }
                if self.round == 1 && self.wants_past {
                    self.ask(&mut asks, at, Feed::History);
                }
            }
        }
        if let Some(feed) = self.tab.feed() {
            for at in self.chosen() {
                // A tab that was just switched to does not wait for the next round.
                if is_round || self.proxies[at].fed(feed).is_none() {
                    self.ask(&mut asks, at, feed);
                }
            }
        }
        asks
    }

    /// Asks, unless the last question is still open; whether it does.
    fn ask(&mut self, asks: &mut Vec<Ask>, proxy: usize, feed: Feed) -> bool {
        // A proxy may know after an upgrade how to answer: it is asked again, rarely.
        let may_know = self.proxies[proxy].may_know(feed) || self.round.is_multiple_of(30);
        let is_new = may_know && self.in_flight.insert((proxy, feed));
        if is_new {
            let path = feed.path(clients_by(self.lists[&Tab::Clients].sort));
            asks.push(Ask {
                proxy,
                feed,
                path,
                round: self.round,
            });
        }
        is_new
    }

    /// When [`App::due`] has something new to say; None: not before the next key.
    pub(super) fn next_ms(&self) -> Option<u64> {
        (!self.is_paused).then_some(self.next_ms)
    }

    fn on_answer(&mut self, ask: &Ask, answer: Result<Value, Failed>) {
        self.in_flight.remove(&(ask.proxy, ask.feed));
        let now_ms = self.now_ms;
        let Some(proxy) = self.proxies.get_mut(ask.proxy) else {
            return;
        };
        if ask.feed == Feed::History {
            // Older proxies remember nothing.
            let past = answer.map(|answer| history::moments(&answer, self.every_ms));
            self.moments.remember(ask.proxy, past.unwrap_or_default());
            return;
        }
        proxy.on_answer(ask.feed, answer, now_ms);
        if ask.feed == Feed::Snapshot {
            self.moments
                .note(ask.round, ask.proxy, proxy.moment.clone());
        }
        self.refresh();
    }

    /// True if every question has been answered or has failed.
    pub(super) fn is_answered(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// The proxies that are shown.
    pub(super) fn chosen(&self) -> Vec<usize> {
        match self.shown {
            Some(at) => vec![at],
            None => (0..self.proxies.len()).collect(),
        }
    }

    pub(super) fn chosen_proxies(&self) -> Vec<&Proxy> {
        self.chosen()
            .into_iter()
            .map(|at| &self.proxies[at])
            .collect()
    }

    /// The tabs that there is something for.
    pub(super) fn tabs(&self) -> Vec<Tab> {
        let has = |tab: &Tab| self.proxies.iter().any(|proxy| proxy.has(*tab));
        Tab::ALL.into_iter().filter(has).collect()
    }

    /// Activity of the chosen proxies between the last two looks.
    pub(super) fn moment(&self) -> Option<Moment> {
        let chosen = self.chosen_proxies();
        let mut moments = chosen.iter().filter_map(|proxy| proxy.moment.as_ref());
        let mut sum = moments.next()?.clone();
        moments.for_each(|moment| sum.add(moment));
        Some(sum)
    }

    /// Activity of the chosen proxies in the last rounds, the latest last.
    pub(super) fn moments(&self, max: usize) -> Vec<Option<Moment>> {
        self.moments.last(&self.chosen(), max)
    }

    /// Bounds of the buckets of histograms: of all proxies the same.
    pub(super) fn bounds_us(&self) -> &[u64] {
        let mut snapshots = self
            .proxies
            .iter()
            .filter_map(|proxy| proxy.snapshot.as_ref());
        snapshots.next().map_or(&[], |snapshot| &snapshot.bounds_us)
    }

    /// How the tab's table is looked at.
    pub(super) fn list(&self) -> &List {
        &self.lists[&self.tab]
    }

    fn list_mut(&mut self) -> &mut List {
        self.lists.entry(self.tab).or_insert_with(|| List {
            sort: 0,
            is_reversed: false,
            filter: String::new(),
            selected: 0,
            offset: 0,
            follows: None,
        })
    }

    /// Rows that fit the screen.
    pub(super) fn page(&self) -> usize {
        usize::from(self.size.1.saturating_sub(OTHER_LINES).max(1))
    }

    pub(super) fn size(&self) -> (u16, u16) {
        self.size
    }

    /// True if rows name their proxy.
    pub(super) fn names_proxies(&self) -> bool {
        self.shown.is_none() && self.tab != Tab::Keys
    }

    /// How many rows there are without the filter.
    pub(super) fn rows_of_all(&self) -> usize {
        match self.tab {
            Tab::Keys => self.rows.len(),
            tab => self
                .chosen_proxies()
                .iter()
                .map(|proxy| proxy.rows(tab).len())
                .sum(),
        }
    }

    /// Puts the rows together again, after new answers or another wish.
    fn refresh(&mut self) {
        let tab = self.tab;
        let mut rows = match tab {
            Tab::Keys => self.key_rows(),
            _ => self.plain_rows(),
        };
        let list = &self.lists[&tab];
        if !list.filter.is_empty() {
            let wanted = list.filter.to_lowercase();
            rows.retain(|row| self.text_of(row).to_lowercase().contains(&wanted));
        }
        if let Some(column) = tab.columns().get(list.sort) {
            let is_reversed = list.is_reversed;
            rows.sort_by(|one, other| {
                let order = column.order(&one.value, &other.value);
                if is_reversed { order.reverse() } else { order }
            });
        }
        self.rows = rows;
        let follows = self.lists[&tab].follows.clone();
        let at = follows.and_then(|follows| {
            let mut rows = self.rows.iter();
            rows.position(|row| self.identity(row) == follows)
        });
        if let Some(at) = at {
            self.list_mut().selected = at;
        }
        self.scroll_to_selected();
    }

    fn plain_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for at in self.chosen() {
            let of_proxy = self.proxies[at].rows(self.tab).iter().map(|value| Row {
                proxy: Some(at),
                value: value.clone(),
            });
            rows.extend(of_proxy);
        }
        rows
    }

    fn key_rows(&self) -> Vec<Row> {
        let merged = merged_keys(&self.chosen_proxies(), KEYS_MAX);
        let keys = merged.and_then(|merged| serde_json::to_value(merged.keys).ok());
        let keys = keys.and_then(|keys| match keys {
            Value::Array(keys) => Some(keys),
            _ => None,
        });
        let rows = keys.unwrap_or_default().into_iter();
        rows.map(|value| Row { proxy: None, value }).collect()
    }

    /// All that its columns show, for the filter.
    fn text_of(&self, row: &Row) -> String {
        let cells = self.tab.columns().iter();
        let mut text: String = cells
            .map(|column| column.show(&row.value, self.now_ms) + "\n")
            .collect();
        if self.names_proxies() {
            text.push_str(self.name_of(row));
        }
        text
    }

    /// The proxy of a row.
    pub(super) fn name_of(&self, row: &Row) -> &str {
        let proxy = row.proxy.and_then(|at| self.proxies.get(at));
        proxy.map_or("", |proxy| &proxy.name)
    }

    fn identity(&self, row: &Row) -> String {
        format!("{:?}\0{}", row.proxy, self.tab.identity(&row.value))
    }

    fn selected_row(&self) -> Option<&Row> {
        self.rows.get(self.list().selected)
    }

    /// Keeps the selected row in the list, and on the screen.
    fn scroll_to_selected(&mut self) {
        let (rows, page) = (self.rows.len(), self.page());
        let list = self.list_mut();
        list.selected = list.selected.min(rows.saturating_sub(1));
        let least = (list.selected + 1).saturating_sub(page);
        list.offset = list.offset.clamp(least, list.selected.max(least));
        list.offset = list.offset.min(rows.saturating_sub(page));
    }
}

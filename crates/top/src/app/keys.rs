//! Effects of keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::super::details::{Details, QUESTION_SIZE_MIN, client_in_words, popup_size};
use super::{App, Mode, Tab, Victim, Wish};

/// Milliseconds between two looks, from which `+` and `-` choose.
const PACES_MS: [u64; 8] = [250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];
/// Of a filter.
const FILTER_CHARS_MAX: usize = 200;

fn is_control(key: KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL)
}

impl App {
    /// Takes a key; what is to be done.
    pub(in super::super) fn on_key(&mut self, key: KeyEvent, now_ms: u64) -> Option<Wish> {
        self.now_ms = now_ms;
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if is_control(key) {
            match key.code {
                KeyCode::Char('c' | 'C') => return Some(Wish::Quit),
                KeyCode::Char('z') => return Some(Wish::Suspend),
                KeyCode::Char('l') => return Some(Wish::Redraw),
                _ => {}
            }
        }
        self.note = None;
        match &self.mode {
            Mode::Rows => self.on_row_key(key),
            Mode::Filter(_) => {
                self.on_filter_key(key);
                None
            }
            Mode::Help => {
                self.mode = Mode::Rows;
                None
            }
            Mode::Details(_) => {
                self.on_details_key(key.code);
                None
            }
            Mode::Confirm(_) => self.on_confirm_key(key.code),
        }
    }

    fn on_row_key(&mut self, key: KeyEvent) -> Option<Wish> {
        if self.on_move_key(key) || is_control(key) {
            return None;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::F(10) => return Some(Wish::Quit),
            KeyCode::Esc if self.list().filter.is_empty() => return Some(Wish::Quit),
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.switch_by(1),
            KeyCode::BackTab | KeyCode::Left => self.switch_by(-1),
            KeyCode::Char(digit @ '0'..='9') => {
                // 0 is the tenth, as on keyboards.
                let at = (digit as usize - '0' as usize + 9) % 10;
                if let Some(tab) = self.tabs().get(at) {
                    self.switch_to(*tab);
                }
            }
            KeyCode::Char('s' | '>') => self.sort_by_next(1),
            KeyCode::Char('<') => self.sort_by_next(-1),
            KeyCode::Char('r') => {
                let list = self.list_mut();
                list.is_reversed = !list.is_reversed;
                self.refresh();
            }
            KeyCode::Char('/') if self.tab != Tab::Overview => {
                self.mode = Mode::Filter(self.list().filter.clone());
            }
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                self.next_ms = self.now_ms;
            }
            KeyCode::Char('+' | '=') => self.change_pace(1),
            KeyCode::Char('-') => self.change_pace(-1),
            KeyCode::Char(']') => self.show_next(1),
            KeyCode::Char('[') => self.show_next(-1),
            KeyCode::Char('K') => self.ask_to_kill(),
            KeyCode::Enter => self.show_details(),
            _ => {}
        }
        None
    }

    /// Moves within the rows; true if the key was one for that.
    fn on_move_key(&mut self, key: KeyEvent) -> bool {
        let page = self.page() as isize;
        let by = match key.code {
            KeyCode::Char('d') if is_control(key) => page / 2,
            KeyCode::Char('u') if is_control(key) => -page / 2,
            KeyCode::Char('f') if is_control(key) => page,
            KeyCode::Char('b') if is_control(key) => -page,
            KeyCode::Down | KeyCode::Char('j') => 1,
            KeyCode::Up | KeyCode::Char('k') => -1,
            KeyCode::PageDown => page,
            KeyCode::PageUp => -page,
            KeyCode::Home | KeyCode::Char('g') => isize::MIN,
            KeyCode::End | KeyCode::Char('G') => isize::MAX,
            _ => return false,
        };
        let last = self.rows.len().saturating_sub(1);
        let selected = self.list().selected.saturating_add_signed(by).min(last);
        self.list_mut().selected = selected;
        self.follow_selected();
        self.scroll_to_selected();
        true
    }

    /// The selected row stays selected wherever it goes, but for the first.
    fn follow_selected(&mut self) {
        let follows = match self.list().selected {
            0 => None,
            at => self.rows.get(at).map(|row| self.identity(row)),
        };
        self.list_mut().follows = follows;
    }

    fn switch_by(&mut self, by: isize) {
        let tabs = self.tabs();
        let at = tabs.iter().position(|tab| *tab == self.tab).unwrap_or(0);
        let to = (at as isize + by).rem_euclid(tabs.len() as isize);
        self.switch_to(tabs[to as usize]);
    }

    fn switch_to(&mut self, tab: Tab) {
        self.tab = tab;
        self.refresh();
    }

    fn sort_by_next(&mut self, by: isize) {
        let columns = self.tab.columns().len();
        if columns == 0 {
            return;
        }
        let list = self.list_mut();
        list.sort = (list.sort as isize + by).rem_euclid(columns as isize) as usize;
        list.is_reversed = false;
        self.refresh();
        if self.tab == Tab::Clients {
            // Others may come first now.
            self.next_ms = self.now_ms;
        }
    }

    fn change_pace(&mut self, by: isize) {
        let nearest = PACES_MS.iter().position(|pace| *pace >= self.every_ms);
        let at = nearest.unwrap_or(PACES_MS.len() - 1);
        let at = at.saturating_add_signed(by).min(PACES_MS.len() - 1);
        self.every_ms = PACES_MS[at];
        self.next_ms = self.next_ms.min(self.now_ms + self.every_ms);
    }

    /// All together, the first, the second, …
    fn show_next(&mut self, by: isize) {
        if self.proxies.len() < 2 {
            return;
        }
        let places = self.proxies.len() as isize + 1;
        let at = self.shown.map_or(0, |at| at as isize + 1);
        let to = (at + by).rem_euclid(places);
        self.shown = usize::try_from(to - 1).ok();
        self.refresh();
    }

    fn set_filter(&mut self, filter: String) {
        self.list_mut().filter = filter;
        self.refresh();
    }

    fn on_filter_key(&mut self, key: KeyEvent) {
        let mut filter = self.list().filter.clone();
        match key.code {
            KeyCode::Enter => self.mode = Mode::Rows,
            KeyCode::Esc => {
                let before = std::mem::replace(&mut self.mode, Mode::Rows);
                if let Mode::Filter(before) = before {
                    self.set_filter(before);
                }
            }
            KeyCode::Backspace if filter.is_empty() => self.mode = Mode::Rows,
            KeyCode::Backspace => {
                filter.pop();
                self.set_filter(filter);
            }
            KeyCode::Char('u') if is_control(key) => self.set_filter(String::new()),
            KeyCode::Char(char)
                if !is_control(key) && filter.chars().count() < FILTER_CHARS_MAX =>
            {
                filter.push(char);
                self.set_filter(filter);
            }
            _ => {}
        }
    }

    fn show_details(&mut self) {
        let Some(row) = self.selected_row() else {
            return;
        };
        let proxy = (self.proxies.len() > 1 && row.proxy.is_some()).then(|| self.name_of(row));
        let details = Details::new(self.tab, &row.value, proxy, self.now_ms);
        self.mode = Mode::Details(details);
    }

    fn on_details_key(&mut self, code: KeyCode) {
        let (columns, lines) = self.size();
        let (width, height) = popup_size(columns, lines);
        let page = height as isize;
        let Mode::Details(details) = &mut self.mode else {
            return;
        };
        let by = match code {
            KeyCode::Down | KeyCode::Char('j') => 1,
            KeyCode::Up | KeyCode::Char('k') => -1,
            KeyCode::PageDown | KeyCode::Char(' ') => page,
            KeyCode::PageUp => -page,
            KeyCode::Home | KeyCode::Char('g') => isize::MIN,
            KeyCode::End | KeyCode::Char('G') => isize::MAX,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => {
                self.mode = Mode::Rows;
                return;
            }
            _ => return,
        };
        let most = details.on_screen(width).len().saturating_sub(height);
        details.scroll = details.scroll.saturating_add_signed(by).min(most);
    }

    fn ask_to_kill(&mut self) {
        if self.tab != Tab::Clients {
            self.note = Some((
                false,
                "K disconnects a client: it works in Clients".to_owned(),
            ));
            return;
        }
        let Some(row) = self.selected_row() else {
            return;
        };
        let (width, height) = self.size();
        if width < QUESTION_SIZE_MIN.0 || height < QUESTION_SIZE_MIN.1 {
            let text = "too small a terminal to ask whether to disconnect it";
            self.note = Some((false, text.to_owned()));
            return;
        }
        if let (Some(proxy), Some(id)) = (row.proxy, row.value["id"].as_str()) {
            self.mode = Mode::Confirm(Victim {
                proxy,
                id: id.to_owned(),
                text: client_in_words(&row.value),
            });
        }
    }

    fn on_confirm_key(&mut self, code: KeyCode) -> Option<Wish> {
        let mode = std::mem::replace(&mut self.mode, Mode::Rows);
        let Mode::Confirm(victim) = mode else {
            return None;
        };
        match code {
            KeyCode::Char('y' | 'Y') => Some(Wish::Kill {
                proxy: victim.proxy,
                id: victim.id,
            }),
            _ => {
                self.note = Some((true, "nobody was disconnected".to_owned()));
                None
            }
        }
    }
}

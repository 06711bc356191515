//! Everything known of one proxy.

use std::collections::{BTreeMap, BTreeSet};

use helenus_admin_api::{Keys, Snapshot};
use serde::Deserialize;
use serde_json::Value;

use super::keys::Merged;
use super::snapshot::{Moment, layout_rows, node_rows};
use super::tab::{Feed, Tab};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub text: String,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Why {
    /// Nothing has come, or nothing that is understood.
    #[default]
    NoAnswer,
    /// It does not accept the token, or cannot do it.
    Refused,
    /// The proxy does not know what it was asked for.
    NotKnown,
}

/// Everything known of one proxy.
#[derive(Debug, Default)]
pub(super) struct Proxy {
    pub name: String,
    pub snapshot: Option<Snapshot>,
    /// Activity between the last two looks; none while it does not answer.
    pub moment: Option<Moment>,
    /// Why it has not answered last, and since when.
    pub failure: Option<(String, u64)>,
    /// Which failure that is.
    why: Why,
    /// Of what it was asked for beside that, why there is none.
    failures: BTreeMap<Feed, String>,
    not_known: BTreeSet<Feed>,
    fed: BTreeMap<Feed, Value>,
    nodes: Vec<Value>,
    layouts: Vec<Value>,
    /// When it was told how many errors there have been since its start.
    errors: Option<(u64, u64)>,
    errors_per_s: Option<f64>,
}

impl Proxy {
    pub(super) fn new(name: String) -> Proxy {
        Proxy {
            name,
            ..Proxy::default()
        }
    }

    /// Takes an answer to a question, at a time in milliseconds.
    pub(super) fn on_answer(&mut self, feed: Feed, answer: Result<Value, Failed>, now_ms: u64) {
        match (feed, answer) {
            (Feed::Snapshot, Ok(value)) => match Snapshot::deserialize(&value) {
                Ok(snapshot) => self.on_snapshot(snapshot, &value),
                Err(e) => {
                    let text = format!("its answer is not understood: {e}");
                    self.on_failure(&text, Why::NoAnswer, now_ms);
                }
            },
            (Feed::Snapshot, Err(failed)) => self.on_failure(&failed.text, failed.why, now_ms),
            (_, Ok(value)) => {
                if feed == Feed::Errors {
                    self.on_errors(&value, now_ms);
                }
                self.failures.remove(&feed);
                self.not_known.remove(&feed);
                self.fed.insert(feed, value);
            }
            (_, Err(failed)) => {
                if failed.why == Why::NotKnown {
                    self.not_known.insert(feed);
                }
                self.failures.insert(feed, failed.text);
            }
        }
    }

    fn on_snapshot(&mut self, snapshot: Snapshot, answer: &Value) {
        let before = self.snapshot.as_ref();
        self.nodes = node_rows(before, &snapshot, answer);
        self.layouts = layout_rows(before, &snapshot, answer);
        self.moment =
            before.and_then(|before| Moment::between(before, &snapshot, self.errors_per_s));
        self.snapshot = Some(snapshot);
        self.failure = None;
    }

    fn on_failure(&mut self, text: &str, why: Why, now_ms: u64) {
        let since_ms = self
            .failure
            .as_ref()
            .map_or(now_ms, |(_, since_ms)| *since_ms);
        self.failure = Some((text.to_owned(), since_ms));
        self.why = why;
        self.moment = None;
    }

    /// The failure, in two words.
    pub(super) fn failing(&self) -> &'static str {
        match (&self.failure, self.why) {
            (Some(_), Why::Refused) => "refused",
            _ => "no answer",
        }
    }

    fn on_errors(&mut self, value: &Value, now_ms: u64) {
        let by_code = value["by_code"].as_array().into_iter().flatten();
        let counts = by_code.filter_map(|of| of["count"].as_u64());
        let count = counts.fold(0, u64::saturating_add);
        let old = self.errors.replace((now_ms, count));
        self.errors_per_s = match old {
            // Fewer than before: it was restarted.
            Some((at_ms, old)) if at_ms < now_ms && old <= count => {
                Some((count - old) as f64 * 1e3 / (now_ms - at_ms) as f64)
            }
            _ => None,
        };
    }

    /// True if it is worth asking for this.
    pub(super) fn may_know(&self, feed: Feed) -> bool {
        !self.not_known.contains(&feed)
    }

    /// True if it has something to show there.
    pub(super) fn has(&self, tab: Tab) -> bool {
        match tab {
            Tab::Layouts => !self.layouts.is_empty(),
            Tab::Events => self.fed.contains_key(&Feed::Events),
            _ => true,
        }
    }

    /// Why a tab lacks its rows, or has old ones.
    pub(super) fn failure_of(&self, tab: Tab) -> Option<&str> {
        let of_feed = || self.failures.get(&tab.feed()?).map(String::as_str);
        let whole = self.failure.as_ref().map(|(text, _)| text.as_str());
        whole.or_else(of_feed)
    }

    /// The last answer.
    pub(super) fn fed(&self, feed: Feed) -> Option<&Value> {
        self.fed.get(&feed)
    }

    /// The rows of a tab.
    pub(super) fn rows(&self, tab: Tab) -> &[Value] {
        match (tab, tab.feed()) {
            (Tab::Nodes, _) => &self.nodes,
            (Tab::Layouts, _) => &self.layouts,
            (_, None) => &[],
            (_, Some(feed)) => {
                let rows = self.fed.get(&feed).and_then(|fed| fed.pointer(feed.rows()));
                rows.and_then(Value::as_array).map_or(&[], Vec::as_slice)
            }
        }
    }

    /// Errors by code since its start.
    pub(super) fn errors_by_code(&self) -> impl Iterator<Item = (&str, u64)> {
        let by_code = self.fed.get(&Feed::Errors).map(|fed| &fed["by_code"]);
        let by_code = by_code.and_then(Value::as_array).into_iter().flatten();
        by_code.filter_map(|of| Some((of["error"].as_str()?, of["count"].as_u64()?)))
    }
}

/// The hottest partitions of several proxies together.
pub(super) fn merged_keys(proxies: &[&Proxy], max: usize) -> Option<Merged> {
    let views = proxies.iter().filter_map(|proxy| proxy.fed(Feed::Keys));
    let views: Vec<Keys> = views
        .filter_map(|fed| Keys::deserialize(fed).ok())
        .collect();
    (!views.is_empty()).then(|| Merged::of(&views, max))
}

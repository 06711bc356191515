//! Questions to proxies, in tasks of their own: whoever draws never waits for them.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use helenus_console::admin::{Answer, Server};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::error::Elapsed;

use super::app::{Ask, Input};
use super::proxy::{Failed, Why};

/// A proxy that takes longer to answer is shown as one that does not.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whom to ask.
#[derive(Clone)]
pub(super) struct Servers {
    pub list: Arc<[Server]>,
    pub token: Option<Arc<str>>,
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}

/// Asks; the answer is an input.
pub(super) fn ask<T: From<Input> + Send + 'static>(
    servers: &Servers,
    ask: Ask,
    inputs: mpsc::Sender<T>,
) {
    let servers = servers.clone();
    tokio::spawn(async move {
        let answer = answer(&servers, &ask).await;
        // Nobody takes it any more when the program ends.
        let _ = inputs.send(Input::Answered(ask, answer).into()).await;
    });
}

/// The answer of a proxy.
pub(super) async fn answer(servers: &Servers, ask: &Ask) -> Result<Value, Failed> {
    let failed = |text, why| Failed { text, why };
    let Some(server) = servers.list.get(ask.proxy) else {
        return Err(failed("there is no such proxy".to_owned(), Why::NoAnswer));
    };
    let token = servers.token.as_deref();
    match server.ask(false, &ask.path, token, PATIENCE).await {
        Ok(Answer::Done(value)) => Ok(value),
        Ok(Answer::Refused(text) | Answer::NotAllowed(text)) => {
            Err(failed(text.replace('\n', " "), Why::Refused))
        }
        Ok(Answer::NotKnown(text)) => Err(failed(text, Why::NotKnown)),
        Err(e) => Err(failed(reason(&e), Why::NoAnswer)),
    }
}

/// Why there is no answer, in so few words that they fit a line; whom it is about is said before it.
fn reason(error: &anyhow::Error) -> String {
    let cause = error.root_cause();
    match cause.is::<Elapsed>() {
        true => format!("it takes longer than {PATIENCE:?}"),
        false => cause.to_string(),
    }
}

/// Disconnects a client; what has become of it is an input.
pub(super) fn kill<T: From<Input> + Send + 'static>(
    servers: &Servers,
    proxy: usize,
    id: String,
    inputs: mpsc::Sender<T>,
) {
    let servers = servers.clone();
    tokio::spawn(async move {
        let result = match servers.list.get(proxy) {
            Some(server) => {
                let path = kill_path(&id);
                let token = servers.token.as_deref();
                match server.ask(true, &path, token, PATIENCE).await {
                    Ok(Answer::Done(_)) => Ok(format!("client {id} is disconnected")),
                    Ok(
                        Answer::Refused(text) | Answer::NotAllowed(text) | Answer::NotKnown(text),
                    ) => Err(text),
                    Err(e) => Err(reason(&e)),
                }
            }
            None => Err("there is no such proxy".to_owned()),
        };
        let _ = inputs.send(Input::Acted(result).into()).await;
    });
}

/// Ids come from the proxy; whatever it says stays within the path.
fn kill_path(id: &str) -> String {
    let id: String = id
        .chars()
        .filter(|char| char.is_ascii_alphanumeric() || *char == '-')
        .collect();
    format!("/api/clients/{id}/kill")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_within_the_path() {
        assert_eq!(kill_path("a1-0-2f"), "/api/clients/a1-0-2f/kill");
        assert_eq!(kill_path("../../drain?"), "/api/clients/drain/kill");
    }
}

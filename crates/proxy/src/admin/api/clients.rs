//! The clients that are connected, as JSON.

use helenus_engine::SessionKey;
use helenus_engine::worker_status::{ClientOrder, ClientRow, Report, Wanted};
use helenus_wire::Compression;
use serde::Serialize;
use slotmap::{Key, KeyData};

use crate::admin::http::parameters;
use crate::process::Process;

const ROWS: u64 = 100;
const ROWS_MAX: u64 = 1_000;

#[derive(Debug, Serialize)]
pub(in crate::admin) struct ClientsView {
    /// How many there are, of which those follow that come first in the order asked for.
    all: usize,
    /// Workers that have not answered: their clients are missing.
    silent_workers: usize,
    clients: Vec<ClientView>,
}

#[derive(Debug, Serialize)]
struct ClientView {
    /// For `/api/clients/ID/kill`.
    id: String,
    address: String,
    /// Null where it cannot be told, or without authentication.
    role: Option<String>,
    /// By the client's own word, as are the next four.
    driver: Box<str>,
    driver_version: Box<str>,
    application: Box<str>,
    application_version: Box<str>,
    client_id: Box<str>,
    /// Null before anything is agreed.
    protocol: Option<u8>,
    tls: bool,
    compression: &'static str,
    keyspace: Option<Box<str>>,
    /// It has logged in, or need not.
    ready: bool,
    in_flight: usize,
    /// So far, but for what the proxy answers itself.
    requests: u64,
    bytes_in: u64,
    bytes_out: u64,
    age_s: f64,
    idle_s: f64,
    /// Nothing is read from it: it has too much in flight, or does not read its answers.
    held: bool,
}

/// The answer of `/api/clients`.
///
/// # Errors
/// A sentence about the parameter that is wrong.
pub(in crate::admin) async fn view(
    shared: &Process,
    query: Option<&str>,
) -> Result<ClientsView, String> {
    parameters::only(query, &["sort", "limit"])?;
    let by = order_of(parameters::text(query, "sort")?.as_deref())?;
    let max = parameters::number(query, "limit", ROWS, 1..=ROWS_MAX)? as usize;
    let answers = shared.ask_workers(Wanted::Clients { by, max }).await;
    let (mut rows, mut all) = (Vec::new(), 0);
    for report in answers.reports {
        if let Report::Clients(of_worker, count) = report {
            rows.extend(of_worker);
            all += count;
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(by.weight(&row.numbers)));
    rows.truncate(max);
    Ok(ClientsView {
        all,
        silent_workers: answers.silent,
        clients: rows
            .into_iter()
            .map(|row| client_view(shared.start_number, row))
            .collect(),
    })
}

fn order_of(name: Option<&str>) -> Result<ClientOrder, String> {
    Ok(match name {
        None | Some("in_flight") => ClientOrder::InFlight,
        Some("requests") => ClientOrder::Requests,
        Some("bytes") => ClientOrder::Bytes,
        Some("age") => ClientOrder::Age,
        Some("idle") => ClientOrder::Idle,
        Some(_) => {
            return Err("sort must be in_flight, requests, bytes, age or idle".to_owned());
        }
    })
}

fn client_view(start_number: u32, row: ClientRow) -> ClientView {
    ClientView {
        id: id_of(start_number, row.worker, row.key),
        address: row.address.to_string(),
        role: row.role.map(|role| role.to_string()),
        driver: row.kind.driver,
        driver_version: row.kind.driver_version,
        application: row.kind.application,
        application_version: row.kind.application_version,
        client_id: row.client_id,
        protocol: row.version.map(|version| version as u8),
        tls: row.is_encrypted,
        compression: match row.compression {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Snappy => "snappy",
        },
        keyspace: row.keyspace,
        ready: row.is_ready,
        in_flight: row.numbers.in_flight,
        requests: row.numbers.requests,
        bytes_in: row.numbers.bytes_in,
        bytes_out: row.numbers.bytes_out,
        age_s: super::shown::rounded(row.numbers.age.as_secs_f64()),
        idle_s: super::shown::rounded(row.numbers.idle.as_secs_f64()),
        held: row.is_held,
    }
}

/// Names a client for as long as the proxy runs: by the number of its start, since the next proxy uses the others
/// again, its worker, and its connection there.
pub(in crate::admin) fn id_of(start_number: u32, worker: usize, key: SessionKey) -> String {
    format!("{start_number:x}-{worker}-{:x}", key.data().as_ffi())
}

/// None if it is no such name, or another start's.
pub(in crate::admin) fn client_of(start_number: u32, id: &str) -> Option<(usize, SessionKey)> {
    let (start, id) = id.split_once('-')?;
    if u32::from_str_radix(start, 16).ok()? != start_number {
        return None;
    }
    let (worker, key) = id.split_once('-')?;
    let key = u64::from_str_radix(key, 16).ok()?;
    Some((worker.parse().ok()?, KeyData::from_ffi(key).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use slotmap::SlotMap;

    #[test]
    fn ids_name_clients_and_nothing_else_does() {
        let mut keys: SlotMap<SessionKey, ()> = SlotMap::with_key();
        for worker in 0..3 {
            let key = keys.insert(());
            let id = id_of(0xAB, worker, key);
            assert_eq!(client_of(0xAB, &id), Some((worker, key)), "{id}");
            assert_eq!(client_of(0xAC, &id), None, "another start");
        }
        for wrong in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "x-1",
            "1-x",
            "1-1",
            "ab-1",
            "ab-1-11111111111111111",
        ] {
            assert_eq!(client_of(0xAB, wrong), None, "{wrong}");
        }
    }
}

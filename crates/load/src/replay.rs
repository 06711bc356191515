//! Playing a capture against one or two endpoints.
//!
//! Each recorded connection is one connection to each endpoint. A capture is cut into pieces of equal time;
//! in each round the endpoints take turns with one piece, and who begins changes from round to round. Sending
//! never waits for answers, unless a closed loop is wanted; so an endpoint that falls behind cannot hide it.

mod answers;
mod fill;
mod options;
mod outcome;
mod play;
mod statements;
#[cfg(test)]
mod tests;
mod traffic;
mod values;

use std::path::Path;

use anyhow::{Result, ensure};

use crate::endpoint::Endpoint;
use crate::spread::rotation;

pub use options::Options;
pub use outcome::{Group, OfEndpoint, Outcome};

use outcome::Gathered;
use play::{Player, Sample};
use traffic::Traffic;

/// Plays a capture.
///
/// # Errors
/// It cannot be read, nothing of it can be played, or an endpoint cannot be reached.
pub async fn run(
    file: &Path,
    endpoints: &[Endpoint],
    options: Options,
    mut on_turn: impl FnMut(usize, &str),
) -> Result<Outcome> {
    ensure!(
        (1..=2).contains(&endpoints.len()),
        "a capture is played against one endpoint or two"
    );
    let mut traffic = Traffic::read(file, options.writes)?;
    ensure!(
        !(options.fill && traffic.has_values),
        "this capture has values, and its reads ask for them: --fill would write rows that nobody asks for"
    );
    let mut players = Vec::new();
    for endpoint in endpoints {
        players.push(Player::open(endpoint, &traffic).await?);
    }
    refuse_unprepared(&mut traffic, &players);
    ensure!(
        !traffic.steps.is_empty(),
        "nothing of this capture can be played: {}",
        traffic.reasons()
    );
    if options.fill {
        let rows = fill::fill(&players[0], &traffic).await?;
        traffic.filled = Some(rows);
    }
    let mut gathered = Gathered::new(endpoints.len());
    for round in 0..options.rounds {
        let piece = traffic.piece(round, options.rounds);
        let mut played: Vec<Vec<Sample>> = vec![Vec::new(); players.len()];
        for arm in rotation(players.len(), round) {
            on_turn(round, &endpoints[arm].name);
            played[arm] = players[arm].play(&traffic, piece.clone(), &options).await?;
        }
        gathered.add_round(&traffic, &played);
    }
    Ok(gathered.outcome(endpoints, &traffic))
}

/// Leaves out what an endpoint has refused to prepare, and what no values can be made up for.
fn refuse_unprepared(traffic: &mut Traffic, players: &[Player]) {
    for step in std::mem::take(&mut traffic.steps) {
        let whys = players.iter().map(|player| player.why_not(&step, traffic));
        match whys.flatten().next() {
            Some(why) => traffic.leave_out(why),
            None => traffic.steps.push(step),
        }
    }
}

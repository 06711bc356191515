//! Playing a capture against one or two endpoints.
//!
//! Each recorded connection is one connection to each endpoint. A capture is cut into pieces of equal time;
//! in each round the endpoints take turns with one piece, and who begins changes from round to round. Sending
//! never waits for answers, unless a closed loop is wanted; so an endpoint that falls behind cannot hide it. If this
//! machine falls behind, `pace` tells.

pub(crate) mod answers;
pub(crate) mod asking;
mod fill;
mod options;
mod outcome;
mod pace;
mod play;
pub(crate) mod statements;
pub(crate) mod step;
pub(crate) mod tally;
#[cfg(test)]
mod tests;
mod traffic;
mod values;

use std::path::Path;

use anyhow::{Result, ensure};

use crate::client::endpoint::Endpoint;
use crate::report::spread::rotation;

pub use options::Options;
pub use outcome::Outcome;
pub use pace::Pace;
pub use tally::{Group, OfEndpoint};

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
        let played = turns(&mut players, &traffic, &options, round, &mut on_turn).await;
        match played {
            Ok(played) => gathered.add_round(&traffic, &played, options.speed),
            // The results of earlier rounds are worth keeping.
            Err(e) if round > 0 => {
                traffic.broken_off = Some(format!("{e:#}"));
                break;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(gathered.outcome(endpoints, &traffic))
}

/// A round: each endpoint gets the same piece.
async fn turns(
    players: &mut [Player],
    traffic: &Traffic,
    options: &Options,
    round: usize,
    on_turn: &mut impl FnMut(usize, &str),
) -> Result<Vec<Vec<Sample>>> {
    let piece = traffic.piece(round, options.rounds);
    let mut played: Vec<Vec<Sample>> = vec![Vec::new(); players.len()];
    for arm in rotation(players.len(), round) {
        on_turn(round, players[arm].name());
        played[arm] = players[arm].play(traffic, piece.clone(), options).await?;
    }
    Ok(played)
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

//! A command that another one has taken over.

use anyhow::Result;
use helenus_rows::TableName;

use super::stage;
use crate::online::cluster::Cluster;

/// What the command of this number, which was at work, has failed with says so if another one has taken over: that one may
/// have dropped or emptied tables.
pub(super) async fn if_overtaken<T>(
    cluster: &Cluster,
    name: &TableName,
    created: i64,
    result: Result<T>,
) -> Result<T> {
    const OTHER: &str = "another command";
    let Err(why) = result else {
        return result;
    };
    let now = stage::read(cluster, name).await;
    let is_overtaken = now.is_ok_and(|now| now.created != Some(created));
    match is_overtaken && !why.to_string().starts_with(OTHER) {
        true => Err(why.context(format!(
            "{OTHER} has taken over {name} (see `helenus layouts status {name}`), and this one has ended"
        ))),
        false => Err(why),
    }
}

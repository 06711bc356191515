//! The first contact with the cluster.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use helenus_engine::config::Config;
use helenus_engine::snapshot::Snapshot;
use helenus_policy::route::Locality;

use crate::conn::{ConnError, Dialer};
use crate::control::{self, Control, NoControl, contact};
use crate::process::Process;
use crate::system::service_manager::{ServiceManager, State};

/// Tries the contact points until one responds: the proxy may be started before the cluster.
/// Settings may change in the meantime.
pub(crate) async fn first_control(
    common: &Process,
    manager: &ServiceManager,
) -> Result<(Control, Snapshot)> {
    let mut pause = Duration::from_millis(500);
    let mut unusable = contact::Unusable::default();
    loop {
        let config = common.settings.load_full();
        let dialer = (**common.dialer.load()).clone();
        let addresses = contact::resolve(&config.cluster.contact_points).await;
        let addresses = unusable.put_last(addresses);
        let failure = match Control::connect(&config, &dialer, &addresses).await {
            Ok(mut control) => match control.read(&config, None).await {
                Ok(snapshot) => return Ok(nearest(&config, &dialer, control, snapshot).await),
                Err(e) => {
                    tracing::warn!(node = %control.address(), "reading the schema failed: {e}");
                    unusable.note(control.address());
                    format!("{}: reading the schema failed: {e}", control.address())
                }
            },
            Err(NoControl::NoAddress) => format!(
                "none of them can be resolved: {}",
                config.cluster.contact_points.join(", ")
            ),
            Err(NoControl::Failed { address, error }) => match error {
                ConnError::BadCredentials(_) => {
                    bail!("the nodes refuse cluster.username and cluster.password: {error}")
                }
                error if error.is_final() => bail!("{error}"),
                error => format!("{address}: {error}"),
            },
        };
        manager.tell(State::Starting(&format!(
            "no contact point can be used: {failure}"
        )));
        tracing::warn!("no contact point can be used: {failure}; trying again in {pause:?}");
        common.contact_failure.store(Some(Arc::new(failure)));

        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(10));
    }
}

/// A control connection in the local data centre, if the contact point that answered is in another
/// one.
async fn nearest(
    config: &Arc<Config>,
    dialer: &Dialer,
    control: Control,
    snapshot: Snapshot,
) -> (Control, Snapshot) {
    if snapshot.nodes().locality_of(control.address()) != Some(Locality::Remote) {
        return (control, snapshot);
    }
    let addresses = control::in_order(&snapshot, config, control.address());
    if let Ok(mut nearer) = Control::connect(config, dialer, &addresses).await
        && let Ok(snapshot) = nearer.read(config, None).await
    {
        return (nearer, snapshot);
    }
    (control, snapshot)
}

//! Messages to a service manager (systemd, `Type=notify`) in the life of a proxy.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use helenus_tests::proxy::{Options, Proxy, free_addresses};

use crate::nodes::{Nodes, Spec};
use crate::{client, metric};

const PATIENCE: Duration = Duration::from_secs(60);

/// The next message that is more than a status.
pub(super) fn next(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    loop {
        let read = manager.recv(&mut bytes).expect("a message in time");
        let message = std::str::from_utf8(&bytes[..read]).expect("text");
        if !message.starts_with("STATUS=") {
            return message.to_owned();
        }
    }
}

#[test]
fn the_service_manager_hears_when_the_proxy_is_ready_reloads_and_stops() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).expect("bound");
    manager.set_read_timeout(Some(PATIENCE)).expect("set");
    let nodes = Nodes::start(Spec::default());
    let (address, admin) = free_addresses("127.0.0.1").expect("addresses");
    let settings = format!(
        "[listen]\naddress = '{address}'\nworkers = 1\ndrain_grace_ms = 0\n\
         [admin]\naddress = '{admin}'\n\
         [cluster]\ncontact_points = ['{}']\n",
        nodes.addresses[0]
    );
    let file = folder.path().join("helenus.toml");
    fs::write(&file, &settings).expect("written");
    let mut proxy = Proxy::launch(&Options {
        config: Some(&file),
        addresses: Some((address, admin)),
        notify_socket: Some(&socket),
        ..Options::default()
    })
    .expect("proxy");

    let ready = next(&manager);
    assert!(ready.starts_with("READY=1\nSTATUS=serving"), "{ready}");
    // It is meant: a client is served.
    let mut client = client(&proxy);
    client.query("SELECT count(*) FROM ks.t").expect("a row");
    assert_eq!(metric(&proxy, "helenus_last_reload_successful"), 1.0);

    for (text, taken) in [
        (format!("{settings}[log]\nfilter = 'debug'\n"), 1.0),
        (format!("{settings}[log]\nfliter = 'debug'\n"), 0.0),
        (settings, 1.0),
    ] {
        fs::write(&file, text).expect("written");
        proxy.reload().expect("a signal");
        let reloading = next(&manager);
        assert!(
            reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{reloading}"
        );
        // Also after settings that are refused: the old ones are in force.
        assert_eq!(next(&manager), ready);
        assert_eq!(metric(&proxy, "helenus_last_reload_successful"), taken);
    }

    proxy.terminate().expect("a signal");
    let stopping = next(&manager);
    assert!(stopping.starts_with("STOPPING=1\nSTATUS="), "{stopping}");
    drop(client);
    assert!(proxy.wait(PATIENCE).expect("its end").success());
}

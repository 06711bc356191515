use super::*;

fn manager(name: &OsStr) -> ServiceManager {
    ServiceManager {
        socket: Some(open(name).expect("a socket")),
        failed: Cell::new(false),
    }
}

/// Everything that has arrived; a datagram to a local socket is there once it has been sent.
fn received(socket: &UnixDatagram) -> Vec<String> {
    socket.set_nonblocking(true).expect("a socket option");
    let mut messages = Vec::new();
    let mut bytes = [0; 4096];
    while let Ok(read) = socket.recv(&mut bytes) {
        messages.push(String::from_utf8(bytes[..read].to_vec()).expect("text"));
    }
    messages
}

fn tell_all(manager: &ServiceManager) {
    manager.tell(State::Starting("waiting for the cluster"));
    manager.tell(State::Ready("serving\nMAINPID=1"));
    manager.tell(State::Reloading);
    manager.tell(State::Stopping("at most 10 s"));
}

fn check(messages: &[String]) {
    let [starting, ready, reloading, stopping] = messages else {
        panic!("{messages:?}");
    };
    assert_eq!(starting, "STATUS=waiting for the cluster\n");
    // One assignment a line, and no more than were meant.
    assert_eq!(ready, "READY=1\nSTATUS=serving MAINPID=1\n");
    assert_eq!(stopping, "STOPPING=1\nSTATUS=at most 10 s\n");
    let mut lines = reloading.lines();
    assert_eq!(lines.next(), Some("RELOADING=1"));
    let time = lines.next().and_then(|l| l.strip_prefix("MONOTONIC_USEC="));
    let time: i64 = time.expect("a time").parse().expect("a number");
    assert!(time > 0 && time <= monotonic_us(), "{reloading}");
}

#[test]
fn each_state_is_one_datagram_to_a_path() {
    let path = std::env::temp_dir().join(format!("helenus-notify-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let socket = UnixDatagram::bind(&path).expect("bound");
    tell_all(&manager(path.as_os_str()));
    std::fs::remove_file(&path).expect("removed");
    check(&received(&socket));
}

#[test]
fn each_state_is_one_datagram_to_an_abstract_name() {
    let name = format!("helenus-notify-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let socket = UnixDatagram::bind_addr(&address).expect("bound");
    tell_all(&manager(OsStr::new(&format!("@{name}"))));
    check(&received(&socket));
}

#[test]
fn a_manager_that_does_not_read_or_is_gone_holds_nothing_up() {
    let name = format!("helenus-deaf-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let socket = UnixDatagram::bind_addr(&address).expect("bound");
    let manager = manager(OsStr::new(&format!("@{name}")));
    // More than any queue of datagrams holds: a blocking socket would never return.
    for _ in 0..10_000 {
        manager.tell(State::Starting("waiting"));
    }
    assert!(manager.failed.get());
    assert!(!received(&socket).is_empty());
    drop(socket);
    manager.tell(State::Stopping("gone"));
}

#[test]
fn without_a_socket_nothing_happens() {
    let none = ServiceManager {
        socket: None,
        failed: Cell::new(false),
    };
    tell_all(&none);
    assert!(!none.failed.get());
}

#[test]
fn a_watchdog_hears_twice_in_its_time_if_it_is_this_process_that_it_watches() {
    let own = std::process::id().to_string();
    let interval = |time: &str, pid: Option<&str>| {
        let found = super::interval(Some(time.to_owned()), pid.map(str::to_owned));
        found.map(|interval| interval.as_millis())
    };
    assert_eq!(interval("30000000", Some(&own)), Some(15_000));
    assert_eq!(interval("30000000", None), Some(15_000));
    assert_eq!(interval("30000000", Some("1")), None);
    assert_eq!(interval("0", None), None);
    assert_eq!(interval("soon", None), None);
    assert_eq!(super::interval(None, Some(own)), None);
}

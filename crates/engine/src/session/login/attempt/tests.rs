use helenus_wire::write;

use super::*;

const PASSWORD: &str = "org.apache.cassandra.auth.PasswordAuthenticator";

fn address(node: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, node as u8], 9042))
}

fn login(class: &str, nodes: u16) -> Login {
    let mut asked = Vec::new();
    write::string(&mut asked, class);
    let nodes = (0..nodes).map(|node| (NodeIndex(node), address(node)));
    Login::new(
        SessionKey::default(),
        0,
        asked,
        b"x\0app\0pw".to_vec(),
        crate::testing::begin(),
        Version::V4,
        nodes,
    )
}

#[track_caller]
fn dials(next: Next, node: u16) {
    assert!(matches!(next, Next::Dial(at) if at == address(node)));
}

#[track_caller]
fn fails(next: Next, code: i32, word: &str) {
    match next {
        Next::End(Outcome::Failed(found, text)) => {
            assert_eq!(found, code);
            assert!(text.contains(word), "{text}");
        }
        _ => panic!("it does not fail"),
    }
}

#[test]
fn it_tells_which_nodes_could_not_be_reached_and_which_answered() {
    let mut login = login(PASSWORD, 3);
    assert!(login.is_waiting());
    dials(login.begin(), 0);
    dials(
        login.on_failed(&OpenError::Timeout(std::time::Duration::from_secs(4))),
        1,
    );
    dials(login.on_failed(&OpenError::Lost("refused".to_owned())), 2);
    assert_eq!(login.on_asked().as_deref(), Some(&b"x\0app\0pw"[..]));
    assert_eq!(login.on_asked(), None, "once");
    let met = Met {
        failed: vec![
            (NodeIndex(0), "no answer within 4s".to_owned()),
            (NodeIndex(1), "refused".to_owned()),
        ],
        answered: Some(NodeIndex(2)),
    };
    assert_eq!(login.met, met);
}

#[test]
fn a_node_that_asks_otherwise_is_not_to_blame() {
    let mut login = login(PASSWORD, 2);
    dials(login.begin(), 0);
    dials(login.on_failed(&OpenError::NotAsked), 1);
    let next = login.on_failed(&OpenError::AskedOtherwise);
    fails(
        next,
        code::SERVER,
        "no node can check the credentials now: the node has a different",
    );
    assert_eq!(login.met, Met::default());
    fails(
        self::login(PASSWORD, 0).begin(),
        code::SERVER,
        "no node can check",
    );
}

#[test]
fn a_node_that_is_lost_while_it_judges_has_not_answered() {
    let mut login = login(PASSWORD, 2);
    dials(login.begin(), 0);
    login.on_asked().expect("the token");
    let next = login.on_failed(&OpenError::Lost("reset".to_owned()));
    fails(next, code::SERVER, "lost the node that was checking");
    assert_eq!(login.met, Met::default());
}

#[test]
fn an_accepted_token_is_read_as_its_authenticator_reads_it() {
    let accepted = |class: &str| {
        let judged = login(class, 1).on_judged(Opcode::AuthSuccess as u8, 0, vec![0xff; 4]);
        match judged {
            Outcome::Accepted(credentials, _) => credentials,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(accepted(PASSWORD).role(), Some("app"));
    assert_eq!(accepted("com.example.Own").role(), None);
}

#[test]
fn what_is_neither_yes_nor_no_lets_nobody_in() {
    let login = login(PASSWORD, 1);
    let judged = login.on_judged(Opcode::AuthChallenge as u8, 0, Vec::new());
    fails(Next::End(judged), code::PROTOCOL, "more than one exchange");
    for opcode in [Opcode::Ready as u8, Opcode::Error as u8, 0xEE] {
        let judged = login.on_judged(opcode, 0, Vec::new());
        assert!(matches!(judged, Outcome::NotAccepted(_)) && !judged.refuses());
    }
    let mut body = Vec::new();
    let error = ErrorBody {
        code: code::BAD_CREDENTIALS,
        message: "Provided username and/or password are incorrect",
        fields: &[],
    };
    error.write(&mut body);
    assert!(login.on_judged(Opcode::Error as u8, 0, body).refuses());
}

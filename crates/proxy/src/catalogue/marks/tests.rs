use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use helenus_engine::features::layouts::{Missed, Output};
use helenus_wire::{Opcode, Version, write};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::catalogue::news::LayoutNews;
use crate::catalogue::testing::derived;
use crate::config::Config;

const TEXT: u16 = 0x0D;
const BIGINT: u16 = 0x02;
const MAP: u16 = 0x21;
const BOOLEAN: u16 = 0x04;

/// What a node says to a statement at a level.
enum Said {
    Well,
    Refused(i32, &'static str),
    Doubts(&'static [i64]),
    /// Changes of the catalogue count only under the version that it has.
    Compared,
    /// So do they, and then a data centre that is away is missed.
    ComparedAndRefused,
}

type Answer = fn(&str, Consistency) -> Said;

const AWAY: Said = Said::Refused(code::UNAVAILABLE, "Cannot achieve consistency level");

/// The keyspace has replicas in two data centres, one of which is away.
fn one_is_away(_: &str, level: Consistency) -> Said {
    match level {
        Consistency::EACH_QUORUM => AWAY,
        _ => Said::Well,
    }
}

fn all_is_well(_: &str, _: Consistency) -> Said {
    Said::Well
}

/// A node that answers each statement, and remembers those of the catalogue's keyspace.
struct Node {
    answer: Mutex<Answer>,
    asked: Mutex<Vec<(String, Consistency)>>,
    stored: Mutex<Stored>,
}

/// The catalogue, whose tables have one layout each.
struct Stored {
    version: i64,
    /// Names, with the state of the layout and the number of its filling.
    tables: BTreeMap<String, (String, i64)>,
}

impl Stored {
    /// Carries out a change if it is about this version.
    fn change(&mut self, text: &str) -> bool {
        let behind = |word: &str| {
            let (_, rest) = text.rsplit_once(word).expect(word);
            let end = rest.find([' ', ';', ',']).unwrap_or(rest.len());
            rest[..end].trim_matches('\'').to_owned()
        };
        let number = |word: &str| behind(word).parse::<i64>().expect(word);
        if number("IF version = ") != self.version {
            return false;
        }
        self.version = number("SET version = ");
        let layout = (behind(" state = "), number(" created = "));
        let known = self.tables.insert(behind("table_name = "), layout);
        assert!(known.is_some(), "{text}");
        true
    }

    fn rows(&self) -> Vec<u8> {
        let columns = [
            ("version", BIGINT),
            ("keyspace_name", TEXT),
            ("table_name", TEXT),
            ("kind", TEXT),
            ("item", TEXT),
            ("physical", TEXT),
            ("state", TEXT),
            ("created", BIGINT),
        ];
        let mut body = Vec::new();
        for n in [2, 1, columns.len() as i32] {
            write::i32(&mut body, n);
        }
        for name in ["helenus", "catalogue"] {
            write::string(&mut body, name);
        }
        for (name, kind) in columns {
            write::string(&mut body, name);
            write::u16(&mut body, kind);
        }
        write::i32(&mut body, self.tables.len() as i32);
        for (table, (state, created)) in &self.tables {
            let physical = format!("shop__layouts.{table}__layout_a");
            let texts = ["shop", table, "layout", "a", &physical, state];
            write::bytes(&mut body, Some(&self.version.to_be_bytes()));
            for text in texts {
                write::bytes(&mut body, Some(text.as_bytes()));
            }
            write::bytes(&mut body, Some(&created.to_be_bytes()));
        }
        body
    }
}

fn rows(column: &str, kind: &[u16], cells: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Vec::new();
    // Rows, all of one table, with one column.
    for n in [2, 1, 1] {
        write::i32(&mut body, n);
    }
    for name in ["helenus", "some", column] {
        write::string(&mut body, name);
    }
    for part in kind {
        write::u16(&mut body, *part);
    }
    write::i32(&mut body, cells.len() as i32);
    for cell in cells {
        write::bytes(&mut body, Some(cell));
    }
    body
}

fn replication() -> Vec<u8> {
    let options = [
        ("class", "NetworkTopologyStrategy"),
        ("dc1", "3"),
        ("dc2", "3"),
    ];
    let mut cell = Vec::new();
    write::i32(&mut cell, options.len() as i32);
    for text in options.iter().flat_map(|(name, value)| [name, value]) {
        write::bytes(&mut cell, Some(text.as_bytes()));
    }
    rows("replication", &[MAP, TEXT, TEXT], &[cell])
}

impl Node {
    fn answer(&self, request: &[u8]) -> (Opcode, Vec<u8>) {
        let mut request = helenus_wire::Reader::new(request);
        let text = request.long_string().expect("a statement");
        let level = Consistency(request.u16().expect("a level"));
        if text.contains("system_schema.keyspaces") {
            return (Opcode::Result, replication());
        }
        if text.contains("system_schema.tables") {
            return (Opcode::Result, rows("table_name", &[TEXT], &[]));
        }
        self.asked
            .lock()
            .expect("a lock")
            .push((text.to_owned(), level));
        let answer = *self.answer.lock().expect("a lock");
        let doubts = |tokens: &[i64]| {
            let cells = tokens.iter().map(|token| token.to_be_bytes().to_vec());
            rows("ring_token", &[BIGINT], &cells.collect::<Vec<_>>())
        };
        let change = || {
            let mut stored = self.stored.lock().expect("a lock");
            let is_applied = stored.change(text);
            rows("[applied]", &[BOOLEAN], &[vec![u8::from(is_applied)]])
        };
        let mut said = answer(text, level);
        if let Said::ComparedAndRefused = said {
            change();
            said = AWAY;
        }
        match said {
            Said::Compared | Said::ComparedAndRefused => (Opcode::Result, change()),
            Said::Well if text.starts_with(CATALOGUE) => {
                let stored = self.stored.lock().expect("a lock");
                (Opcode::Result, stored.rows())
            }
            Said::Well => (Opcode::Result, doubts(&[])),
            Said::Doubts(tokens) => (Opcode::Result, doubts(tokens)),
            Said::Refused(code, message) => {
                let mut body = Vec::new();
                write::i32(&mut body, code);
                write::string(&mut body, message);
                (Opcode::Error, body)
            }
        }
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut header = [0; 9];
        while stream.read_exact(&mut header).await.is_ok() {
            let [_, _, high, low, opcode, len @ ..] = header;
            let mut body = vec![0; u32::from_be_bytes(len) as usize];
            stream.read_exact(&mut body).await.expect("a body");
            let (answer, body) = match Opcode::from_number(opcode) {
                Some(Opcode::Query) => self.answer(&body),
                _ => (Opcode::Ready, Vec::new()),
            };
            let mut message = vec![0x84, 0, high, low, answer as u8];
            message.extend((body.len() as u32).to_be_bytes());
            message.extend(body);
            stream.write_all(&message).await.expect("sent");
        }
    }
}

struct Bench {
    node: Arc<Node>,
    reader: Reader,
    common: Process,
    catalogue: Catalogue,
    unmarked: Unmarked,
}

impl Bench {
    /// Tables with derived layouts.
    async fn new(tables: &[&str], answer: Answer) -> Bench {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let node = Arc::new(Node {
            answer: Mutex::new(answer),
            asked: Mutex::default(),
            stored: Mutex::new(Stored {
                version: 5,
                tables: tables
                    .iter()
                    .map(|table| ((*table).to_owned(), ("ready".to_owned(), 7)))
                    .collect(),
            }),
        });
        let served = node.clone();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("a connection");
            served.serve(stream).await;
        });
        let common = crate::testing::process(Config::default());
        let (config, dialer) = (common.settings.load_full(), common.dialer.load_full());
        let reader = Reader::connect(&config, &dialer, address, Version::V4).await;
        Bench {
            node,
            reader: reader.expect("connected"),
            common,
            catalogue: Catalogue {
                version: 5,
                tables: tables.iter().map(|table| derived(table)).collect(),
            },
            unmarked: Unmarked::default(),
        }
    }

    fn answers(&self, answer: Answer) {
        *self.node.answer.lock().expect("a lock") = answer;
    }

    /// Tells it, and returns the levels of the statements that begin so.
    async fn tell(&mut self, told: &mut Told, begins: &str) -> Vec<Consistency> {
        let mut marks = Marks {
            common: &self.common,
            catalogue: &self.catalogue,
            unmarked: &self.unmarked,
            local_dc: "dc1",
            is_cut_off: false,
        };
        marks.tell(&mut self.reader, told).await;
        let asked = std::mem::take(&mut *self.node.asked.lock().expect("a lock"));
        let meant = asked.iter().filter(|(text, _)| text.starts_with(begins));
        meant.map(|(_, level)| *level).collect()
    }

    /// A layout has missed a write.
    fn miss(&mut self, table: &str) {
        let news = LayoutNews::default();
        news.take(Output::Missed(Missed {
            keyspace: "shop__layouts".to_owned(),
            physical: format!("{table}__layout_a"),
            why: "nobody was there".to_owned(),
        }));
        let noted = self.unmarked.note(&news.drain(), &self.catalogue);
        assert_eq!(noted.len(), 1);
    }

    /// The tables whose layouts are behind by now.
    fn behind(&self) -> Vec<String> {
        let stored = self.node.stored.lock().expect("a lock");
        let tables = stored.tables.iter();
        let behind = tables.filter(|(_, (state, _))| state == "behind");
        behind.map(|(table, _)| table.clone()).collect()
    }

    fn is_doubted(&self, table: &str) -> bool {
        let doubts = &self.common.features.layouts.doubts;
        doubts.holds(("shop", table), Some(1), Instant::now())
    }
}

const DOUBT: &str = "BEGIN UNLOGGED BATCH INSERT INTO helenus.layout_doubts";
const CHANGE: &str = "BEGIN BATCH UPDATE helenus.catalogue";
const CATALOGUE: &str = "SELECT version, ";

#[tokio::test]
async fn a_doubt_is_known_in_its_data_centre_while_another_is_away_and_everywhere_then() {
    let mut bench = Bench::new(&["orders"], one_is_away).await;
    let table = TableKey::new("shop", "orders");
    let mut told = Told::default();
    told.doubted
        .insert(table.clone(), [(1, KnownTo::Proxy)].into());
    let all = Consistency::EACH_QUORUM;
    let asked = bench.tell(&mut told, DOUBT).await;
    assert_eq!(asked, [all, Consistency::LOCAL_QUORUM]);
    assert_eq!(told.doubted[&table], [(1, KnownTo::DataCentre)].into());
    assert!(bench.is_doubted("orders"), "it is not told to all");
    // Once is enough for its own.
    assert_eq!(bench.tell(&mut told, DOUBT).await, [all]);
    bench.answers(all_is_well);
    assert_eq!(bench.tell(&mut told, DOUBT).await, [all]);
    assert_eq!(told.doubted, Doubted::new());
}

#[tokio::test]
async fn a_layout_that_is_behind_in_one_data_centre_becomes_so_in_all() {
    let mut bench = Bench::new(&["orders"], one_is_away).await;
    bench.miss("orders");
    let mut told = Told::default();
    let all = Consistency::EACH_QUORUM;
    let asked = bench.tell(&mut told, CHANGE).await;
    assert_eq!(asked, [all, Consistency::LOCAL_QUORUM]);
    assert!(told.is_unspread);
    // The catalogue says so here.
    bench.unmarked = Unmarked::default();
    assert_eq!(bench.tell(&mut told, CATALOGUE).await, [all]);
    assert!(told.is_unspread);
    bench.answers(all_is_well);
    assert_eq!(bench.tell(&mut told, CATALOGUE).await, [all]);
    assert!(!told.is_unspread);
    assert_eq!(bench.tell(&mut told, CATALOGUE).await, []);
}

#[tokio::test]
async fn layouts_of_all_tables_become_behind_at_once() {
    const TABLES: [&str; 3] = ["items", "orders", "users"];
    let answers: [Answer; 2] = [
        |text, _| match text.starts_with(CHANGE) {
            true => Said::Compared,
            false => Said::Well,
        },
        // One data centre is away.
        |text, level| match (text.starts_with(CHANGE), level) {
            (true, Consistency::EACH_QUORUM) => Said::ComparedAndRefused,
            (true, _) => Said::Compared,
            (false, _) => one_is_away(text, level),
        },
    ];
    for answer in answers {
        let mut bench = Bench::new(&TABLES, answer).await;
        TABLES.iter().for_each(|table| bench.miss(table));
        bench.tell(&mut Told::default(), CHANGE).await;
        assert_eq!(bench.behind(), TABLES);
    }
}

#[tokio::test]
async fn nothing_is_marked_on_top_of_a_change_that_is_not_known() {
    const TABLES: [&str; 2] = ["orders", "users"];
    let mut bench = Bench::new(&TABLES, |text, _| match text.starts_with(CHANGE) {
        true => Said::Compared,
        false => Said::Well,
    })
    .await;
    bench.node.stored.lock().expect("a lock").version = 6;
    TABLES.iter().for_each(|table| bench.miss(table));
    bench.tell(&mut Told::default(), CHANGE).await;
    assert_eq!(bench.behind(), [""; 0]);
    // Once it has been read.
    bench.catalogue.version = 6;
    bench.tell(&mut Told::default(), CHANGE).await;
    assert_eq!(bench.behind(), TABLES);
}

#[tokio::test]
async fn where_the_catalogue_cannot_be_changed_the_whole_table_is_in_doubt() {
    let mut bench = Bench::new(&["orders", "users"], |text, level| {
        match text.starts_with(CHANGE) {
            true => AWAY,
            false => one_is_away(text, level),
        }
    })
    .await;
    bench.miss("orders");
    let mut told = Told::default();
    let asked = bench.tell(&mut told, DOUBT).await;
    assert_eq!(asked, [Consistency::LOCAL_QUORUM]);
    // Another proxy reads that.
    assert!(!bench.is_doubted("orders"));
    bench.unmarked = Unmarked::default();
    bench.answers(|text, _| match text.contains("'orders'") {
        true => Said::Doubts(&[stored::WHOLE_TABLE]),
        false => Said::Doubts(&[9]),
    });
    bench.tell(&mut told, "").await;
    assert!(bench.is_doubted("orders") && !bench.is_doubted("users"));
}

#[tokio::test]
async fn a_table_whose_doubts_cannot_be_read_is_read_and_others_are_not() {
    const FAILED: Said = Said::Refused(code::READ_FAILURE, "Operation failed");
    // Of a node that has lost it, or lags behind.
    const MISSING: Said = Said::Refused(code::INVALID, "table layout_doubts does not exist");
    let answers: [Answer; 2] = [
        |text, _| match text.contains("'orders'") {
            true => FAILED,
            false => Said::Well,
        },
        |text, _| match text.contains("'orders'") {
            true => MISSING,
            false => Said::Well,
        },
    ];
    for answer in answers {
        let mut bench = Bench::new(&["orders", "users"], answer).await;
        assert!(bench.is_doubted("users"), "nothing was read");
        bench.tell(&mut Told::default(), "").await;
        assert!(bench.is_doubted("orders") && !bench.is_doubted("users"));
        bench.answers(all_is_well);
        bench.tell(&mut Told::default(), "").await;
        assert!(!bench.is_doubted("orders"));
    }
}

//! A statement whose values can be written into its text or bound to markers.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::values::Type;

#[derive(Clone, Debug, Default)]
pub(crate) struct Statement {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Value(Type, usize),
    /// The values behind IN.
    List(Type, Vec<usize>),
}

impl Statement {
    pub(crate) fn text(mut self, text: impl AsRef<str>) -> Self {
        self.push(text.as_ref());
        self
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.pieces.push(Piece::Text(text.to_owned()));
    }

    pub(crate) fn append(&mut self, other: Statement) {
        self.pieces.extend(other.pieces);
    }

    pub(crate) fn push_value(&mut self, of: Type, at: usize) {
        self.pieces.push(Piece::Value(of, at));
    }

    pub(crate) fn push_list(&mut self, of: Type, at: Vec<usize>) {
        self.pieces.push(Piece::List(of, at));
    }

    /// Other values: below `values` in number, of each type.
    pub(crate) fn redraw(&mut self, rng: &mut ChaCha8Rng, values: usize) {
        for piece in &mut self.pieces {
            match piece {
                Piece::Text(_) => {}
                Piece::Value(_, at) => *at = rng.random_range(0..values),
                Piece::List(_, list) => {
                    list.iter_mut()
                        .for_each(|at| *at = rng.random_range(0..values));
                }
            }
        }
    }

    pub(crate) fn with_literals(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(of, at) => of.literal(*at),
            Piece::List(of, values) => {
                let values: Vec<String> = values.iter().map(|at| of.literal(*at)).collect();
                format!("({})", values.join(", "))
            }
        };
        self.pieces.iter().map(piece).collect()
    }

    pub(crate) fn with_markers(&self) -> (String, Vec<Vec<u8>>) {
        self.with(|_| "?".to_owned())
    }

    /// With `:m0`, `:m1` and so on.
    pub(crate) fn with_names(&self) -> (String, Vec<Vec<u8>>) {
        self.with(|at| format!(":m{at}"))
    }

    fn with(&self, marker: impl Fn(usize) -> String) -> (String, Vec<Vec<u8>>) {
        let mut text = String::new();
        let mut values = Vec::new();
        for piece in &self.pieces {
            let value = match piece {
                Piece::Text(piece) => {
                    text.push_str(piece);
                    continue;
                }
                Piece::Value(of, at) => of.bytes(*at),
                Piece::List(of, listed) => {
                    let mut list = (listed.len() as u32).to_be_bytes().to_vec();
                    for value in listed.iter().map(|at| of.bytes(*at)) {
                        list.extend((value.len() as u32).to_be_bytes());
                        list.extend(value);
                    }
                    list
                }
            };
            text.push_str(&marker(values.len()));
            values.push(value);
        }
        (text, values)
    }
}

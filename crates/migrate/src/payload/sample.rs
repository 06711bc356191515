//! Documents to learn from and to measure.

/// More would only take memory.
pub const SAMPLE_BYTES_MAX: usize = 256 << 20;

pub struct Sample {
    /// Where the documents come from.
    pub name: String,
    /// Table and column, as commands take them, if they come from one.
    pub column: Option<String>,
    pub documents: Vec<String>,
    /// There are more, which were not read.
    pub is_cut: bool,
}

impl Sample {
    /// Those to learn from and those to measure: neighbours may be alike, so chance decides.
    pub fn halves(&self) -> (Vec<&str>, Vec<&str>) {
        let documents = self.documents.iter().map(String::as_str).enumerate();
        let (learn, measure): (Vec<_>, Vec<_>) =
            documents.partition(|(number, _)| chance(*number as u64) & 1 == 0);
        let texts = |half: Vec<(usize, _)>| half.into_iter().map(|(_, text)| text).collect();
        (texts(learn), texts(measure))
    }
}

/// The bits of a number, spread: the same for the same number.
pub fn chance(number: u64) -> u64 {
    let z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 17
}

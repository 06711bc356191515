use super::*;

/// Lines of `key-in-hex token`, printed by Cassandra itself; `-` is the empty key.
const VECTORS: &str = include_str!("../../testdata/murmur3.txt");

#[test]
fn murmur3_agrees_with_cassandra() {
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    let mut checked = 0;
    for line in lines {
        let (key, token) = line.split_once(' ').expect("two columns");
        let key = from_hex(key.trim_start_matches('-')).expect("hexadecimal");
        let token: i64 = token.parse().expect("a decimal token");
        assert_eq!(murmur3_token(&key), token, "{line}");
        let of_key = Token::of_key(Partitioner::Murmur3, &key);
        assert_eq!(of_key, Token::Murmur3(token));
        checked += 1;
    }
    assert_eq!(checked, 296);
}

#[test]
fn tokens_survive_their_text_form() {
    let check = |partitioner, text: &str, expect: Token| {
        assert_eq!(Token::parse(partitioner, text), Some(expect.clone()));
        assert_eq!(Token::parse(partitioner, &expect.to_text()), Some(expect));
    };
    let bytes = |bytes: &[u8]| Token::Bytes(bytes.into());
    check(
        Partitioner::Murmur3,
        "-9223372036854775808",
        Token::Murmur3(i64::MIN),
    );
    check(Partitioner::Murmur3, "42", Token::Murmur3(42));
    check(Partitioner::ByteOrdered, "", bytes(b""));
    check(Partitioner::ByteOrdered, "00fF10", bytes(&[0, 0xff, 0x10]));
    check(Partitioner::ByteOrdered, "abc", bytes(&[0x0a, 0xbc]));
    assert_eq!(bytes(&[0, 0xff, 0x10]).to_text(), "00ff10");
}

#[test]
fn nonsense_is_no_token() {
    for text in ["", " 1", "1.5", "9223372036854775808", "ff", "१"] {
        assert_eq!(Token::parse(Partitioner::Murmur3, text), None, "{text:?}");
    }
    for text in ["0x12", "-1", "zz", "1 2", "é"] {
        assert_eq!(
            Token::parse(Partitioner::ByteOrdered, text),
            None,
            "{text:?}"
        );
    }
}

#[test]
fn byte_tokens_are_ordered_as_unsigned_bytes() {
    let token = |key: &[u8]| Token::of_key(Partitioner::ByteOrdered, key);
    let ordered = [
        token(b""),
        token(&[0]),
        token(&[0, 0]),
        token(&[0x7f]),
        token(&[0x80]),
        token(&[0xff, 0xff]),
    ];
    assert!(ordered.is_sorted_by(|a, b| a < b));
}

#[test]
fn partitioners_are_known_by_class_name() {
    let check = |name, expect| assert_eq!(Partitioner::from_class_name(name), expect, "{name}");
    check(
        "org.apache.cassandra.dht.Murmur3Partitioner",
        Some(Partitioner::Murmur3),
    );
    check("Murmur3Partitioner", Some(Partitioner::Murmur3));
    check(
        "org.apache.cassandra.dht.ByteOrderedPartitioner",
        Some(Partitioner::ByteOrdered),
    );
    check("org.apache.cassandra.dht.RandomPartitioner", None);
    check("org.apache.cassandra.dht.OrderPreservingPartitioner", None);
    check("com.example.Murmur3Partitioner", None);
    check("", None);
}

#[test]
fn composite_keys_are_framed_only_when_there_are_several_values() {
    let check = |components: &[&[u8]], expect: Option<&[u8]>| {
        let mut out = b"left over".to_vec();
        let valid = composite_key(components.iter().copied(), &mut out);
        assert_eq!(valid.then_some(out.as_slice()), expect, "{components:?}");
        assert!(valid || out.is_empty());
    };
    check(&[], None);
    check(&[b"key"], Some(b"key"));
    check(&[b""], Some(b""));
    check(&[b"ab", b""], Some(b"\0\x02ab\0\0\0\0"));
    check(&[b"a", b"bc", b"d"], Some(b"\0\x01a\0\0\x02bc\0\0\x01d\0"));
    let longest = vec![7; 65_535];
    check(&[&longest], Some(&longest));
    check(&[&[longest.clone(), vec![7]].concat()], None);
    check(&[&longest, b""], None);
    check(&[b"", &[longest.clone(), vec![7]].concat()], None);
}

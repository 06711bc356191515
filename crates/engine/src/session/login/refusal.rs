//! The meaning of a node's answer to a login.

use helenus_wire::code;

/// How an authenticator that could not read what it judges by begins its error, although the code is
/// that of a wrong password: PasswordAuthenticator of Cassandra 4.1 and 5.0, and that of 3.x.
const CANNOT_JUDGE: [&str; 2] = [
    "Unable to perform authentication",
    "Error during authentication of user",
];

/// True if the error that answers an AUTH_RESPONSE says that the credentials are wrong, and not only that the node
/// could not judge them.
pub fn is_refusal(code: i32, message: &str) -> bool {
    let unable = CANNOT_JUDGE.iter().any(|text| message.starts_with(text));
    code == code::BAD_CREDENTIALS && !unable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_judgement_of_the_credentials_is_a_refusal() {
        for text in [
            "Provided username app and/or password are incorrect",
            "app is not permitted to log in",
            "Password must not be null",
            "a text of an authenticator that nobody here knows",
        ] {
            assert!(is_refusal(code::BAD_CREDENTIALS, text), "{text}");
            assert!(!is_refusal(code::SERVER, text), "{text}");
        }
        for text in [
            "Unable to perform authentication: Cannot achieve consistency level LOCAL_QUORUM",
            "Unable to perform authentication: Operation timed out - received only 0 responses.",
            "Error during authentication of user app : Cannot achieve consistency level LOCAL_ONE",
        ] {
            assert!(!is_refusal(code::BAD_CREDENTIALS, text), "{text}");
        }
        let text = "Unable to perform authorization of login permission: Operation timed out";
        assert!(!is_refusal(code::UNAUTHORIZED, text));
    }
}

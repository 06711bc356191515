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

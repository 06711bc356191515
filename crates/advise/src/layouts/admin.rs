//! Asks proxies' admin servers for the statements that they have counted.

use anyhow::Result;
use helenus_console::admin::AdminUrl;
use helenus_rows::TableName;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::learned::Asked;

/// The statements that a proxy has counted of a table.
pub(super) async fn statements(
    url: &AdminUrl,
    table: &TableName,
    token: Option<&str>,
) -> Result<Vec<Asked>> {
    let path = format!(
        "/api/statements?table={}",
        utf8_percent_encode(&table.to_cql(), NON_ALPHANUMERIC)
    );
    url.ask(&path, token, "does not count statements").await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// The statements read from a server's answer, and the request that the server has seen.
    async fn asked(answer: &'static str) -> (Result<Vec<Asked>>, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.expect("a request"));
            }
            stream.write_all(answer.as_bytes()).await.expect("sent");
            String::from_utf8(request).expect("a text")
        });
        let url: AdminUrl = format!("http://{address}").parse().expect("an address");
        let table: TableName = "shop.\"Or&ders\"".parse().expect("a name");
        let found = statements(&url, &table, Some("s3cret")).await;
        (found, server.await.expect("it ends"))
    }

    #[tokio::test]
    async fn a_proxy_is_asked_with_the_token_and_the_tables_name() {
        let (found, request) = asked(
            "HTTP/1.1 200 OK\r\nContent-Length: 103\r\n\r\n\
             [{\"text\":\"SELECT * FROM t\",\"keyspace\":\"shop\",\"asked\":32.5,\"mean_us\":null,\
             \"counted_s\":7,\"new\":\"thing\"} ]",
        )
        .await;
        let found = found.expect("an answer");
        assert_eq!((found[0].asked, found[0].mean_us), (32.5, None));
        assert!(
            request.starts_with("GET /api/statements?table=shop%2E%22Or%26ders%22 HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(
            request.contains("authorization: Bearer s3cret\r\n"),
            "{request}"
        );
        assert!(request.contains("host: 127.0.0.1:"), "{request}");
    }

    #[tokio::test]
    async fn other_answers_are_errors_that_say_what_to_do() {
        for (answer, why) in [
            (
                "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno",
                "--admin-token-file",
            ),
            (
                "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                "of this version",
            ),
            (
                "HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nhosts",
                "hosts",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
                "as a proxy",
            ),
            ("nonsense\r\n\r\n", "cannot ask"),
        ] {
            let (found, _) = asked(answer).await;
            let error = format!("{:#}", found.expect_err(answer));
            assert!(error.contains(why), "{error}");
        }
    }
}

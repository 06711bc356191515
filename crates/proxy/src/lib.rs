//! The shell: sockets, TLS, sessions, links, control connection, admin HTTP.

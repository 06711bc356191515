# docker build -t helenus .
# The image has the program, its libraries and authorities' certificates: no shell, no package manager.

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --package helenus --no-default-features \
    && strip --strip-all -o /helenus target/release/helenus

# The same glibc as in the first stage.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /helenus /usr/bin/helenus
COPY LICENSE /usr/share/doc/helenus/LICENSE
# By number, so that orchestrators can tell that it is not root.
USER 65532:65532
# Nothing is written: run it with --read-only.
# HELENUS_ADVERTISE, the address that drivers are told, and HELENUS_CONTACT_POINTS are the operator's. Where it listens is in
# a file, not in a variable, which would override the file that an operator mounts.
COPY packaging/image/helenus.toml /etc/helenus/helenus.toml
ENV HELENUS_CONFIG=/etc/helenus/helenus.toml
EXPOSE 9042 9180
STOPSIGNAL SIGTERM
# Whether the process works; whether clients can be served is `helenus health --ready`.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["/usr/bin/helenus", "health"]
ENTRYPOINT ["/usr/bin/helenus"]
CMD ["serve"]

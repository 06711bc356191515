//! Clients' bytes on their way in, one envelope after the other.

use helenus_wire::{DecodeError, Decoder, ErrorBody, Flow, Header, code};

use crate::context::Context;
use crate::keys::SessionKey;
use crate::session::clients::Clients;
use crate::session::connection::Life;
use crate::session::versions::unsupported_version;
use crate::stats::add;

/// Bytes of a client that are being read. Its decoder is out of its session meanwhile, so that each
/// envelope can be dealt with where it lies.
pub(crate) struct Reading<'a> {
    key: SessionKey,
    decoder: Decoder,
    rest: &'a [u8],
    result: Result<(), DecodeError>,
}

impl Reading<'_> {
    /// Hands over the envelopes up to the first that pauses, or all. `scratch` is for decompression.
    pub(crate) fn feed(
        &mut self,
        scratch: &mut Vec<u8>,
        on_envelope: impl FnMut(Header, &[u8]) -> Flow,
    ) {
        match self.decoder.feed(self.rest, scratch, on_envelope) {
            Ok(used) => self.rest = &self.rest[used..],
            Err(e) => self.result = Err(e),
        }
    }
}

impl Clients {
    /// Bytes have come from a client; `None` if it is not read any more. The returned value is fed for
    /// as long as [`Clients::reads_on`] says, and then goes to [`Clients::end_reading`].
    pub(crate) fn begin_reading<'a>(
        &mut self,
        cx: &Context,
        key: SessionKey,
        bytes: &'a [u8],
    ) -> Option<Reading<'a>> {
        let session = self.sessions.get_mut(key).filter(|s| s.is_open())?;
        session.life = Life::Open;
        session.active = cx.now;
        session.traffic.bytes_in += bytes.len() as u64;
        let stats = &cx.shared.stats.global;
        add(&stats.client_reads, 1);
        add(&stats.client_bytes_in, bytes.len() as u64);
        Some(Reading {
            key,
            decoder: std::mem::replace(&mut session.decoder, Decoder::new(0)),
            rest: bytes,
            result: Ok(()),
        })
    }

    /// True if more of the bytes is to be handed over, in the mode that was agreed meanwhile.
    pub(crate) fn reads_on(&mut self, cx: &Context, reading: &mut Reading<'_>) -> bool {
        let Some(session) = self.sessions.get_mut(reading.key) else {
            return false;
        };
        if reading.result.is_err() {
            return false;
        }
        if let Some((framed, compression)) = session.next_mode.take() {
            reading.decoder.set_mode(framed, compression);
            if session.is_ready() {
                let body_len_max = cx.shared.config.limits.request_bytes_max;
                reading.decoder.skip_longer_than(body_len_max);
            }
        }
        !reading.rest.is_empty() && session.is_open()
    }

    /// Keeps what is there of an incomplete message, and closes a client whose bytes make no sense.
    pub(crate) fn end_reading(&mut self, cx: &mut Context, reading: &mut Reading<'_>) {
        let key = reading.key;
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        std::mem::swap(&mut session.decoder, &mut reading.decoder);
        if session.hold_part(&cx.memory) {
            return self.refuse_unfinished(cx, key);
        }
        if let Err(e) = &reading.result {
            self.refuse_bytes(cx, key, e);
        }
    }

    fn refuse_bytes(&mut self, cx: &mut Context, key: SessionKey, error: &DecodeError) {
        if let Some(peer) = self.peer_of(key) {
            tracing::debug!(%peer, "closing a client: {error}");
        }
        add(&cx.shared.stats.global.clients_protocol_errors, 1);
        match error {
            DecodeError::Version(number) => self.refuse_version(cx, key, *number),
            e => self.answer_error(cx, key, 0, code::PROTOCOL, &e.to_string(), &[]),
        }
        self.finish(cx, key);
    }

    /// Tells a client that its version is not spoken: in the envelope of that version if it is an old
    /// one, else in that of the connection, or of the latest before there is one.
    fn refuse_version(&mut self, cx: &mut Context, key: SessionKey, number: u8) {
        let message = &unsupported_version(number, cx.snapshot.version());
        if !matches!(number, 1 | 2) {
            return self.answer_error(cx, key, 0, code::PROTOCOL, message, &[]);
        }
        let error = ErrorBody {
            code: code::PROTOCOL,
            message,
            fields: &[],
        };
        if let Some(session) = self.sessions.get_mut(key) {
            session.outbox.push_foreign(&error.old_envelope(number));
            self.mark(key);
        }
    }
}

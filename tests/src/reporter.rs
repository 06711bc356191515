//! Reports as those of a node's agent (docs/agent.md), in the test's words: they may lie.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ring::hmac;

const NONCE: [u8; 32] = [9; 32];
const INTERVAL: Duration = Duration::from_millis(100);

/// A reporter of a node. Dropping it ends it.
pub struct Reporter {
    cpu: Arc<AtomicU16>,
    ended: Arc<AtomicBool>,
}

impl Reporter {
    /// Reports, for the node with this id, that so much of its CPU is in use, in ten-thousandths; without a
    /// secret.
    pub fn start(address: SocketAddr, host_id: [u8; 16], cpu: u16) -> Result<Reporter> {
        let listener = TcpListener::bind(address).with_context(|| format!("no {address}"))?;
        listener.set_nonblocking(true)?;
        let reporter = Reporter {
            cpu: Arc::new(AtomicU16::new(cpu)),
            ended: Arc::default(),
        };
        let (cpu, ended) = (reporter.cpu.clone(), reporter.ended.clone());
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                if let Ok((stream, _)) = listener.accept() {
                    let (cpu, ended) = (cpu.clone(), ended.clone());
                    // It ends when the proxy hangs up.
                    thread::spawn(move || report(stream, host_id, &cpu, &ended));
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
        Ok(reporter)
    }

    pub fn set_cpu(&self, cpu: u16) {
        self.cpu.store(cpu, Ordering::Relaxed);
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn report(
    mut stream: TcpStream,
    host_id: [u8; 16],
    cpu: &AtomicU16,
    ended: &AtomicBool,
) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.write_all(&[&b"HRPT\x01\0\0\x64"[..], &NONCE].concat())?;
    let mut answer = [0; 72];
    stream.read_exact(&mut answer)?;
    let open = hmac::Key::new(hmac::HMAC_SHA256, b"helenus report without a secret");
    let said = |label: &[u8]| [label, &NONCE, &answer[8..40]].concat();
    let proof = hmac::sign(&open, &said(b"helenus report agent"));
    stream.write_all(proof.as_ref())?;
    let key = hmac::sign(&open, &said(b"helenus report session"));
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_ref());
    let began = Instant::now();
    for sequence in 1_u64.. {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        let mut body = b"HRPT\x01\0\0\x98".to_vec();
        body.extend(sequence.to_be_bytes());
        body.extend((began.elapsed().as_micros() as u64).to_be_bytes());
        body.extend([0, 0, 0, 0, 0, 100]);
        let cpu = cpu.load(Ordering::Relaxed);
        for share in [cpu, cpu, cpu, 0, 0] {
            body.extend(share.to_be_bytes());
        }
        body.extend([0; 8]);
        // A heap of which half is in use.
        for number in [1_u64 << 28, 1 << 29, 0] {
            body.extend(number.to_be_bytes());
        }
        body.extend([0; 32]);
        body.extend(host_id);
        stream.write_all(&[&body, hmac::sign(&key, &body).as_ref()].concat())?;
        thread::sleep(INTERVAL);
    }
    Ok(())
}

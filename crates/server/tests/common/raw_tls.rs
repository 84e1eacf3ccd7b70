//! TLS on a socket of its own, for what no host would send.

#![allow(unreachable_pub)] // As the other common files.

use crate::common::any_port;
use auth::hello::Psk;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use tls::Stream;

/// A client of the test that speaks TLS on a socket.
pub struct Raw {
    pub socket: TcpStream,
    pub stream: Stream,
}

impl Raw {
    /// The handshake with the first of these keys that the target knows. The error is the alert that the target answers.
    pub fn open(address: SocketAddr, psks: &[Psk]) -> Result<Raw, u8> {
        let stream = Stream::client(psks).expect("memory");
        let mut raw = Raw { socket: TcpStream::connect(address).expect("it listens"), stream };
        while !raw.stream.negotiate().expect("the target is one") {
            raw.send();
            let mut bytes = [0; 4096];
            let count = raw.socket.read(&mut bytes).expect("it answers");
            match bytes[..count] {
                [] => panic!("it closes the connection"),
                // A record with an alert.
                [21, .., alert] => return Err(alert),
                _ => raw.stream.on_bytes(&bytes[..count]),
            }
        }
        raw.send();
        Ok(raw)
    }

    /// Sends what TLS has to send.
    pub fn send(&mut self) {
        let socket = &mut self.socket;
        self.stream.take_outbound(|bytes| {
            socket.write_all(bytes).expect("it is open");
            bytes.clear();
        });
    }

    /// The listener of a tunnel to the target: what a client without TLS sends there goes through TLS.
    pub fn into_tunnel(self) -> SocketAddr {
        let listener = std::net::TcpListener::bind(any_port()).expect("a port is free");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("the test connects");
            drop(listener);
            let (mut socket, stream) =
                (self.socket.try_clone().expect("a descriptor"), std::sync::Mutex::new(self.stream));
            std::thread::scope(|scope| {
                let (stream, from) = (&stream, self.socket);
                let mut back = client.try_clone().expect("a descriptor");
                scope.spawn(move || {
                    let (mut bytes, mut plain) = (vec![0; 65536], vec![0; 16384]);
                    let mut from = from;
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        let mut stream = stream.lock().expect("no panic");
                        stream.on_bytes(&bytes[..count]);
                        while let Ok(tls::Read::Bytes(count)) = stream.read(0, &mut plain) {
                            let _ = back.write_all(&plain[..count]);
                        }
                    }
                    let _ = back.shutdown(Shutdown::Both);
                });
                let mut bytes = vec![0; 65536];
                while let Ok(count @ 1..) = client.read(&mut bytes) {
                    let mut stream = stream.lock().expect("no panic");
                    stream.write(&bytes[..count]).and_then(|()| stream.seal()).expect("it is up");
                    stream.take_outbound(|records| {
                        let _ = socket.write_all(records);
                        records.clear();
                    });
                }
                let _ = socket.shutdown(Shutdown::Both);
            });
        });
        address
    }
}

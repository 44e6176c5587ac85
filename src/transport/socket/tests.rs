//! Sockets whose peers are slow, do not reply, or stop in the middle.

use super::*;
use std::io::Write;
use std::net::TcpListener;
use std::time::Instant;

/// A socket and the deadline of all that a test does with it.
struct Tested {
    socket: Socket,
    reading: Reading,
    deadline: Moment,
}

impl Tested {
    fn connect(address: &ConnectionAddr, tls: Option<&Tls>, time: Duration) -> Self {
        let resolved = resolve(address).unwrap();
        let (socket, reading) = Socket::connect(address, &resolved, tls, time).unwrap();
        Self {
            socket,
            reading,
            deadline: Moment::ZERO,
        }
    }

    fn set_deadline(&mut self, deadline: Moment) {
        self.deadline = deadline;
    }

    fn write_all(&mut self, text: &[u8]) -> io::Result<()> {
        let bytes = self.socket.encrypt(text.to_vec())?;
        self.socket.write_bytes(&bytes, self.deadline)
    }
}

impl Read for Tested {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(&mut self.reading, buffer, self.deadline)
    }
}

/// A listener on loopback, and its address.
fn listening() -> (TcpListener, ConnectionAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, ConnectionAddr::Tcp("127.0.0.1".into(), port))
}

/// A socket whose connection is not accepted yet.
fn connected() -> (TcpListener, Tested) {
    let (listener, address) = listening();
    let socket = Tested::connect(&address, None, Duration::from_secs(5));
    (listener, socket)
}

/// A peer that sends a byte at a time, and its reader.
fn dripping(pause: Duration) -> (Tested, std::thread::JoinHandle<()>) {
    let (listener, socket) = connected();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for _ in 0..100 {
            std::thread::sleep(pause);
            if stream.write_all(b"x").is_err() {
                return;
            }
        }
    });
    (socket, peer)
}

#[test]
fn the_deadline_limits_all_reads_together() {
    let (mut socket, peer) = dripping(Duration::from_millis(20));
    let start = Instant::now();
    socket.set_deadline(Moment::now().after(Duration::from_millis(200)));
    let failure = loop {
        if let Err(error) = socket.read(&mut [0; 8]) {
            break error;
        }
    };
    assert_eq!(failure.kind(), ErrorKind::TimedOut);
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert!(start.elapsed() < Duration::from_millis(1000));
    drop(socket);
    peer.join().unwrap();
}

#[test]
fn a_short_deadline_does_not_cut_the_longer_one_after_it() {
    let (mut socket, peer) = dripping(Duration::from_millis(100));
    socket.set_deadline(Moment::now().after(Duration::from_millis(5)));
    assert!(socket.read(&mut [0; 8]).is_err());
    socket.set_deadline(Moment::now().after(Duration::from_secs(5)));
    assert_eq!(socket.read(&mut [0; 8]).unwrap(), 1);
    drop(socket);
    peer.join().unwrap();
}

#[test]
fn a_write_to_a_full_socket_ends_by_the_deadline() {
    let (_listener, mut socket) = connected();
    socket.set_deadline(Moment::now().after(Duration::from_millis(100)));
    let failure = socket.write_all(&vec![0; 64 << 20]).unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::TimedOut);
}

#[test]
fn a_write_that_must_not_wait_writes_what_the_buffer_takes() {
    let (_listener, Tested { socket, .. }) = connected();
    let text = vec![0; 64 << 20];
    let written = socket.try_write(&text).unwrap();
    assert!((1..text.len()).contains(&written));
    let failure = loop {
        if let Err(error) = socket.try_write(&text) {
            break error;
        }
    };
    assert_eq!(failure.kind(), ErrorKind::WouldBlock);
}

/// Peers that speak TLS.
#[cfg(feature = "tls")]
mod over_tls {
    use std::net::TcpStream;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{JoinHandle, spawn};

    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection};

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    struct Peer {
        address: ConnectionAddr,
        tls: Tls,
        thread: JoinHandle<()>,
    }

    /// Accepts one connection, completes the handshake, and runs `then`.
    fn peer(then: impl FnOnce(TcpStream, ServerConnection) + Send + 'static) -> Peer {
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![issued.cert.der().clone()], key)
            .unwrap();
        let settings = crate::transport::tls::TlsSettings {
            ca_certificates: Some(issued.cert.pem().into()),
            client_certificate: None,
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        Peer {
            address: ConnectionAddr::Tcp("localhost".into(), port),
            tls: Tls::new(&settings).unwrap(),
            thread: spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_nodelay(true).unwrap();
                let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
                // The tickets, too.
                while tls.is_handshaking() || tls.wants_write() {
                    tls.complete_io(&mut stream).unwrap();
                }
                then(stream, tls);
            }),
        }
    }

    impl Peer {
        fn connect(&self) -> Tested {
            let mut socket = Tested::connect(&self.address, Some(&self.tls), SOON);
            socket.set_deadline(Moment::now().after(SOON));
            socket
        }

        fn finish(self, socket: Tested) {
            drop(socket);
            self.thread.join().unwrap();
        }
    }

    /// The bytes of a TLS record with `text`.
    fn record(tls: &mut ServerConnection, text: &[u8]) -> Vec<u8> {
        tls.writer().write_all(text).unwrap();
        let mut record = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut record).unwrap();
        }
        record
    }

    /// Blocks one side until the other lets it continue.
    fn gate() -> (Sender<()>, Receiver<()>) {
        channel()
    }

    #[test]
    fn a_part_of_a_record_is_kept_after_a_timeout() {
        let (open, gate) = gate();
        let peer = peer(move |mut stream, mut tls| {
            let record = record(&mut tls, b"hello");
            let (first, rest) = record.split_at(record.len() / 2);
            stream.write_all(first).unwrap();
            gate.recv().unwrap();
            stream.write_all(rest).unwrap();
        });
        let mut socket = peer.connect();
        socket.set_deadline(Moment::now().after(Duration::from_millis(100)));
        let failure = socket.read(&mut [0; 8]).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::TimedOut);
        open.send(()).unwrap();
        socket.set_deadline(Moment::now().after(SOON));
        let mut text = [0; 5];
        socket.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
        peer.finish(socket);
    }

    /// More than TLS buffers at once, in both directions.
    #[test]
    fn long_texts_arrive_whole() {
        const LENGTH: usize = 1 << 20;
        let peer = peer(|mut stream, mut tls| {
            let mut stream = rustls::Stream::new(&mut tls, &mut stream);
            let mut heard = vec![0; LENGTH];
            stream.read_exact(&mut heard).unwrap();
            stream.write_all(&heard).unwrap();
        });
        let mut socket = peer.connect();
        let said: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
        socket.write_all(&said).unwrap();
        let mut heard = vec![0; LENGTH];
        socket.read_exact(&mut heard).unwrap();
        assert!(said == heard);
        peer.finish(socket);
    }

    /// The client replies to each key update of the server with its own.
    #[test]
    fn a_key_update_is_replied_to() {
        let peer = peer(|mut stream, mut tls| {
            for _ in 0..3 {
                tls.refresh_traffic_keys().unwrap();
                let mut stream = rustls::Stream::new(&mut tls, &mut stream);
                stream.write_all(b"x").unwrap();
                stream.read_exact(&mut [0; 1]).unwrap();
            }
        });
        let mut socket = peer.connect();
        for _ in 0..3 {
            socket.read_exact(&mut [0; 1]).unwrap();
            socket.write_all(b"y").unwrap();
        }
        peer.finish(socket);
    }

    #[test]
    fn an_end_without_close_notify_is_an_error() {
        let peer = peer(|stream, _| drop(stream));
        let mut socket = peer.connect();
        let failure = socket.read(&mut [0; 8]).unwrap_err();
        assert!(matches!(
            failure.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
        ));
        peer.finish(socket);
    }
}

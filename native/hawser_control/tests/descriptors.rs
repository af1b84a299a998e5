//! The listener when the process has no descriptor left. Alone in its binary: it uses up all of them.
#![cfg(target_os = "linux")]

mod ends;

use ends::{End, LOCALHOST, assert_paired, session, until_closed};
use hawser_control::Level;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::net::TcpStream;

#[test]
fn out_of_descriptors_the_oldest_stranger_goes_and_peers_come_in_again() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 128, hard).unwrap();
    let (mut host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    // A session's sockets are delivered by the time that it is up, so the strangers before it have been accepted.
    let strangers: Vec<TcpStream> = (0..3)
        .map(|_| TcpStream::connect((LOCALHOST, port)).unwrap())
        .collect();
    drop(session(&mut host, port, &mut guest, 1));

    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    files.pop();
    let newest = TcpStream::connect((LOCALHOST, port)).unwrap();
    let (level, line) = host.log();
    assert_eq!(level, Level::Error);
    assert!(line.starts_with("cannot accept connections: "), "{line}");
    assert!(until_closed(&strangers[0]).is_empty());
    let (_, line) = host.log();
    assert!(line.contains("too many connections were waiting"), "{line}");

    drop((files, newest));
    let (ours, theirs) = session(&mut host, port, &mut guest, 4);
    assert_paired(ours, theirs);
}

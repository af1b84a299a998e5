//! Nothing of a stopped control plane stays in the process. Alone in its binary: it counts threads and descriptors.
#![cfg(target_os = "linux")]

mod ends;

use ends::{End, LOCALHOST};
use std::fs::read_dir;
use std::net::TcpStream;

fn count(what: &str) -> usize {
    read_dir(format!("/proc/self/{what}")).unwrap().count()
}

#[test]
fn a_hundred_starts_and_stops_leave_no_thread_and_no_descriptor() {
    let (threads, descriptors) = (count("task"), count("fd"));
    for _ in 0..100 {
        let end = End::start("host@h");
        let port = end.listen();
        let _silent = TcpStream::connect((LOCALHOST, port)).unwrap();
        end.invite(&end, 4);
        assert!(count("task") > threads);
        end.control.stop();
        assert_eq!(count("task"), threads);
    }
    assert_eq!(count("fd"), descriptors);
}

//! Random bytes of the operating system, for ids, secrets and nonces. Keeps no state of its own.

use std::io;

pub(crate) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

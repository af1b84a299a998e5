//! hawser's NIF. The files in the order of a message's way: `push` (with `encode`, `atoms`, `pids`) in the caller,
//! the queue of hawser_core in the shard, `flush` into the socket; `recv` (with `decode`) out of it. `session` and `shard` hold what
//! lives as long as a session, `session_nifs` lets its owner rule it, `control` is the door to the tokio control
//! plane, `codec_nifs` shows the codec by itself, `vm` is the wall to the VM with all unsafe code in it.
#![deny(unsafe_code)]

mod atoms;
mod codec_nifs;
mod control;
mod decode;
mod encode;
mod encoded;
mod flush;
mod outcome;
mod pids;
mod push;
mod recv;
mod scratch;
mod session;
mod session_nifs;
mod shard;
mod vm;
mod waiting;
mod wall;

use rustler::{Env, Term};
use vm::{Vm, Word};

/// Number of the interface between hawser_nif.erl and this library; both must say the same.
const ABI: u32 = 2;

/// The load callback. `info` is `{Abi, Samples}`: samples of terms for the self check of the codec.
fn load<'a>(env: Env<'a>, info: Term<'a>) -> bool {
    let Ok((abi, samples)) = info.decode::<(u32, Vec<Term<'a>>)>() else {
        return false;
    };
    if abi != ABI || !vm::select::register(env) {
        return false;
    }
    let vm = Vm::of(env);
    let samples: Vec<Word<'a>> = samples.into_iter().map(|term| vm.word(term)).collect();
    vm.check_tags(&samples);
    true
}

rustler::init!("hawser_nif", load = load);

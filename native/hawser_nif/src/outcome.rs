//! What an answer may say, seen before it goes to a caller: who calls takes a peer's word for how a body ended, and
//! must be able to read it.

use crate::vm::{Immediate, Vm, Word};
use hawser_core::calls::{self, OUTCOMES};

mod names {
    rustler::atoms! { returned = "return", throw, exit, error, signal, system }
}

/// Is the term one of hawser_core's [`OUTCOMES`]?
#[inline]
fn is_outcome<'a>(vm: Vm<'a>, term: Word<'a>) -> bool {
    let Some([name, rest @ ..]) = vm.tuple(term) else {
        return false;
    };
    // In the order of the list.
    let atoms = [
        names::returned(),
        names::throw(),
        names::exit(),
        names::error(),
        names::signal(),
        names::system(),
    ];
    atoms
        .into_iter()
        .zip(OUTCOMES)
        .any(|(atom, (_, elements))| {
            *name == Immediate::of_atom(atom).word() && rest.len() + 1 == elements
        })
}

/// Looks at an answer's term.
#[inline]
pub fn check<'a>(vm: Vm<'a>, term: Word<'a>) -> Result<(), String> {
    if is_outcome(vm, term) {
        Ok(())
    } else {
        Err(none())
    }
}

/// Looks at the start of an answer's plain term, which is all that is seen of it here.
pub fn check_plain(plain: &[u8]) -> Result<(), String> {
    if calls::starts_as_outcome(plain) {
        Ok(())
    } else {
        Err(none())
    }
}

#[cold]
fn none() -> String {
    "an answer that does not say how a body ended".to_owned()
}

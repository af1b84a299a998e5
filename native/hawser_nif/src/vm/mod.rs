//! The wall between Rust and the VM: the only place with unsafe code.
//!
//! [`Vm`] is the environment of the running NIF call, [`Word`] a term that lives in it, [`Immediate`] a term that is
//! its own value and may be kept (atoms, small integers, local pids, []). All three can only be made here, from what
//! the VM handed in, so a word that reaches the NIF API is always a term of a live environment. `term` walks and
//! builds terms, `kept` keeps boxed terms across calls, `select` owns sockets that the VM polls, `boot` checks at
//! load that immediates look as expected.
#![allow(unsafe_code)]

pub mod boot;
pub mod kept;
pub mod select;
pub mod term;

use rustler::sys::{self, ErlNifEnv, ErlNifPid, ErlNifTerm};
use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// The environment of the NIF call that runs now.
#[derive(Clone, Copy)]
pub struct Vm<'a> {
    env: *mut ErlNifEnv,
    call: Call<'a>,
}

/// Ties a term to one environment: invariant, so that neither is taken for one of another call.
type Call<'a> = PhantomData<*mut &'a ()>;

/// A term in the environment `'a`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Word<'a>(ErlNifTerm, Call<'a>);

/// A term that is its own value: valid in every environment, for the life of the VM.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Immediate(ErlNifTerm);

/// A process of this node.
#[derive(Clone, Copy)]
pub struct LocalPid(ErlNifPid);

/// Are immediates recognised by their tag bits? Set once, by `boot`.
static TAGS_CHECKED: AtomicBool = AtomicBool::new(false);

const TAG_4: usize = 0xF;
const TAG_6: usize = 0x3F;
const PID_TAG: usize = 0x3;
const SMALL_TAG: usize = 0xF;
const ATOM_TAG: usize = 0xB;
const NIL_WORD: usize = 0x3B;
/// Small integers have 60 bits on a 64-bit VM.
const SMALL_MAX: i64 = (1 << 59) - 1;
const SMALL_MIN: i64 = -(1 << 59);

/// A term's bits. An ErlNifTerm is layed out as one machine word.
#[inline(always)]
fn bits(term: ErlNifTerm) -> usize {
    // SAFETY: ErlNifTerm is a transparent usize.
    unsafe { std::mem::transmute::<ErlNifTerm, usize>(term) }
}

/// A term of bits that are an immediate's.
#[inline(always)]
fn of_bits(bits: usize) -> ErlNifTerm {
    // SAFETY: ErlNifTerm is a transparent usize.
    unsafe { std::mem::transmute::<usize, ErlNifTerm>(bits) }
}

unsafe extern "C" {
    // Declared here once more since the VM may answer with a type that this rustler does not list.
    #[allow(clashing_extern_declarations)]
    fn enif_term_type(env: *mut ErlNifEnv, term: ErlNifTerm) -> c_int;
}

/// What a term is, as far as the codec wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Atom(Immediate),
    Small(i64),
    /// An integer that is not a small one.
    Integer,
    Float,
    LocalPid,
    /// A pid that is not this node's.
    ForeignPid,
    Port,
    Reference,
    Nil,
    List,
    Tuple,
    Map,
    /// A binary or a bitstring.
    Bits,
    Fun,
    /// A type of a later VM.
    Unknown,
}

impl<'a> Vm<'a> {
    pub fn of(env: rustler::Env<'a>) -> Self {
        Vm {
            env: env.as_c_arg(),
            call: PhantomData,
        }
    }

    /// A NIF's argument as a word.
    pub fn word(self, term: rustler::Term<'a>) -> Word<'a> {
        Word(term.as_c_arg(), PhantomData)
    }

    /// A word as what rustler returns from a NIF.
    pub fn term(self, env: rustler::Env<'a>, word: Word<'a>) -> rustler::Term<'a> {
        // SAFETY: `word` lives in the environment 'a, which `env` is.
        unsafe { rustler::Term::new(env, word.0) }
    }

    /// Classifies a term.
    #[inline(always)]
    pub fn kind(self, word: Word<'a>) -> Kind {
        if TAGS_CHECKED.load(Ordering::Relaxed) {
            if bits(word.0) & TAG_6 == ATOM_TAG {
                return Kind::Atom(Immediate(word.0));
            }
            if bits(word.0) & TAG_4 == SMALL_TAG {
                return Kind::Small((bits(word.0) as i64) >> 4);
            }
            if bits(word.0) == NIL_WORD {
                return Kind::Nil;
            }
            if bits(word.0) & TAG_4 == PID_TAG {
                return Kind::LocalPid;
            }
        }
        self.kind_by_api(word)
    }

    fn kind_by_api(self, word: Word<'a>) -> Kind {
        // SAFETY: env is the running call's, word a term in it.
        match unsafe { enif_term_type(self.env, word.0) } {
            1 => Kind::Atom(Immediate(word.0)),
            2 => Kind::Bits,
            3 => Kind::Float,
            4 => Kind::Fun,
            5 => match self.small(word) {
                Some(value) => Kind::Small(value),
                None => Kind::Integer,
            },
            6 if self.is_nil(word) => Kind::Nil,
            6 => Kind::List,
            7 => Kind::Map,
            8 if self.local_pid(word).is_some() => Kind::LocalPid,
            8 => Kind::ForeignPid,
            9 => Kind::Port,
            10 => Kind::Reference,
            11 => Kind::Tuple,
            _ => Kind::Unknown,
        }
    }

    fn small(self, word: Word<'a>) -> Option<i64> {
        self.int64(word)
            .filter(|value| (SMALL_MIN..=SMALL_MAX).contains(value))
    }

    /// The pid of the calling process.
    pub fn self_pid(self) -> Option<LocalPid> {
        let mut pid = MaybeUninit::<ErlNifPid>::uninit();
        // SAFETY: env is the running call's; the pid is filled unless the answer is null: no process is calling.
        unsafe {
            let found = !sys::enif_self(self.env, pid.as_mut_ptr()).is_null();
            found.then(|| LocalPid(pid.assume_init()))
        }
    }

    pub fn local_pid(self, word: Word<'a>) -> Option<LocalPid> {
        let mut pid = MaybeUninit::<ErlNifPid>::uninit();
        // SAFETY: env is the running call's, word a term in it; the pid is filled when the answer is not 0.
        unsafe {
            let is_local = sys::enif_get_local_pid(self.env, word.0, pid.as_mut_ptr()) != 0;
            is_local.then(|| LocalPid(pid.assume_init()))
        }
    }

    pub fn is_alive(self, pid: LocalPid) -> bool {
        // SAFETY: env is the running call's.
        unsafe { sys::enif_is_process_alive(self.env, &pid.0) != 0 }
    }

    /// The process registered as `name`.
    pub fn whereis(self, name: Word<'a>) -> Option<LocalPid> {
        let mut pid = MaybeUninit::<ErlNifPid>::uninit();
        // SAFETY: env is the running call's, name a term in it; the pid is filled when the answer is not 0.
        unsafe {
            let found = sys::enif_whereis_pid(self.env, name.0, pid.as_mut_ptr()) != 0;
            found.then(|| LocalPid(pid.assume_init()))
        }
    }

    /// Sends a small term from the calling process. False when the receiver is gone.
    pub fn send(self, to: LocalPid, message: Immediate) -> bool {
        // SAFETY: env is the running call's (a process's or a callback's); the message is an immediate.
        unsafe { sys::enif_send(self.env, &to.0, std::ptr::null_mut(), message.0) != 0 }
    }

    /// Tells the scheduler how much of its time slice the call has used, in percent. True when all is used up.
    pub fn consume(self, percent: i32) -> bool {
        // SAFETY: env is the running call's.
        unsafe { sys::enif_consume_timeslice(self.env, percent.clamp(1, 100)) != 0 }
    }

    /// The immediate behind a word, if it is one.
    #[inline(always)]
    pub fn immediate(self, word: Word<'a>) -> Option<Immediate> {
        match self.kind(word) {
            Kind::Atom(_) | Kind::Small(_) | Kind::LocalPid | Kind::Nil => Some(Immediate(word.0)),
            _ => None,
        }
    }
}

impl Immediate {
    #[inline(always)]
    pub fn word<'a>(self) -> Word<'a> {
        Word(self.0, PhantomData)
    }

    /// The bits, for hashing: equal immediates have equal bits.
    #[inline(always)]
    pub fn bits(self) -> usize {
        bits(self.0)
    }

    /// The bits, mixed well: processes that were started one after the other have little else in common.
    #[inline]
    pub fn mixed(self) -> u64 {
        let mut x = self.bits() as u64 >> 4;
        x ^= x >> 33;
        x = x.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        x ^= x >> 33;
        x = x.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        x ^ x >> 33
    }

    /// An atom made by rustler.
    pub fn of_atom(atom: rustler::Atom) -> Self {
        Immediate(atom.as_c_arg())
    }
}

impl LocalPid {
    pub fn immediate(self) -> Immediate {
        // SAFETY: a local pid's term is the pid itself; the API takes no environment for it.
        Immediate(unsafe { sys::enif_make_pid(std::ptr::null_mut(), self.0) })
    }
}

//! Taking terms apart and building them. Every answer of the NIF API is looked at.

use super::{
    Immediate, Kind, LocalPid, SMALL_MAX, SMALL_MIN, SMALL_TAG, TAGS_CHECKED, Vm, Word, of_bits,
};
use rustler::sys::{self, ErlNifBinary, ErlNifMapIterator, ErlNifTerm};
use std::ffi::{c_int, c_uint};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

/// A binary made by the VM's own encoder, freed when dropped.
pub struct VmBinary(ErlNifBinary);

impl VmBinary {
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the VM allocated `size` bytes at `data`, and they live until `drop`.
        unsafe { slice(self.0.data, self.0.size) }
    }
}

impl Drop for VmBinary {
    fn drop(&mut self) {
        // SAFETY: the binary is owned and was not given to a term.
        unsafe { sys::enif_release_binary(&mut self.0) }
    }
}

/// A binary that is filled from the front and then becomes a term; receives large data without a further copy.
pub struct LargeBinary {
    binary: Option<ErlNifBinary>,
    filled: usize,
}

// SAFETY: an ErlNifBinary of enif_alloc_binary belongs to nobody but this value, whatever thread holds it.
unsafe impl Send for LargeBinary {}

impl LargeBinary {
    /// Reserves `size` bytes without touching them. `None` when the VM has no memory for them.
    pub fn new(size: usize) -> Option<Self> {
        let mut binary = MaybeUninit::<ErlNifBinary>::uninit();
        // SAFETY: on success the VM has filled `binary` with a writable block of `size` bytes.
        unsafe {
            let ok = sys::enif_alloc_binary(size, binary.as_mut_ptr()) != 0;
            ok.then(|| LargeBinary {
                binary: Some(binary.assume_init()),
                filled: 0,
            })
        }
    }

    /// Appends as many bytes as fit; answers those that do not.
    pub fn append<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(binary) = &mut self.binary else {
            return bytes;
        };
        let (front, back) = bytes.split_at(bytes.len().min(binary.size - self.filled));
        // SAFETY: `filled` is at most the size, so the part lies within the owned block, which nothing else refers to.
        unsafe {
            let start = binary.data.add(self.filled);
            std::ptr::copy_nonoverlapping(front.as_ptr(), start, front.len());
        }
        self.filled += front.len();
        back
    }

    /// The bytes filled so far.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the first `filled` bytes of the block have been initialised by `append`.
        self.binary
            .as_ref()
            .map_or(&[], |binary| unsafe { slice(binary.data, self.filled) })
    }

    pub fn is_full(&self) -> bool {
        self.binary
            .as_ref()
            .is_none_or(|binary| self.filled == binary.size)
    }

    /// Gives a full binary to the VM and answers a term for its part `from..from + length`.
    pub fn into_part<'a>(mut self, vm: Vm<'a>, from: usize, length: usize) -> Option<Word<'a>> {
        if !self.is_full() || from.checked_add(length)? > self.filled {
            return None;
        }
        let mut binary = self.binary.take()?;
        // SAFETY: the block is initialised wholly and goes to the term; the part was checked to lie within it.
        unsafe {
            let whole = sys::enif_make_binary(vm.env, &mut binary);
            Some(Word(
                sys::enif_make_sub_binary(vm.env, whole, from, length),
                PhantomData,
            ))
        }
    }
}

impl Drop for LargeBinary {
    fn drop(&mut self) {
        if let Some(mut binary) = self.binary.take() {
            // SAFETY: still owned: it was not given to a term.
            unsafe { sys::enif_release_binary(&mut binary) }
        }
    }
}

/// Walks a map's pairs.
pub struct Pairs<'a> {
    vm: Vm<'a>,
    iterator: ErlNifMapIterator,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (Word<'a>, Word<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (mut key, mut value) = (ErlNifTerm::default(), ErlNifTerm::default());
        // SAFETY: the iterator was made from a map of this environment and lives as long as this value.
        unsafe {
            if sys::enif_map_iterator_get_pair(
                self.vm.env,
                &mut self.iterator,
                &mut key,
                &mut value,
            ) == 0
            {
                return None;
            }
            sys::enif_map_iterator_next(self.vm.env, &mut self.iterator);
        }
        Some((Word(key, PhantomData), Word(value, PhantomData)))
    }
}

impl Drop for Pairs<'_> {
    fn drop(&mut self) {
        // SAFETY: made by enif_map_iterator_create, destroyed once.
        unsafe { sys::enif_map_iterator_destroy(self.vm.env, &mut self.iterator) }
    }
}

/// # Safety
/// `data` points to `size` initialised bytes that outlive `'a`, or `size` is 0.
unsafe fn slice<'a>(data: *const u8, size: usize) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, size) }
}

impl<'a> Vm<'a> {
    pub fn int64(self, word: Word<'a>) -> Option<i64> {
        let mut value = 0;
        // SAFETY: env is the running call's, word a term in it.
        (unsafe { sys::enif_get_int64(self.env, word.0, &mut value) } != 0).then_some(value)
    }

    pub fn uint64(self, word: Word<'a>) -> Option<u64> {
        let mut value = 0;
        // SAFETY: as above.
        (unsafe { sys::enif_get_uint64(self.env, word.0, &mut value) } != 0).then_some(value)
    }

    pub fn float(self, word: Word<'a>) -> Option<f64> {
        let mut value = 0.0;
        // SAFETY: as above.
        (unsafe { sys::enif_get_double(self.env, word.0, &mut value) } != 0).then_some(value)
    }

    /// The bytes of a binary; `None` for a bitstring.
    #[inline]
    pub fn binary(self, word: Word<'a>) -> Option<&'a [u8]> {
        let mut binary = MaybeUninit::<ErlNifBinary>::uninit();
        // SAFETY: on success the bytes belong to the term, which lives as long as the call.
        unsafe {
            if sys::enif_inspect_binary(self.env, word.0, binary.as_mut_ptr()) == 0 {
                return None;
            }
            let binary = binary.assume_init();
            Some(slice(binary.data, binary.size))
        }
    }

    /// The elements of a tuple.
    #[inline]
    pub fn tuple(self, word: Word<'a>) -> Option<&'a [Word<'a>]> {
        let mut arity: c_int = 0;
        let mut elements: *const ErlNifTerm = std::ptr::null();
        // SAFETY: on success `elements` points to `arity` terms within the tuple; Word is a transparent pair of
        // an ErlNifTerm and a zero-sized marker.
        unsafe {
            if sys::enif_get_tuple(self.env, word.0, &mut arity, &mut elements) == 0 {
                return None;
            }
            if arity <= 0 {
                return Some(&[]);
            }
            Some(std::slice::from_raw_parts(
                elements.cast::<Word<'a>>(),
                arity as usize,
            ))
        }
    }

    /// Head and tail of a list cell.
    #[inline]
    pub fn cell(self, word: Word<'a>) -> Option<(Word<'a>, Word<'a>)> {
        let (mut head, mut tail) = (ErlNifTerm::default(), ErlNifTerm::default());
        // SAFETY: env is the running call's, word a term in it.
        let ok = unsafe { sys::enif_get_list_cell(self.env, word.0, &mut head, &mut tail) } != 0;
        ok.then_some((Word(head, PhantomData), Word(tail, PhantomData)))
    }

    pub fn is_nil(self, word: Word<'a>) -> bool {
        // SAFETY: as above.
        unsafe { sys::enif_is_empty_list(self.env, word.0) != 0 }
    }

    /// Size of a map and its pairs.
    #[inline]
    pub fn map(self, word: Word<'a>) -> Option<(usize, Pairs<'a>)> {
        let mut size = 0;
        let mut iterator = MaybeUninit::<ErlNifMapIterator>::uninit();
        // SAFETY: env is the running call's; the iterator is used only if the VM made it.
        unsafe {
            if sys::enif_get_map_size(self.env, word.0, &mut size) == 0
                || sys::enif_map_iterator_create(
                    self.env,
                    word.0,
                    iterator.as_mut_ptr(),
                    sys::ErlNifMapIteratorEntry::ERL_NIF_MAP_ITERATOR_HEAD,
                ) == 0
            {
                return None;
            }
            Some((
                size,
                Pairs {
                    vm: self,
                    iterator: iterator.assume_init(),
                },
            ))
        }
    }

    /// The VM's own external term format of a term, with its leading 131.
    pub fn encode(self, word: Word<'a>) -> Option<VmBinary> {
        let mut binary = MaybeUninit::<ErlNifBinary>::uninit();
        // SAFETY: on success the binary is ours to release.
        unsafe {
            (sys::enif_term_to_binary(self.env, word.0, binary.as_mut_ptr()) != 0)
                .then(|| VmBinary(binary.assume_init()))
        }
    }

    /// Decodes external term format that fills `bytes` wholly.
    pub fn decode(self, bytes: &[u8]) -> Option<Word<'a>> {
        let mut word = ErlNifTerm::default();
        // SAFETY: the VM reads at most `len` bytes and answers how many it took, 0 for none.
        let taken = unsafe {
            sys::enif_binary_to_term(self.env, bytes.as_ptr(), bytes.len(), &mut word, 0)
        };
        (taken == bytes.len() && taken > 0).then_some(Word(word, PhantomData))
    }

    #[inline(always)]
    pub fn make_integer(self, value: i64) -> Word<'a> {
        if (SMALL_MIN..=SMALL_MAX).contains(&value) && TAGS_CHECKED.load(Ordering::Relaxed) {
            return Word(of_bits((value << 4) as usize | SMALL_TAG), PhantomData);
        }
        // SAFETY: env is the running call's.
        Word(
            unsafe { sys::enif_make_int64(self.env, value) },
            PhantomData,
        )
    }

    pub fn make_u64(self, value: u64) -> Word<'a> {
        // SAFETY: env is the running call's.
        Word(
            unsafe { sys::enif_make_uint64(self.env, value) },
            PhantomData,
        )
    }

    /// `None` for what is not a float of the VM (infinities, not-a-number).
    pub fn make_float(self, value: f64) -> Option<Word<'a>> {
        // SAFETY: only finite values are given; the API raises for others.
        value.is_finite().then(|| {
            Word(
                unsafe { sys::enif_make_double(self.env, value) },
                PhantomData,
            )
        })
    }

    /// A new binary with these bytes.
    pub fn make_binary(self, bytes: &[u8]) -> Word<'a> {
        let mut word = ErlNifTerm::default();
        // SAFETY: the VM answers a block of `len` bytes that belongs to `word`.
        unsafe {
            let data = sys::enif_make_new_binary(self.env, bytes.len(), &mut word);
            if !data.is_null() && !bytes.is_empty() {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
            }
        }
        Word(word, PhantomData)
    }

    pub fn make_tuple(self, elements: &[Word<'a>]) -> Word<'a> {
        // SAFETY: `elements` are terms of this environment; Word is layed out as ErlNifTerm.
        let word = unsafe {
            sys::enif_make_tuple_from_array(
                self.env,
                elements.as_ptr().cast(),
                elements.len() as c_uint,
            )
        };
        Word(word, PhantomData)
    }

    pub fn make_list(self, elements: &[Word<'a>]) -> Word<'a> {
        // SAFETY: as for make_tuple.
        let word = unsafe {
            sys::enif_make_list_from_array(
                self.env,
                elements.as_ptr().cast(),
                elements.len() as c_uint,
            )
        };
        Word(word, PhantomData)
    }

    pub fn make_cell(self, head: Word<'a>, tail: Word<'a>) -> Word<'a> {
        // SAFETY: both are terms of this environment.
        Word(
            unsafe { sys::enif_make_list_cell(self.env, head.0, tail.0) },
            PhantomData,
        )
    }

    /// `None` when a key comes twice: the VM refuses small maps and builds larger ones short.
    pub fn make_map(self, keys: &[Word<'a>], values: &[Word<'a>]) -> Option<Word<'a>> {
        let count = keys.len().min(values.len());
        let mut map = ErlNifTerm::default();
        let mut size = 0;
        // SAFETY: both arrays hold `count` terms of this environment.
        unsafe {
            let made = sys::enif_make_map_from_arrays(
                self.env,
                keys.as_ptr().cast(),
                values.as_ptr().cast(),
                count,
                &mut map,
            );
            if made == 0 || sys::enif_get_map_size(self.env, map, &mut size) == 0 || size != count {
                return None;
            }
        }
        Some(Word(map, PhantomData))
    }

    /// An atom, made if it does not exist yet. `None` for a name that is no atom.
    pub fn make_atom(self, name: &str) -> Option<Immediate> {
        if name.is_ascii() {
            if name.len() > 255 {
                return None;
            }
            // SAFETY: the VM reads `len` bytes; ASCII is Latin-1.
            let atom =
                unsafe { sys::enif_make_atom_len(self.env, name.as_ptr().cast(), name.len()) };
            return Some(Immediate(atom));
        }
        let mut bytes = vec![hawser_core::etf::VERSION];
        hawser_core::etf::write_atom(name.as_bytes(), &mut bytes);
        self.decode(&bytes)
            .filter(|word| matches!(self.kind(*word), Kind::Atom(_)))
            .map(|word| Immediate(word.0))
    }

    /// The name of an atom, as UTF-8, by the VM's own encoder (the API's reader knows only Latin-1 up to OTP 25).
    pub fn atom_name(self, atom: Immediate) -> Option<String> {
        let bytes = self.encode(atom.word())?;
        hawser_core::etf::parse_atom(bytes.bytes().get(1..)?).ok()
    }

    pub fn local_pid_word(self, pid: LocalPid) -> Word<'a> {
        pid.immediate().word()
    }
}

//! The self check at load: do immediates carry the tag bits that the codec recognises them by?
//!
//! The loader passes samples of every type. If a single one is not classified as the NIF API classifies it, the
//! codec asks the API for every term, which is slower and always right.

use super::{Kind, PID_TAG, SMALL_TAG, TAG_4, TAGS_CHECKED, Vm, Word, bits};
use std::sync::atomic::Ordering;

impl<'a> Vm<'a> {
    /// Compares both ways of classifying over `samples`; returns whether tag bits will be used.
    pub fn check_tags(self, samples: &[Word<'a>]) -> bool {
        TAGS_CHECKED.store(false, Ordering::Relaxed);
        if !cfg!(all(target_pointer_width = "64", target_endian = "little")) {
            return false;
        }
        let by_api: Vec<Kind> = samples.iter().map(|word| self.kind(*word)).collect();
        TAGS_CHECKED.store(true, Ordering::Relaxed);
        let agree = samples.iter().zip(&by_api).all(|(word, kind)| {
            self.kind(*word) == *kind
                && match kind {
                    // Both directions: what is built by bits must be what the VM builds.
                    Kind::Small(value) => self.make_integer(*value) == *word,
                    Kind::LocalPid => bits(word.0) & TAG_4 == PID_TAG,
                    _ => bits(word.0) & TAG_4 != PID_TAG && bits(word.0) & TAG_4 != SMALL_TAG,
                }
        });
        let enough = [Kind::Nil, Kind::LocalPid, Kind::Tuple, Kind::List]
            .iter()
            .all(|kind| by_api.contains(kind))
            && by_api.iter().any(|kind| matches!(kind, Kind::Small(_)))
            && by_api.iter().any(|kind| matches!(kind, Kind::Atom(_)));
        TAGS_CHECKED.store(agree && enough, Ordering::Relaxed);
        agree && enough
    }
}

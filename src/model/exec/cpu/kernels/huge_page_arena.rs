//! An arena of huge pages for data that each step reads: weights and KV caches.
//!
//! A step reads all weights once and in order, far more than the CPU caches hold. With pages of 4
//! KiB the processor spends as much time on address translation as on the data (measured in a
//! virtual machine: 14 GB/s against 30).

use std::{
    fmt, io,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    slice,
    sync::Arc,
};

use half::f16;
use memmap2::MmapMut;

use super::{
    attention::{Element, Pair},
    layout::QuantLine,
    simd::LANES,
};

/// Size of a huge page on the processors that these kernels support.
const HUGE_PAGE: usize = 2 << 20;
/// Least size of an arena's chunk.
const CHUNK: usize = 16 * HUGE_PAGE;
/// Slices begin at multiples of this: cache lines.
const ALIGN: usize = 64;

/// Data of which all bytes 0 is a value.
#[expect(unsafe_code, reason = "what implements it promises something")]
/// # Safety
/// Zeros must be a value, values need not be dropped, and [`ALIGN`] is a multiple of the alignment.
pub(in crate::model::exec::cpu) unsafe trait Plain:
    Copy + Send + Sync + 'static
{
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        #[expect(unsafe_code, reason = "numbers")]
        // SAFETY: arrays of numbers, aligned to 64 bytes at most.
        unsafe impl Plain for $type {}
    )*};
}
plain!(QuantLine, [f16; LANES], [f32; LANES], [u16; LANES]);

#[expect(unsafe_code, reason = "numbers")]
// SAFETY: there are pairs of floats only, which may be 0, and they are aligned to 64 bytes.
unsafe impl<E: Element> Plain for Pair<E> {}

/// A large piece of memory, given back to the system when no slice of it is left.
struct Chunk {
    map: MmapMut,
}

/// Allocates slices one after the other, in chunks of huge pages.
pub(in crate::model::exec::cpu) struct Arena {
    /// The last chunk, and how many of its bytes are given out.
    last: Option<(Arc<Chunk>, NonNull<u8>, usize)>,
}

#[expect(unsafe_code, reason = "a pointer into what the arena holds")]
// SAFETY: the pointer is used only to make slices that do not overlap.
unsafe impl Send for Arena {}

impl Arena {
    pub(in crate::model::exec::cpu) const fn new() -> Self {
        Self { last: None }
    }

    /// A slice of zeros.
    ///
    /// # Errors
    /// When the system has no more memory.
    pub(in crate::model::exec::cpu) fn zeroed<T: Plain>(
        &mut self,
        len: usize,
    ) -> io::Result<Slice<T>> {
        const { assert!(align_of::<T>() <= ALIGN) };
        let bytes = len
            .checked_mul(size_of::<T>())
            .and_then(|bytes| bytes.checked_next_multiple_of(ALIGN))
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let fits = |used: usize, chunk: &Chunk| used + bytes <= chunk.room();
        if !matches!(&self.last, Some((chunk, _, used)) if fits(*used, chunk)) {
            let mut chunk = Chunk::new(bytes.max(CHUNK))?;
            let start = chunk.start();
            self.last = Some((Arc::new(chunk), start, 0));
        }
        let Some((chunk, start, used)) = &mut self.last else {
            unreachable!("there is a chunk now")
        };
        #[expect(unsafe_code, reason = "part of a chunk")]
        // SAFETY: `used + bytes` is at most the chunk's room.
        let own = unsafe { start.add(*used) };
        *used += bytes;
        Ok(Slice {
            start: own.cast(),
            len,
            chunk: Some(Arc::clone(chunk)),
            elements: PhantomData,
        })
    }
}

impl Chunk {
    /// Allocates at least `bytes` bytes, all 0.
    fn new(bytes: usize) -> io::Result<Self> {
        // The bytes before the first huge page are never touched, and so take no memory.
        let map = MmapMut::map_anon(bytes.next_multiple_of(HUGE_PAGE) + HUGE_PAGE)?;
        // Without huge pages the kernels are slower and otherwise the same.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Self { map })
    }

    /// Bytes before the first large page.
    fn offset(&self) -> usize {
        self.map.as_ptr().align_offset(HUGE_PAGE).min(HUGE_PAGE)
    }

    fn start(&mut self) -> NonNull<u8> {
        let offset = self.offset();
        NonNull::from(&mut self.map[offset..]).cast()
    }

    fn room(&self) -> usize {
        self.map.len() - self.offset()
    }
}

/// Elements that this slice owns, in a chunk that holds other slices too.
pub(in crate::model::exec::cpu) struct Slice<T> {
    start: NonNull<T>,
    len: usize,
    /// None where there are no elements.
    chunk: Option<Arc<Chunk>>,
    elements: PhantomData<T>,
}

#[expect(unsafe_code, reason = "a pointer to what nobody else has")]
// SAFETY: stands for a `Vec<T>`; numbers may go to and be seen on any thread.
unsafe impl<T: Plain> Send for Slice<T> {}
#[expect(unsafe_code, reason = "a pointer to what nobody else has")]
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Slice<T> {}

impl<T> Slice<T> {
    /// True if slices of its chunk exist beside these `own` ones.
    pub(in crate::model::exec::cpu) fn has_others_than(&self, own: usize) -> bool {
        let chunk = self.chunk.as_ref();
        chunk.is_some_and(|chunk| Arc::strong_count(chunk) > own)
    }

    /// Returns a value that is equal for slices of the same chunk only.
    pub(in crate::model::exec::cpu) fn chunk(&self) -> usize {
        let chunk = self.chunk.as_ref();
        chunk.map_or(0, |chunk| Arc::as_ptr(chunk).addr())
    }
}

impl<T> Default for Slice<T> {
    fn default() -> Self {
        Self {
            start: NonNull::dangling(),
            len: 0,
            chunk: None,
            elements: PhantomData,
        }
    }
}

impl<T: Plain> Deref for Slice<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        #[expect(unsafe_code, reason = "part of a chunk")]
        // SAFETY: `zeroed` has set these elements aside for this slice, aligned and within a chunk
        // that lives as long as the slice; zeros are values, and so is what was written since.
        unsafe {
            slice::from_raw_parts(self.start.as_ptr(), self.len)
        }
    }
}

impl<T: Plain> DerefMut for Slice<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        #[expect(unsafe_code, reason = "part of a chunk")]
        // SAFETY: as above, and the slice owns them.
        unsafe {
            slice::from_raw_parts_mut(self.start.as_ptr(), self.len)
        }
    }
}

impl<T> fmt::Debug for Slice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_apart_aligned_and_zero() {
        let mut arena = Arena::new();
        let mut slices = Vec::new();
        for len in [1, 0, 7, CHUNK / 64 - 5, 3, 2 * CHUNK / 64, 1] {
            let mut slice: Slice<[f32; LANES]> = arena.zeroed(len).unwrap();
            assert_eq!((slice.len(), slice.as_ptr().align_offset(ALIGN)), (len, 0));
            assert!(slice.iter().flatten().all(|x| *x == 0.0));
            slice.fill([slices.len() as f32; LANES]);
            slices.push(slice);
        }
        for (number, slice) in slices.iter().enumerate() {
            assert!(slice.iter().flatten().all(|x| *x == number as f32));
        }
        let large: Vec<usize> = slices.iter().map(Slice::chunk).collect();
        assert_eq!(large[0], large[2]);
        assert_ne!(large[2], large[5]);
    }

    #[test]
    fn a_chunk_goes_with_its_last_slice() {
        let mut arena = Arena::new();
        let first: Slice<QuantLine> = arena.zeroed(1).unwrap();
        let second: Slice<QuantLine> = arena.zeroed(1).unwrap();
        assert!(first.has_others_than(2));
        drop(arena);
        assert!(first.has_others_than(1) && !first.has_others_than(2));
        drop(second);
        assert!(!first.has_others_than(1));
    }

    #[test]
    fn too_much_is_refused() {
        let error = Arena::new()
            .zeroed::<QuantLine>(usize::MAX / 32)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(Arena::new().zeroed::<QuantLine>(1 << 50).is_err());
    }
}

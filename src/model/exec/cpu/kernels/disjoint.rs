//! Slices taken apart into pieces that threads may write at the same time.

use std::marker::PhantomData;

/// Something made of pieces that do not overlap.
#[expect(
    unsafe_code,
    reason = "what implements it promises that pieces are apart"
)]
/// # Safety
/// `part` must give pieces without overlap for different numbers below `count`, each of which may
/// be used on any thread.
pub(in crate::model::exec::cpu) unsafe trait DisjointChunks:
    Sync
{
    /// One piece.
    type Part;

    /// Returns the number of chunks.
    fn count(&self) -> usize;

    /// A piece.
    ///
    /// # Safety
    /// `index` is below `count`, and no other piece of that number exists.
    unsafe fn part(&self, index: usize) -> Self::Part;
}

/// ```text
/// |0 0 0 0|1 1 1 1|2 2 2 2|3 3|    a slice in chunks of 4: 4 pieces, the last one shorter
/// ```
pub(in crate::model::exec::cpu) struct Chunks<'a, T> {
    start: *mut T,
    len: usize,
    chunk: usize,
    owner: PhantomData<&'a mut [T]>,
}

impl<'a, T> Chunks<'a, T> {
    /// A slice in pieces of `chunk` elements, at least one each.
    pub(in crate::model::exec::cpu) fn new(slice: &'a mut [T], chunk: usize) -> Self {
        assert!(chunk > 0, "pieces have elements");
        Self {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            chunk,
            owner: PhantomData,
        }
    }
}

#[expect(unsafe_code, reason = "raw pointers are not shared by themselves")]
// SAFETY: stands for `&mut [T]`, of which threads get pieces that do not overlap.
unsafe impl<T: Send> Sync for Chunks<'_, T> {}

#[expect(unsafe_code, reason = "pieces of one slice on several threads")]
// SAFETY: piece `i` is the elements from `i · chunk` to the next multiple or the end.
unsafe impl<'a, T: Send + 'a> DisjointChunks for Chunks<'a, T> {
    type Part = &'a mut [T];

    fn count(&self) -> usize {
        self.len.div_ceil(self.chunk)
    }

    unsafe fn part(&self, index: usize) -> &'a mut [T] {
        let first = index * self.chunk;
        assert!(first < self.len, "a piece of the slice");
        let len = self.chunk.min(self.len - first);
        // SAFETY: within the slice, which is borrowed for 'a, and the caller asks for it once.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(first), len) }
    }
}

/// ```text
/// |0 0 0|1|2 2 2 2 2|              a slice cut at the bounds 0, 3, 4, 9: 3 pieces
/// ```
pub(in crate::model::exec::cpu) struct Cut<'a, T> {
    start: *mut T,
    bounds: &'a [usize],
    owner: PhantomData<&'a mut [T]>,
}

impl<'a, T> Cut<'a, T> {
    /// A slice cut at `bounds`, which rise from at least 0 to at most its length.
    pub(in crate::model::exec::cpu) fn new(slice: &'a mut [T], bounds: &'a [usize]) -> Self {
        assert!(bounds.is_sorted(), "bounds rise");
        let end = bounds.last().copied().unwrap_or(0);
        assert!(end <= slice.len(), "bounds lie within the slice");
        Self {
            start: slice.as_mut_ptr(),
            bounds,
            owner: PhantomData,
        }
    }
}

#[expect(unsafe_code, reason = "raw pointers are not shared by themselves")]
// SAFETY: stands for `&mut [T]`, of which threads get pieces that do not overlap.
unsafe impl<T: Send> Sync for Cut<'_, T> {}

#[expect(unsafe_code, reason = "pieces of one slice on several threads")]
// SAFETY: piece `i` is the elements between two neighbouring bounds, and these rise.
unsafe impl<'a, T: Send + 'a> DisjointChunks for Cut<'a, T> {
    type Part = &'a mut [T];

    fn count(&self) -> usize {
        self.bounds.len().saturating_sub(1)
    }

    unsafe fn part(&self, index: usize) -> &'a mut [T] {
        let (first, end) = (self.bounds[index], self.bounds[index + 1]);
        // SAFETY: within the slice, which is borrowed for 'a, and the caller asks for it once.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(first), end - first) }
    }
}

#[expect(unsafe_code, reason = "pieces of two things at once")]
// SAFETY: pieces of both are apart, so pairs are.
unsafe impl<A: DisjointChunks, B: DisjointChunks> DisjointChunks for (A, B) {
    type Part = (A::Part, B::Part);

    fn count(&self) -> usize {
        assert_eq!(self.0.count(), self.1.count(), "as many pieces of both");
        self.0.count()
    }

    unsafe fn part(&self, index: usize) -> Self::Part {
        // SAFETY: what the caller promises of the pair holds of both.
        unsafe { (self.0.part(index), self.1.part(index)) }
    }
}

/// Chunks of an optional buffer; without the buffer each chunk is `None`.
pub(in crate::model::exec::cpu) struct Wanted<P> {
    parts: Option<P>,
    count: usize,
}

impl<P: DisjointChunks> Wanted<P> {
    /// `count` pieces of `parts`, if there are any.
    pub(in crate::model::exec::cpu) fn new(parts: Option<P>, count: usize) -> Self {
        if let Some(parts) = &parts {
            assert_eq!(parts.count(), count, "as many pieces as are wanted");
        }
        Self { parts, count }
    }
}

#[expect(unsafe_code, reason = "pieces of something, or nothing")]
// SAFETY: pieces are those of `parts`.
unsafe impl<P: DisjointChunks> DisjointChunks for Wanted<P> {
    type Part = Option<P::Part>;

    fn count(&self) -> usize {
        self.count
    }

    unsafe fn part(&self, index: usize) -> Self::Part {
        // SAFETY: what the caller promises of all holds of `parts`.
        self.parts
            .as_ref()
            .map(|parts| unsafe { parts.part(index) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the trait's own method")]
    fn pieces_cover_a_slice_without_overlap() {
        let (mut chunked, mut cut) = ([0_u8; 10], [0_u8; 10]);
        let parts = (
            Chunks::new(&mut chunked, 4),
            Cut::new(&mut cut, &[1, 1, 6, 10]),
        );
        assert_eq!(parts.count(), 3);
        for index in 0..parts.count() {
            // SAFETY: each once.
            let (a, b) = unsafe { parts.part(index) };
            a.iter_mut().chain(b).for_each(|x| *x += 1 + index as u8);
        }
        assert_eq!(chunked, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3]);
        assert_eq!(cut, [0, 2, 2, 2, 2, 2, 3, 3, 3, 3]);
    }

    #[test]
    #[should_panic(expected = "within the slice")]
    fn bounds_beyond_the_slice_are_refused() {
        Cut::new(&mut [0_u8; 3], &[0, 4]);
    }
}

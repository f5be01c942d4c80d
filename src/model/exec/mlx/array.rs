//! MLX arrays from Rust memory, and the two operations that `mlx-rs` wraps too loosely: slices and
//! updates of slices, each a single call.

use std::{ffi::c_void, ops::Range};

use mlx_rs::{Array, ArrayElement, Stream, error::Exception};

/// Result of an MLX call.
pub(super) type Result<T> = std::result::Result<T, Exception>;

/// Most dimensions that any array here has.
const DIMENSIONS_MAX: usize = 5;

/// A size as MLX counts it. Sizes were bounded when the model was described; one beyond `i32` would
/// be refused by MLX.
pub(super) fn dim(size: usize) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

/// Builds an array over a vector's elements. MLX takes the vector over if it can, and copies it
/// otherwise.
pub(super) fn from_vec<T: ArrayElement>(data: Vec<T>, shape: &[usize]) -> Result<Array> {
    if shape.iter().product::<usize>() != data.len() {
        let what = format!(
            "{} elements do not make an array of shape {shape:?}",
            data.len()
        );
        return Err(Exception::custom(what));
    }
    let shape: Vec<i32> = shape.iter().map(|&size| dim(size)).collect();
    let mut data = Box::new(data);
    let elements = data.as_mut_ptr().cast::<c_void>();
    let owner = Box::into_raw(data).cast::<c_void>();
    // SAFETY: `elements` points to as many initialised elements of `T::DTYPE` as the shape has, and
    // stays valid until MLX calls `drop_vec::<T>` with `owner`, once, when it needs them no more.
    #[expect(unsafe_code, reason = "mlx-rs only copies from slices")]
    let array = unsafe {
        Array::from_ptr(mlx_sys::mlx_array_new_data_managed_payload(
            elements,
            shape.as_ptr(),
            dim(shape.len()),
            T::DTYPE.into(),
            owner,
            Some(drop_vec::<T>),
        ))
    };
    Ok(array)
}

/// Frees a vector that [`from_vec`] handed over.
#[expect(
    unsafe_code,
    reason = "called by MLX with the pointer that it was given"
)]
unsafe extern "C" fn drop_vec<T>(owner: *mut c_void) {
    // SAFETY: `owner` came from `Box::into_raw` of a `Box<Vec<T>>`, and MLX calls this once.
    drop(unsafe { Box::from_raw(owner.cast::<Vec<T>>()) });
}

/// The part of an array within a range of one axis, as a view.
pub(super) fn slice(array: &Array, axis: usize, range: Range<usize>) -> Result<Array> {
    part(array, &[(axis, range)])
}

/// The part of an array within ranges of several axes, as a view.
pub(super) fn part(array: &Array, ranges: &[(usize, Range<usize>)]) -> Result<Array> {
    let (mut start, mut stop) = ([0; DIMENSIONS_MAX], [0; DIMENSIONS_MAX]);
    let rank = array.ndim();
    stop[..rank].copy_from_slice(array.shape());
    for (axis, range) in ranges {
        start[*axis] = dim(range.start);
        stop[*axis] = dim(range.end);
    }
    strided(
        array,
        &start[..rank],
        &stop[..rank],
        &[1; DIMENSIONS_MAX][..rank],
    )
}

/// The array with one axis backwards, as a view.
pub(super) fn reversed(array: &Array, axis: usize) -> Result<Array> {
    let (mut start, mut stop) = ([0; DIMENSIONS_MAX], [0; DIMENSIONS_MAX]);
    let mut step = [1; DIMENSIONS_MAX];
    let rank = array.ndim();
    stop[..rank].copy_from_slice(array.shape());
    start[axis] = stop[axis] - 1;
    stop[axis] = -stop[axis] - 1;
    step[axis] = -1;
    strided(array, &start[..rank], &stop[..rank], &step[..rank])
}

#[expect(unsafe_code, reason = "mlx-rs slices by way of general indexing")]
fn strided(array: &Array, start: &[i32], stop: &[i32], step: &[i32]) -> Result<Array> {
    let stream = Stream::thread_local_or_default();
    new_array("slice", |out| {
        // SAFETY: the three lists have as many entries as the lengths say, and outlive the call.
        unsafe {
            mlx_sys::mlx_slice(
                out,
                array.as_ptr(),
                start.as_ptr(),
                start.len(),
                stop.as_ptr(),
                stop.len(),
                step.as_ptr(),
                step.len(),
                stream.as_ptr(),
            )
        }
    })
}

/// `array` with `part` written at `start` of one axis. MLX does so in place if nothing else holds
/// `array` once this is evaluated, so the caller drops its handle.
#[expect(unsafe_code, reason = "mlx-rs updates by way of general indexing")]
pub(super) fn updated(array: &Array, part: &Array, axis: usize, start: usize) -> Result<Array> {
    let (mut from, mut to) = ([0; DIMENSIONS_MAX], [0; DIMENSIONS_MAX]);
    let rank = array.ndim();
    to[..rank].copy_from_slice(array.shape());
    from[axis] = dim(start);
    to[axis] = dim(start).saturating_add(part.dim(dim(axis)));
    let step = [1; DIMENSIONS_MAX];
    let stream = Stream::thread_local_or_default();
    new_array("update of a slice", |out| {
        // SAFETY: the three lists have `rank` entries, and outlive the call.
        unsafe {
            mlx_sys::mlx_slice_update(
                out,
                array.as_ptr(),
                part.as_ptr(),
                from.as_ptr(),
                rank,
                to.as_ptr(),
                rank,
                step.as_ptr(),
                rank,
                stream.as_ptr(),
            )
        }
    })
}

/// Runs an operation that sets a new array and returns 0.
#[expect(unsafe_code, reason = "the handle of the result is MLX's")]
fn new_array(what: &str, run: impl FnOnce(*mut mlx_sys::mlx_array) -> i32) -> Result<Array> {
    // SAFETY: an empty handle is valid, and `Array` owns and frees it, whatever the outcome.
    let (status, array) = unsafe {
        let mut handle = mlx_sys::mlx_array_new();
        let status = run(&raw mut handle);
        (status, Array::from_ptr(handle))
    };
    if status == 0 {
        Ok(array)
    } else {
        Err(Exception::custom(format!("MLX refused a {what}")))
    }
}

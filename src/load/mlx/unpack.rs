//! Packed words → 32-bit floats.

use super::MlxQuantization;
use crate::load::parallel::over_parts;

/// Elements that are unpacked at once: they fill whole words for every number of bits.
const CHUNK: usize = 32;

/// Decodes a packed matrix. Every group of `out` has its scale and its bias; `packed` has as many
/// bits as `out` needs.
pub(super) fn unpack(how: MlxQuantization, packed: &[u8], groups: [&[f32]; 2], out: &mut [f32]) {
    let unpack = match how.bits {
        2 => unpack_part::<2>,
        3 => unpack_part::<3>,
        4 => unpack_part::<4>,
        5 => unpack_part::<5>,
        6 => unpack_part::<6>,
        _ => unpack_part::<8>,
    };
    over_parts(out, how.group_size, |first, part| {
        let group = first / how.group_size;
        let groups = groups.map(|values| &values[group..]);
        unpack(
            how.group_size,
            &packed[first * how.bits / 8..],
            groups,
            part,
        );
    });
}

fn unpack_part<const BITS: usize>(
    group_size: usize,
    packed: &[u8],
    [scales, biases]: [&[f32]; 2],
    out: &mut [f32],
) {
    let chunks = packed.chunks_exact(BITS * CHUNK / 8);
    for (index, (values, packed)) in out
        .as_chunks_mut::<CHUNK>()
        .0
        .iter_mut()
        .zip(chunks)
        .enumerate()
    {
        let group = index * CHUNK / group_size;
        let (scale, bias) = (scales[group], biases[group]);
        for (value, quant) in values.iter_mut().zip(unpack_chunk::<BITS>(packed)) {
            *value = scale * f32::from(quant) + bias;
        }
    }
}

/// Takes elements of `BITS` bits off a little-endian stream of bits.
fn unpack_chunk<const BITS: usize>(packed: &[u8]) -> [u8; CHUNK] {
    // One byte more, so that the last element can be read as two bytes like all others.
    let mut bytes = [0; CHUNK + 1];
    bytes[..BITS * CHUNK / 8].copy_from_slice(packed);
    std::array::from_fn(|index| {
        let (byte, shift) = (index * BITS / 8, index * BITS % 8);
        let pair = u16::from_le_bytes([bytes[byte], bytes[byte + 1]]);
        (pair >> shift) as u8 & (u8::MAX >> (8 - BITS))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const BITS: usize>() {
        let quants: [u8; CHUNK] = std::array::from_fn(|index| (index * 37 % (1 << BITS)) as u8);
        let mut packed = vec![0_u8; BITS * CHUNK / 8];
        for (index, quant) in quants.iter().enumerate() {
            for bit in (0..BITS).filter(|bit| quant >> bit & 1 == 1) {
                let place = index * BITS + bit;
                packed[place / 8] |= 1 << (place % 8);
            }
        }
        assert_eq!(unpack_chunk::<BITS>(&packed), quants, "{BITS} bits");
    }

    #[test]
    fn elements_of_every_width_are_taken_off_in_order() {
        check::<2>();
        check::<3>();
        check::<4>();
        check::<5>();
        check::<6>();
        check::<8>();
    }
}

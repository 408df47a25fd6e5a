//! The cube root, computed with operations that all machines round identically.
//!
//! The `cbrt` functions of two platforms may differ in the last bit, but a run is a function of case, seed and
//! version alone. IEEE 754 defines the results of addition, multiplication and division exactly.

/// The cube root of `x`, with an error of at most two units in the last place; zero when `x` is not positive.
pub(crate) fn cbrt(x: f64) -> f64 {
    if !x.is_normal() || x < 0.0 {
        return 0.0;
    }
    // Dividing the exponent by three gives a first approximation within 6 %; each step of Halley's method triples the
    // number of correct digits.
    let mut y = f64::from_bits(x.to_bits() / 3 + (715_094_163 << 32));
    for _ in 0..2 {
        let cube = y * y * y;
        y *= (cube + x + x) / (cube + cube + x);
    }
    // The last step uses Newton's method, whose correction is small, so that its rounding does not matter.
    y - (y * y * y - x) / (3.0 * y * y)
}

#[cfg(test)]
mod tests {
    use super::cbrt;
    use proptest::prelude::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "the roots of whole cubes are exact")]
    fn whole_cubes_have_whole_roots() {
        assert_eq!(cbrt(27.0), 3.0);
        assert_eq!(cbrt(1_000_000.0), 100.0);
        assert_eq!(cbrt(0.001), 0.1);
        assert_eq!(cbrt(0.0), 0.0);
        assert_eq!(cbrt(-8.0), 0.0);
    }

    #[test]
    fn the_root_is_the_same_to_the_bit_on_every_machine() {
        assert_eq!(cbrt(75.0).to_bits(), 4.217_163_326_508_746f64.to_bits());
        assert_eq!(cbrt(2.0).to_bits(), 1.259_921_049_894_873_2f64.to_bits());
    }

    proptest! {
        #[test]
        fn the_cube_of_the_root_is_the_number(x in 1e-9f64..1e15) {
            let y = cbrt(x);
            prop_assert!((y * y * y / x - 1.0).abs() < 4e-15);
        }
    }
}

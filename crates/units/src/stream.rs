//! Random streams derived from a seed and a name.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The seed of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Seed(pub u64);

/// A stream of random numbers for one named purpose (`"link.bottleneck.loss"`).
///
/// It is a function of the run's seed and the name alone. Adding an element to a topology or a collector to a run
/// therefore does not change the random numbers of other elements. The generator is xoshiro256++; it implements
/// [`rand_core::Rng`], so that the distributions of `rand_distr` can use it.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Seed {
    /// The stream of `name`.
    pub fn stream(self, name: &str) -> Stream {
        // FNV-1a of the name; the splitmix64 seeding of the generator mixes the bits.
        let mut h: u64 = 0xcbf2_9ce4_8422_2325;
        for b in name.bytes() {
            h = (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
        Stream(Xoshiro256PlusPlus::seed_from_u64(h ^ self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

impl Stream {
    /// Uniform in `[0, 1)` with 53 random bits.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`; draws no number when `p` is at most 0 or at least 1.
    pub fn chance(&mut self, p: f64) -> bool {
        p >= 1.0 || (p > 0.0 && self.unit() < p)
    }

    /// Uniform in `[0, n)`. Panics when `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a random number below zero");
        // Lemire's multiply-shift method; its bias of at most n / 2^64 is negligible.
        let wide = u128::from(self.0.next_u64()) * u128::from(n);
        u64::try_from(wide >> 64).expect("the high half of a 128-bit product")
    }

    /// 32 random bits, for initial sequence numbers and timestamp offsets.
    pub fn bits32(&mut self) -> u32 {
        self.0.next_u32()
    }
}

impl rand_core::TryRng for Stream {
    type Error = std::convert::Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(self.0.next_u32())
    }
    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.0.next_u64())
    }
    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Self::Error> {
        self.0.fill_bytes(dst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_function_of_seed_and_name() {
        let draw = |seed, name| {
            let mut s = Seed(seed).stream(name);
            [s.below(1000), s.below(1000), s.below(1000)]
        };
        assert_eq!(draw(1, "loss"), draw(1, "loss"));
        assert_ne!(draw(1, "loss"), draw(2, "loss"));
        assert_ne!(draw(1, "loss"), draw(1, "jitter"));
    }

    #[test]
    fn the_first_numbers_of_a_stream_never_change_between_versions() {
        let mut s = Seed(1).stream("golden");
        assert_eq!([s.below(1_000_000), s.below(1_000_000), s.below(1_000_000)], [478_881, 4_542, 264_948]);
    }

    #[test]
    fn probabilities_0_and_1_consume_no_random_numbers() {
        let mut a = Seed(7).stream("x");
        let mut b = Seed(7).stream("x");
        assert!(a.chance(1.0));
        assert!(!a.chance(0.0));
        assert_eq!(a.bits32(), b.bits32());
    }

    #[test]
    fn a_probability_of_one_hundredth_has_this_frequency() {
        let mut s = Seed(3).stream("p");
        let hits = (0..100_000).filter(|_| s.chance(0.01)).count();
        assert!((900..1100).contains(&hits), "{hits}");
    }
}

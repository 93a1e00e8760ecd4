//! Seeded random numbers: the same seed gives the same run, as far as the machine allows.

/// A small generator (SplitMix64). Not for secrets.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Random numbers with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` up to, not including, `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.throw() % (high - low).max(1)
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, often: u64) -> bool {
        self.throw() % 100 < often
    }

    /// A random element.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.between(0, from.len() as u64) as usize) }
    }

    /// Separate random numbers for another user, so that the two do not affect each other.
    pub fn split(&mut self) -> Self {
        Self(self.throw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_run() {
        let throws = |seed| {
            let mut chance = Chance::new(seed);
            (0..8).map(|_| chance.between(3, 9)).collect::<Vec<_>>()
        };
        assert_eq!(throws(7), throws(7));
        assert_ne!(throws(7), throws(8));
        assert!(throws(1).iter().all(|it| (3..9).contains(it)));
    }
}

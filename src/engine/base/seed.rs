//! Random numbers for tests. The test prints its seed, and UCXX_TEST_SEED repeats the run.

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(u64);

/// The seed from the environment.
pub(crate) fn given_seed() -> Option<u64> {
    let text = std::env::var("UCXX_TEST_SEED").ok()?;
    let digits = text.trim_start_matches("0x");
    u64::from_str_radix(digits, if digits.len() < text.len() { 16 } else { 10 }).ok()
}

/// The seed from the environment, or a fresh one.
pub(crate) fn seed() -> u64 {
    let clock = || {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()
            as u64
    };
    given_seed().unwrap_or_else(clock)
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Prints the seed: for tests that make one run.
    pub(crate) fn announced() -> Self {
        let seed = seed();
        println!("UCXX_TEST_SEED={seed:#x}");
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

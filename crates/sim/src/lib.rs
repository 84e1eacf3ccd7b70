//! Whole worlds in virtual time, replayed by seed.

//! Test of the use of the crate from several threads.

use std::fs::File;
use tcpassay_capture::{Analysis, Reader};

#[test]
fn readers_and_analyses_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Reader<File>>();
    shared::<Analysis>();
}

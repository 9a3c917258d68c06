//! A second Rust static library, for a program that links it beside ucxx_rs: it allocates, panics
//! and catches, so that the code common to both archives is used.

#[no_mangle]
pub extern "C" fn other_answer() -> i32 {
    std::panic::set_hook(Box::new(|_| {}));
    let caught = std::panic::catch_unwind(|| {
        let text = format!("{}", std::env::args().count());
        assert!(text.is_empty(), "raised to be caught");
    });
    if caught.is_err() {
        42
    } else {
        0
    }
}

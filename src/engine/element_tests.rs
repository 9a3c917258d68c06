//! Numbers, sizes, and what goes with what.

use super::*;

#[test]
fn numbers_are_places() {
    for (number, kind) in ElementType::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, number);
        assert_eq!(ElementType::from_number(number as i32).unwrap(), kind);
    }
    for (number, op) in Reduce::ALL.into_iter().enumerate() {
        assert_eq!(op as usize, number);
        assert_eq!(Reduce::from_number(number as i32).unwrap(), op);
    }
    for strange in [-1, 19, i32::MAX, i32::MIN] {
        assert_eq!(ElementType::from_number(strange).unwrap_err().status(), Status::RMA_TYPE);
        assert_eq!(type_size(strange), 0);
    }
    for strange in [-1, 14, i32::MAX, i32::MIN] {
        assert_eq!(Reduce::from_number(strange).unwrap_err().status(), Status::RMA_OP);
    }
}

/// As a C compiler has them.
#[test]
fn sizes_and_alignments_are_those_of_c() {
    #[repr(C)]
    struct Pair<T>(T, i32);
    let c = [
        (ElementType::Byte, size_of::<u8>(), align_of::<u8>()),
        (ElementType::Bool, size_of::<bool>(), align_of::<bool>()),
        (ElementType::Int64, size_of::<i64>(), align_of::<i64>()),
        (ElementType::Double, size_of::<f64>(), align_of::<f64>()),
        (ElementType::ComplexFloat, size_of::<[f32; 2]>(), align_of::<[f32; 2]>()),
        (ElementType::ComplexDouble, size_of::<[f64; 2]>(), align_of::<[f64; 2]>()),
        (ElementType::FloatInt, size_of::<Pair<f32>>(), align_of::<Pair<f32>>()),
        (ElementType::DoubleInt, size_of::<Pair<f64>>(), align_of::<Pair<f64>>()),
        (ElementType::Int16Int, size_of::<Pair<i16>>(), align_of::<Pair<i16>>()),
        (ElementType::Int32Int, size_of::<Pair<i32>>(), align_of::<Pair<i32>>()),
        (ElementType::Int64Int, size_of::<Pair<i64>>(), align_of::<Pair<i64>>()),
    ];
    for (kind, size, alignment) in c {
        assert_eq!((type_size(kind as i32), kind.alignment()), (size, alignment), "{kind:?}");
    }
}

/// One row a type, one column an operation, both in the order of the header.
#[test]
fn what_goes_with_what() {
    const TABLE: [&str; 19] = [
        ".......xxxxx..", // byte
        "xxxxxxxxxxxx..",
        "xxxxxxxxxxxx..",
        "xxxxxxxxxxxx..",
        "xxxxxxxxxxxx..",
        "xxxxxxxxxxxx..",
        "xxxxxxxxxxxx..",
        "xxxxxxxxxxxx..",
        "xxxxxxxxxxxx..",
        "xxxx......xx..", // float
        "xxxx......xx..",
        "xx........xx..", // complex
        "xx........xx..",
        "....xxx...xx..", // bool
        "..........xxxx", // pairs
        "..........xxxx",
        "..........xxxx",
        "..........xxxx",
        "..........xxxx",
    ];
    for (kind, row) in ElementType::ALL.into_iter().zip(TABLE) {
        for (op, cell) in Reduce::ALL.into_iter().zip(row.chars()) {
            assert_eq!(kind.has(op), cell == 'x', "{kind:?} {op:?}");
            let checked = kind.check_reduce(op, true);
            assert_eq!(checked.map_err(|error| error.status()).err(), (cell != 'x').then_some(Status::RMA_OP));
        }
        assert_eq!(kind.check_reduce(Reduce::NoOp, false).unwrap_err().status(), Status::RMA_OP);
    }
    let compares = ElementType::ALL.map(|kind| if kind.check_compare_and_swap().is_ok() { 'x' } else { '.' });
    assert_eq!(compares.iter().collect::<String>(), "xxxxxxxxx....x.....");
}

#[test]
fn the_domain_of_an_element() {
    assert_eq!(ElementType::Double.domain(8).unwrap(), Domain::Element);
    assert_eq!(ElementType::Double.domain(4).unwrap_err().status(), Status::INVALID_PARAM);
    assert_eq!(ElementType::ComplexFloat.domain(8).unwrap(), Domain::Element);
    assert_eq!(ElementType::ComplexFloat.domain(4).unwrap(), Domain::Lock);
    assert_eq!(ElementType::ComplexDouble.domain(16).unwrap(), Domain::Lock);
    assert_eq!(ElementType::Byte.domain(3).unwrap(), Domain::Element);
    assert!(ElementType::Int16Int.domain(2).is_err());
}

//! Numbers, sizes and valid combinations, compared with C, MPI and docs/windows.md.

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
    for strange in [-1, 22, i32::MAX, i32::MIN] {
        assert_eq!(ElementType::from_number(strange).unwrap_err().status(), Status::RMA_TYPE);
        assert_eq!(type_size(strange), 0);
    }
    for strange in [-1, 14, i32::MAX, i32::MIN] {
        assert_eq!(Reduce::from_number(strange).unwrap_err().status(), Status::RMA_OP);
    }
}

/// Sizes as a C compiler has them. Rust has no `long double`: tests/c checks it.
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

/// One row for each type, one column for each operation, both in the header's order.
#[test]
fn what_goes_with_what() {
    const TABLE: [&str; 22] = [
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
        "xxxx......xx..", // long double
        "xx........xx..",
        "..........xxxx",
    ];
    for (kind, row) in ElementType::ALL.into_iter().zip(TABLE) {
        for (op, cell) in Reduce::ALL.into_iter().zip(row.chars()) {
            assert_eq!(kind.has(op), cell == 'x', "{kind:?} {op:?}");
            let checked = kind.check_reduce(op, true);
            let moves = matches!(op, Reduce::Replace | Reduce::NoOp);
            let refused = match cell {
                'x' if kind.is_only_moved() && !moves => Some(Status::UNSUPPORTED),
                'x' => None,
                _ => Some(Status::RMA_OP),
            };
            assert_eq!(checked.map_err(|error| error.status()).err(), refused, "{kind:?} {op:?}");
        }
        assert_eq!(kind.check_reduce(Reduce::NoOp, false).unwrap_err().status(), Status::RMA_OP);
    }
    let compares =
        ElementType::ALL.map(|kind| if kind.check_compare_and_swap().is_ok() { 'x' } else { '.' });
    assert_eq!(compares.iter().collect::<String>(), "xxxxxxxxx....x........");
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

/// Combinations that MPI 4.1 allows: 6.9.2 for its operations, 12.3.4 for compare-and-swap, and any
/// type for operations that only copy.
fn mpi_allows(operations: &str, name: &str) -> bool {
    const INTEGERS: &str = "INT LONG SHORT UNSIGNED_SHORT UNSIGNED UNSIGNED_LONG LONG_LONG_INT \
                            LONG_LONG UNSIGNED_LONG_LONG SIGNED_CHAR UNSIGNED_CHAR INT8_T INT16_T \
                            INT32_T INT64_T UINT8_T UINT16_T UINT32_T UINT64_T";
    const FLOATING: &str = "FLOAT DOUBLE LONG_DOUBLE";
    const LOGICAL: &str = "C_BOOL CXX_BOOL";
    const COMPLEX: &str = "C_COMPLEX C_FLOAT_COMPLEX C_DOUBLE_COMPLEX C_LONG_DOUBLE_COMPLEX \
                           CXX_FLOAT_COMPLEX CXX_DOUBLE_COMPLEX CXX_LONG_DOUBLE_COMPLEX";
    const BYTE: &str = "BYTE";
    const MULTI_LANGUAGE: &str = "AINT OFFSET COUNT";
    const PAIRS: &str = "FLOAT_INT DOUBLE_INT LONG_INT 2INT SHORT_INT LONG_DOUBLE_INT";
    const OTHERS: &str = "CHAR WCHAR PACKED";
    let allowed: &[&str] = match operations {
        "SUM PROD" => &[INTEGERS, FLOATING, COMPLEX, MULTI_LANGUAGE],
        "MIN MAX" => &[INTEGERS, FLOATING, MULTI_LANGUAGE],
        "LAND LOR LXOR" => &[INTEGERS, LOGICAL],
        "BAND BOR BXOR" => &[INTEGERS, BYTE, MULTI_LANGUAGE],
        "MINLOC MAXLOC" => &[PAIRS],
        "CAS" => &[INTEGERS, LOGICAL, MULTI_LANGUAGE, BYTE],
        _ => &[INTEGERS, FLOATING, LOGICAL, COMPLEX, BYTE, MULTI_LANGUAGE, PAIRS, OTHERS],
    };
    allowed.iter().any(|list| list.split_whitespace().any(|each| each == name))
}

/// `ComplexLongDouble` to `COMPLEX_LONG_DOUBLE`.
fn name_in_c(rust: &impl std::fmt::Debug) -> String {
    let mut name = String::new();
    for letter in format!("{rust:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// The page's table lists each of MPI's types once, and for each operation what the library does.
#[test]
fn the_documentation_says_what_goes_with_what() {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/windows.md"));
    let rows = text.lines().skip_while(|line| !line.starts_with("| MPI | here |"));
    let rows = rows.take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> =
        rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect();
    let (mut mpi, mut here) = (Vec::new(), Vec::new());
    for row in &rows[2..] {
        let kind =
            ElementType::ALL.into_iter().find(|kind| name_in_c(kind) == row[1]).expect(row[1]);
        here.push(kind);
        assert_eq!(row.len(), rows[0].len(), "{row:?}");
        for name in row[0].split(", ") {
            mpi.push(name);
            for (operations, cell) in rows[0].iter().zip(row).skip(2) {
                let is_here = |op: &str| match op {
                    "CAS" => kind.check_compare_and_swap().is_ok(),
                    _ => kind
                        .has(Reduce::ALL.into_iter().find(|each| name_in_c(each) == op).expect(op)),
                };
                for op in operations.split(' ') {
                    let expected = match (mpi_allows(operations, name), is_here(op)) {
                        (true, true) => "yes",
                        (false, true) => "more",
                        (true, false) => "no",
                        (false, false) => "",
                    };
                    assert_eq!(*cell, expected, "{name} {op}");
                }
            }
        }
    }
    assert!(ElementType::ALL.iter().all(|kind| here.contains(kind)), "{here:?}");
    let all = mpi.len();
    mpi.sort_unstable();
    mpi.dedup();
    assert_eq!(mpi.len(), all, "a type twice");
    assert_eq!(all, 19 + 3 + 3 + 2 + 7 + 1 + 6 + 3, "a type of MPI's is missing");
    assert!(mpi.iter().all(|name| mpi_allows("REPLACE NO_OP", name)), "{mpi:?}");
}

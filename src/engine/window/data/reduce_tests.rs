//! Every operation on every type, in both ways, against a model that knows numbers and no bits.

use super::*;
use std::sync::Barrier;

/// A value as a person would write it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Number {
    Whole(i128),
    Real(f64),
    Complex(f64, f64),
    Located(f64, i32),
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().unwrap()
}

/// Extended precision, if it is also a double's value.
fn from_extended(bytes: &[u8]) -> f64 {
    let (significand, top) =
        (u64::from_ne_bytes(part(bytes, 0)), u16::from_ne_bytes(part(bytes, 8)));
    let size = significand as f64 * 2_f64.powi(i32::from(top & 0x7fff) - 16383 - 63);
    let number = if significand == 0 { 0.0 } else { size };
    if top >> 15 == 1 {
        -number
    } else {
        number
    }
}

/// With padding, which nobody may use.
fn to_extended(number: f64) -> [u8; 16] {
    let bits = number.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as u16, bits << 12 >> 1);
    let (significand, biased) =
        if number == 0.0 { (0, 0) } else { (1 << 63 | fraction, exponent + (16383 - 1023)) };
    let top = biased | (bits >> 63 << 15) as u16;
    (u128::from(significand) | u128::from(top) << 64 | 0xdb_dbdb << 80).to_ne_bytes()
}

fn read(kind: ElementType, bytes: &[u8]) -> Number {
    use ElementType::*;
    use Number::*;
    let index = |at| i32::from_ne_bytes(part(bytes, at));
    match kind {
        Byte | Uint8 | Bool => Whole(bytes[0].into()),
        Int8 => Whole((bytes[0] as i8).into()),
        Int16 => Whole(i16::from_ne_bytes(part(bytes, 0)).into()),
        Uint16 => Whole(u16::from_ne_bytes(part(bytes, 0)).into()),
        Int32 => Whole(i32::from_ne_bytes(part(bytes, 0)).into()),
        Uint32 => Whole(u32::from_ne_bytes(part(bytes, 0)).into()),
        Int64 => Whole(i64::from_ne_bytes(part(bytes, 0)).into()),
        Uint64 => Whole(u64::from_ne_bytes(part(bytes, 0)).into()),
        Float => Real(f32::from_ne_bytes(part(bytes, 0)).into()),
        Double => Real(f64::from_ne_bytes(part(bytes, 0))),
        ComplexFloat => Complex(
            f32::from_ne_bytes(part(bytes, 0)).into(),
            f32::from_ne_bytes(part(bytes, 4)).into(),
        ),
        ComplexDouble => {
            Complex(f64::from_ne_bytes(part(bytes, 0)), f64::from_ne_bytes(part(bytes, 8)))
        }
        FloatInt => Located(f32::from_ne_bytes(part(bytes, 0)).into(), index(4)),
        DoubleInt => Located(f64::from_ne_bytes(part(bytes, 0)), index(8)),
        Int16Int => Located(i16::from_ne_bytes(part(bytes, 0)).into(), index(4)),
        Int32Int => Located(i32::from_ne_bytes(part(bytes, 0)).into(), index(4)),
        Int64Int => Located(i64::from_ne_bytes(part(bytes, 0)) as f64, index(8)),
        LongDouble => Real(from_extended(bytes)),
        ComplexLongDouble => Complex(from_extended(bytes), from_extended(&bytes[16..])),
        LongDoubleInt => Located(from_extended(bytes), index(16)),
    }
}

/// The operation on unlimited numbers; `write` truncates the result.
fn model(op: Reduce, kind: ElementType, now: Number, operand: Number) -> Number {
    use Number::*;
    use Reduce::*;
    let mask = i128::from(u64::MAX);
    match (op, now, operand) {
        (Replace, _, b) => b,
        (NoOp, a, _) => a,
        (Sum, Whole(a), Whole(b)) => Whole(a + b),
        (Prod, Whole(a), Whole(b)) => Whole((a & mask).wrapping_mul(b & mask)),
        (Min, Whole(a), Whole(b)) => Whole(a.min(b)),
        (Max, Whole(a), Whole(b)) => Whole(a.max(b)),
        (Land, Whole(a), Whole(b)) => Whole(i128::from(a != 0 && b != 0)),
        (Lor, Whole(a), Whole(b)) => Whole(i128::from(a != 0 || b != 0)),
        (Lxor, Whole(a), Whole(b)) => Whole(i128::from((a == 0) != (b == 0))),
        (Band, Whole(a), Whole(b)) => Whole(a & b),
        (Bor, Whole(a), Whole(b)) => Whole(a | b),
        (Bxor, Whole(a), Whole(b)) => Whole(a ^ b),
        (Sum, Real(a), Real(b)) => Real(a + b),
        (Prod, Real(a), Real(b)) => Real(a * b),
        (Min, Real(a), Real(b)) => Real(a.min(b)),
        (Max, Real(a), Real(b)) => Real(a.max(b)),
        (Sum, Complex(a, b), Complex(c, d)) => Complex(a + c, b + d),
        (Prod, Complex(a, b), Complex(c, d)) => Complex(a * c - b * d, a * d + b * c),
        (Minloc | Maxloc, Located(a, at), Located(b, there)) if a == b => Located(a, at.min(there)),
        (Minloc, Located(a, _), Located(b, _)) => {
            if a < b {
                now
            } else {
                operand
            }
        }
        (Maxloc, Located(a, _), Located(b, _)) => {
            if a > b {
                now
            } else {
                operand
            }
        }
        _ => panic!("{op:?} of {kind:?}"),
    }
}

/// A number as the type stores it.
fn write(kind: ElementType, number: Number) -> Vec<u8> {
    let mut bytes = vec![0; kind.size()];
    let half = kind.size() / 2;
    let real = |value: f64, size: usize| match size {
        4 => (value as f32).to_ne_bytes().to_vec(),
        8 => value.to_ne_bytes().to_vec(),
        _ => to_extended(value).to_vec(),
    };
    match number {
        Number::Whole(value) => bytes.copy_from_slice(&value.to_le_bytes()[..kind.size()]),
        Number::Real(value) => bytes.copy_from_slice(&real(value, kind.size())),
        Number::Complex(a, b) => {
            bytes[..half].copy_from_slice(&real(a, half));
            bytes[half..].copy_from_slice(&real(b, half));
        }
        Number::Located(value, index) => {
            match kind {
                ElementType::FloatInt | ElementType::DoubleInt | ElementType::LongDoubleInt => {
                    bytes[..half].copy_from_slice(&real(value, half));
                }
                ElementType::Int16Int => bytes[..2].copy_from_slice(&(value as i16).to_le_bytes()),
                _ => bytes[..half].copy_from_slice(&(value as i64).to_le_bytes()[..half]),
            }
            bytes[half..half + 4].copy_from_slice(&index.to_le_bytes());
        }
    }
    bytes
}

/// Small integers from time to time, random bits otherwise, so that ties and zeros occur.
fn random(kind: ElementType, seed: &mut u64) -> Vec<u8> {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    let bits = (*seed >> 20) as i128;
    let small = (bits % 7 - 3) as f64;
    let number = match read(kind, &[0; 32]) {
        Number::Whole(_) if kind == ElementType::Bool => Number::Whole(bits % 2),
        Number::Whole(_) if bits % 3 == 0 => Number::Whole(bits % 7 - 3),
        Number::Whole(_) => Number::Whole(seed.rotate_left(17).into()),
        Number::Real(_) => Number::Real(small * 0.75),
        Number::Complex(..) => Number::Complex(small, (bits / 7 % 5) as f64),
        Number::Located(..) => Number::Located(small, (bits / 7 % 5) as i32),
    };
    write(kind, number)
}

fn cases() -> impl Iterator<Item = (ElementType, Reduce, Domain)> {
    ElementType::ALL.into_iter().flat_map(|kind| {
        let ops = Reduce::ALL.into_iter().filter(move |op| kind.check_reduce(*op, true).is_ok());
        let domains = [Domain::Lock, Domain::Element];
        ops.flat_map(move |op| domains.map(|domain| (kind, op, domain)))
            .filter(|(kind, _, domain)| *domain == Domain::Lock || kind.size() <= 8)
    })
}

#[test]
fn every_operation_on_every_type_does_what_the_model_does() {
    let mut seed = 7;
    // More than is fetched at a time, and not a multiple of a vector.
    for count in [0, 1, 3, FETCHED_AT_ONCE / 4 + 5] {
        for (kind, op, domain) in cases() {
            let size = kind.size();
            let mut words = vec![0_u64; (count + 1) * size.div_ceil(8)];
            let target = words.as_mut_ptr().cast::<u8>();
            let initial: Vec<u8> = (0..count).flat_map(|_| random(kind, &mut seed)).collect();
            // One byte further, so that neither is aligned.
            let mut operand = vec![0];
            operand.extend((0..count).flat_map(|_| random(kind, &mut seed)));
            let mut result = vec![0xaa; 1 + count * size];
            for fetches in [true, false] {
                // SAFETY: as many elements in all buffers, used only by this thread.
                let after = unsafe {
                    target.copy_from(initial.as_ptr(), count * size);
                    let result =
                        if fetches { result[1..].as_mut_ptr() } else { std::ptr::null_mut() };
                    Update { kind, op, target, operand: operand[1..].as_ptr(), result, count }
                        .execute(domain);
                    std::slice::from_raw_parts(target, count * size)
                };
                for at in 0..count {
                    let element = at * size..(at + 1) * size;
                    let (now, operand) = (
                        read(kind, &initial[element.clone()]),
                        read(kind, &operand[1..][element.clone()]),
                    );
                    let expected = read(kind, &write(kind, model(op, kind, now, operand)));
                    let found = read(kind, &after[element]);
                    assert_eq!(
                        found, expected,
                        "{kind:?} {op:?} {domain:?}: {now:?} with {operand:?}"
                    );
                }
            }
            assert_eq!(result[1..], initial, "{kind:?} {op:?} {domain:?}");
            if count == 1 {
                // SAFETY: one element in all buffers, used only by this thread.
                unsafe {
                    target.copy_from(initial.as_ptr(), size);
                    let (operand, result) = (operand[1..].as_ptr(), result[1..].as_mut_ptr());
                    let update = Update { kind, op, target, operand, result, count };
                    match domain {
                        Domain::Element => update.execute_word(),
                        Domain::Lock => update.execute_locked(),
                    }
                    let after = std::slice::from_raw_parts(target, size);
                    let expected = model(
                        op,
                        kind,
                        read(kind, &initial),
                        read(kind, std::slice::from_raw_parts(operand, size)),
                    );
                    assert_eq!(read(kind, after), read(kind, &write(kind, expected)));
                }
                assert_eq!(result[1..], initial);
            }
        }
    }
}

/// The loops give the same bits as single operations, for any bits and any position in a vector. A
/// sum or product that is a NaN may have either operand's bits.
#[test]
fn loops_and_single_operations_agree_bit_by_bit() {
    let mut seed = 11_u64;
    // Special values of both sizes, which are too rare among random bits.
    let specials: Vec<u64> = [
        f64::NAN,
        -f64::NAN,
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE / 2.0,
        1.0,
    ]
    .into_iter()
    .flat_map(|number| {
        [
            number.to_bits(),
            u64::from((number as f32).to_bits()) << 32 | u64::from((-number as f32).to_bits()),
        ]
    })
    .chain([0x7ff0_0000_0000_0001, 0x7f80_0001_ff80_0002, u64::MAX, 1 << 63, 0x8000_0000_7fff_ffff])
    .collect();
    let mut word = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let chosen = (seed >> 33) as usize;
        if chosen % 3 == 0 {
            specials[chosen / 3 % specials.len()]
        } else {
            seed ^ seed >> 31
        }
    };
    for (kind, op, _) in cases().filter(|(.., domain)| *domain == Domain::Element) {
        let size = kind.size();
        for count in [1, 2, 15, 16, 17, 31, 33, 64, 127, 1003] {
            let words = (count * size).div_ceil(8) + 1;
            let [initial, operand]: [Vec<u64>; 2] =
                std::array::from_fn(|_| (0..words).map(|_| word()).collect());
            let [mut one_by_one, mut at_once] = [initial.clone(), initial.clone()];
            let update = |target: &mut Vec<u64>| {
                // One element further, so that the test sees that the elements before and after are
                // untouched, and that the operand is not aligned.
                let (target, operand) = (
                    target.as_mut_ptr().cast::<u8>().wrapping_add(size),
                    operand.as_ptr().cast::<u8>(),
                );
                Update {
                    kind,
                    op,
                    target,
                    operand: operand.wrapping_add(1),
                    result: std::ptr::null_mut(),
                    count: count - 1,
                }
            };
            // SAFETY: as many elements in both buffers, used only by this thread.
            unsafe {
                update(&mut one_by_one).execute_atomically();
                update(&mut at_once).execute_locked();
            }
            let may_differ = |at: usize| {
                let is_nan = |words: &[u64]| match kind {
                    ElementType::Double => f64::from_bits(words[at]).is_nan(),
                    _ => [words[at] as u32, (words[at] >> 32) as u32]
                        .map(f32::from_bits)
                        .iter()
                        .any(|half| half.is_nan()),
                };
                matches!(kind, ElementType::Float | ElementType::Double | ElementType::ComplexFloat)
                    && matches!(op, Reduce::Sum | Reduce::Prod)
                    && is_nan(&one_by_one)
                    && is_nan(&at_once)
            };
            for at in 0..words {
                let (one, other) = (one_by_one[at], at_once[at]);
                assert!(
                    one == other || may_differ(at),
                    "{kind:?} {op:?} {count}: {one:x} and {other:x} in word {at}"
                );
            }
        }
    }
}

#[test]
fn of_a_nan_and_a_number_the_number_is_kept() {
    for op in [Reduce::Min, Reduce::Max] {
        for domain in [Domain::Element, Domain::Lock] {
            for (now, operand, stays) in
                [(f64::NAN, 1.0, false), (1.0, f64::NAN, true), (1.0, 1.0, true)]
            {
                let mut place = now;
                let (target, operand) =
                    (std::ptr::from_mut(&mut place).cast(), std::ptr::from_ref(&operand).cast());
                let result = std::ptr::null_mut();
                // SAFETY: one element in each buffer.
                unsafe {
                    Update { kind: ElementType::Double, op, target, operand, result, count: 1 }
                        .execute(domain);
                }
                assert_eq!(place.to_bits() == now.to_bits(), stays);
            }
        }
    }
}

#[test]
fn compare_and_swap_of_every_size() {
    for kind in ElementType::ALL.into_iter().filter(|kind| kind.check_compare_and_swap().is_ok()) {
        let size = kind.size();
        let (mut place, operand, mut result) = (0x0101_0101_0101_0101_u64, 2_u64, 0_u64);
        for (compare, before, after) in [(3_u64, 1_u8, 1_u8), (0x0101_0101_0101_0101, 1, 2)] {
            let (target, result) =
                (std::ptr::from_mut(&mut place).cast(), std::ptr::from_mut(&mut result).cast());
            let compare = std::ptr::from_ref(&compare).cast();
            // SAFETY: 8 bytes in each buffer.
            unsafe {
                compare_and_swap(kind, target, std::ptr::from_ref(&operand).cast(), compare, result)
            };
            // SAFETY: the first of the 8 bytes.
            assert_eq!(unsafe { *result }, before);
            assert_eq!(place as u8, after);
            assert_eq!(
                place >> 56,
                u64::from(size != 8 || after == 1),
                "what follows is left alone"
            );
        }
    }
}

/// Threads update one element: no update is lost, and they fetch the states that it went through.
#[test]
fn nothing_is_lost_when_threads_meet() {
    const THREADS: usize = 3;
    const TURNS: usize = 2000;
    for (kind, op, _) in cases().filter(|(.., domain)| *domain == Domain::Element) {
        let mut word = 0_u64;
        let place = std::ptr::from_mut(&mut word) as usize;
        let neutral = if op == Reduce::Prod { one(kind) } else { vec![0; kind.size()] };
        // SAFETY: the word is as large as any of these types.
        unsafe { (place as *mut u8).copy_from(neutral.as_ptr(), kind.size()) };
        let start = Barrier::new(THREADS);
        let fetched: Vec<Vec<Vec<u8>>> = std::thread::scope(|scope| {
            let threads = (0..THREADS).map(|thread| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    (0..TURNS)
                        .map(|turn| {
                            let operand = turn_operand(kind, op, thread, turn);
                            let mut result = vec![0; kind.size()];
                            let (target, operand) = (place as *mut u8, operand.as_ptr());
                            let update = Update {
                                kind,
                                op,
                                target,
                                operand,
                                result: result.as_mut_ptr(),
                                count: 1,
                            };
                            // SAFETY: the word outlives the threads.
                            unsafe { update.execute_word() };
                            result
                        })
                        .collect()
                })
            });
            threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // Each of these operations gives the same result in any order.
        let operands = (0..THREADS).flat_map(|thread| (0..TURNS).map(move |turn| (thread, turn)));
        let expected = operands.fold(read(kind, &neutral), |now, (thread, turn)| {
            let operand = read(kind, &turn_operand(kind, op, thread, turn));
            read(kind, &write(kind, model(op, kind, now, operand)))
        });
        // SAFETY: the threads have ended.
        let found = unsafe { std::slice::from_raw_parts(place as *const u8, kind.size()) };
        if op != Reduce::Replace {
            assert_eq!(read(kind, found), expected, "{kind:?} {op:?}");
        }
        if op == Reduce::Sum && kind.size() >= 4 {
            let mut states: Vec<_> = fetched.into_iter().flatten().collect();
            states.sort();
            states.dedup();
            assert_eq!(states.len(), THREADS * TURNS, "{kind:?}: no state is fetched twice");
        }
    }
}

fn one(kind: ElementType) -> Vec<u8> {
    match read(kind, &[0; 32]) {
        Number::Whole(_) => write(kind, Number::Whole(1)),
        Number::Real(_) => write(kind, Number::Real(1.0)),
        _ => write(kind, Number::Complex(1.0, 0.0)),
    }
}

/// Operands for which no order of the updates rounds.
fn turn_operand(kind: ElementType, op: Reduce, thread: usize, turn: usize) -> Vec<u8> {
    match (op, read(kind, &[0; 32])) {
        (Reduce::Sum, _) => one(kind),
        (Reduce::Prod, Number::Real(_)) => {
            write(kind, Number::Real(if (thread + turn) % 2 == 0 { -2.0 } else { -0.5 }))
        }
        (Reduce::Prod, Number::Complex(..)) => {
            write(kind, Number::Complex(0.0, if turn % 2 == 0 { 1.0 } else { -1.0 }))
        }
        (_, Number::Located(..)) => {
            write(kind, Number::Located((turn % 5) as f64 - 2.0, (3 * turn + thread) as i32))
        }
        _ => random(kind, &mut ((thread * 7919 + turn) as u64)),
    }
}

fn time(times: usize, mut work: impl FnMut()) -> f64 {
    work();
    let best = (0..7).map(|_| {
        let start = std::time::Instant::now();
        (0..times).for_each(|_| work());
        start.elapsed().as_nanos() as f64 / times as f64
    });
    best.fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "measures: see the top of the file"]
fn figures() {
    const COUNT: usize = 128 << 10;
    let (mut target, operand, mut result) =
        (vec![0_u64; COUNT], vec![1.0_f64; COUNT], vec![0_u64; COUNT]);
    let mut update = |kind, op, count, fetches| Update {
        kind,
        op,
        target: target.as_mut_ptr().cast(),
        operand: operand.as_ptr().cast(),
        result: if fetches { result.as_mut_ptr().cast() } else { std::ptr::null_mut() },
        count,
    };
    use {ElementType::*, Reduce::*};
    for (kind, op, fetches) in [
        (Double, Sum, false),
        (Double, Sum, true),
        (Int64, Sum, false),
        (Int64, Max, false),
        (Double, Min, false),
        (Float, Max, false),
        (Int8, Sum, false),
        (Double, Replace, false),
    ] {
        for count in [1, 8, 64, 512, 4096, COUNT] {
            let (times, update) = (10_000_000 / (count + 200), update(kind, op, count, fetches));
            // SAFETY: as many elements in all buffers, used only by this thread.
            let atomic =
                time(times, || unsafe { std::hint::black_box(&update).execute_atomically() });
            // SAFETY: as many elements in all buffers, used only by this thread.
            let locked = time(times, || unsafe { std::hint::black_box(&update).execute_locked() });
            println!(
                "{kind:?} {op:?} fetches {fetches} count {count}: atomically {atomic:.1} ns, \
                locked {locked:.1} ns"
            );
        }
    }
    for op in [Sum, NoOp, Bor, Max] {
        let update = update(Int64, op, 1, true);
        // SAFETY: one element in all buffers, used only by this thread.
        let fetch = time(1_000_000, || unsafe { std::hint::black_box(&update).execute_word() });
        println!("one Int64 {op:?}: {fetch:.1} ns");
    }
    let Update { target, operand, result, .. } = update(Int64, Sum, 1, true);
    // SAFETY: one element in all buffers, used only by this thread.
    let swap = time(1_000_000, || unsafe {
        compare_and_swap(std::hint::black_box(Int64), target, operand, operand, result);
    });
    println!("compare_and_swap Int64: {swap:.1} ns");
}

//! Layouts against a naive list of the places of all bytes, and what they refuse.

use super::*;
use ElementType::{Byte, Double, Int16, Int32};

fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// The place of every byte, as the header's comments define it.
fn naive_vector(size: i64, count: u64, block_length: u64, stride: i64) -> Vec<i64> {
    let mut places = Vec::new();
    for block in 0..count as i64 {
        for element in 0..block_length as i64 {
            places.extend((0..size).map(|byte| (block * stride + element) * size + byte));
        }
    }
    places
}

fn naive_blocks(size: i64, blocks: &[Block]) -> Vec<i64> {
    let mut places = Vec::new();
    for block in blocks {
        places.extend((0..block.length as i64 * size).map(|byte| block.offset * size + byte));
    }
    places
}

fn expand(runs: Runs) -> Vec<i64> {
    runs.flat_map(|(begin, length)| begin..begin + length as i64).collect()
}

fn check(layout: &Layout, naive: &[i64]) {
    assert_eq!(expand(layout.runs()), naive);
    assert_eq!(layout.bytes(), naive.len() as u64);
    assert_eq!(layout.elements() * layout.kind().size() as u64, layout.bytes());
    let extent = naive.iter().min().map_or(0..0, |least| *least..naive.iter().max().unwrap() + 1);
    assert_eq!(layout.extent(), extent);
    for skipped in [0, 1, 3, naive.len() / 2, naive.len(), naive.len() + 9] {
        let mut runs = layout.runs();
        runs.skip_bytes(skipped as u64);
        assert_eq!(expand(runs), naive[skipped.min(naive.len())..], "without {skipped}");
    }
}

/// A layout of that many elements, and the places of its bytes.
fn random(seed: &mut u64, elements: u64, blocks: &mut Vec<Block>) -> (u8, (u64, u64, i64)) {
    blocks.clear();
    let mut left = elements;
    while left > 0 || next(seed) % 3 == 0 {
        let length = (next(seed) % 5).min(left);
        let adjacent = blocks.last().map_or(0, |last| last.offset + last.length as i64);
        let offset = if next(seed) % 3 == 0 { adjacent } else { (next(seed) % 200) as i64 - 100 };
        blocks.push(Block { offset, length });
        left -= length;
    }
    let divisors: Vec<u64> =
        (1..=elements.max(1)).filter(|divisor| elements % divisor == 0).collect();
    let count = divisors[(next(seed) % divisors.len() as u64) as usize];
    ((next(seed) % 3) as u8, (count, elements / count, (next(seed) % 30) as i64 - 15))
}

#[test]
fn layouts_are_what_the_header_says() {
    let mut seed = 99;
    let mut blocks = Vec::new();
    for round in 0..4000 {
        let kind = [Byte, Int16, Int32, Double][round % 4];
        let size = kind.size() as i64;
        let elements = next(&mut seed) % 40;
        let (_, (count, length, stride)) = random(&mut seed, elements, &mut blocks);
        check(&Layout::contiguous(kind, elements).unwrap(), &naive_vector(size, 1, elements, 0));
        check(
            &Layout::vector(kind, count, length, stride).unwrap(),
            &naive_vector(size, count, length, stride),
        );
        check(&Layout::blocks(kind, &blocks).unwrap(), &naive_blocks(size, &blocks));
    }
}

#[test]
fn layouts_side_by_side() {
    let mut seed = 5;
    let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..4000 {
        let bytes = 8 * (next(&mut seed) % 30);
        let lists = [&mut first, &mut second, &mut third];
        let kinds = [Double, Int16, Byte];
        let made: [_; 3] = std::array::from_fn(|_| next(&mut seed));
        let mut which = 0;
        let plans = lists.map(|list| {
            let (kind, mut seed) = (kinds[which], made[which] | 1);
            which += 1;
            let (shape, vector) = random(&mut seed, bytes / kind.size() as u64, list);
            (kind, shape, vector)
        });
        let lists = [&first, &second, &third];
        let layouts: [(Layout, Vec<i64>); 3] = std::array::from_fn(|which| {
            let ((kind, shape, (count, length, stride)), blocks) = (plans[which], lists[which]);
            let size = kind.size() as i64;
            match shape {
                0 => (
                    Layout::contiguous(kind, count * length).unwrap(),
                    naive_vector(size, 1, count * length, 0),
                ),
                1 => {
                    let layout = Layout::vector(kind, count, length, stride).unwrap();
                    (layout, naive_vector(size, count, length, stride))
                }
                _ => (Layout::blocks(kind, blocks).unwrap(), naive_blocks(size, blocks)),
            }
        });
        let [(a, of_a), (b, of_b), (c, of_c)] = &layouts;
        let expected: Vec<[i64; 3]> =
            of_a.iter().zip(of_b).zip(of_c).map(|((a, b), c)| [*a, *b, *c]).collect();
        let expand = |([a, b, c], length): ([i64; 3], u64)| {
            (0..length as i64).map(move |at| [a + at, b + at, c + at])
        };
        let found: Vec<[i64; 3]> = together([a, b, c]).unwrap().flat_map(expand).collect();
        assert_eq!(found, expected);
        let skipped = next(&mut seed) % (bytes + 2);
        let (mut parts, mut found) = (together([a, b, c]).unwrap(), Vec::new());
        parts.skip_bytes(skipped);
        while let Some(part) = parts.next_up_to(3) {
            assert!(part.1 <= 3);
            found.extend(expand(part));
        }
        assert_eq!(found, expected[(skipped.min(bytes)) as usize..]);
    }
}

#[test]
fn what_reaches_too_far_is_refused() {
    let most = i64::MAX as u64;
    assert!(Layout::contiguous(Byte, most).is_ok() && Layout::contiguous(Byte, most + 1).is_err());
    assert!(
        Layout::contiguous(Double, most / 8).is_ok()
            && Layout::contiguous(Double, most / 8 + 1).is_err()
    );
    let vector = |count, length, stride| {
        Layout::vector(Int16, count, length, stride).map(|layout| layout.extent())
    };
    for (count, length, stride) in [
        (u64::MAX, u64::MAX, 1),
        (u64::MAX, 1, 0),
        (3, 1, i64::MAX / 4 + 1),
        (3, 1, i64::MIN / 2),
        (2, 1, i64::MAX / 2),
        (2, 2, i64::MAX),
    ] {
        assert_eq!(vector(count, length, stride).unwrap_err().status(), Status::INVALID_PARAM);
    }
    assert_eq!(vector(2, 1, i64::MIN / 2).unwrap(), i64::MIN..2);
    assert_eq!(vector(2, 1, i64::MAX / 2 - 1).unwrap(), 0..i64::MAX - 1);
    assert_eq!(vector(0, u64::MAX, i64::MIN).unwrap(), 0..0);
    assert_eq!(vector(u64::MAX, 0, i64::MIN).unwrap(), 0..0);
    assert_eq!(vector(1, 3, i64::MIN).unwrap(), 0..6);
    for block in [(i64::MAX, 1), (i64::MIN, 1), (0, u64::MAX), (i64::MAX / 2 - 1, 2)] {
        let blocks = [Block { offset: 0, length: 1 }, Block { offset: block.0, length: block.1 }];
        assert_eq!(
            Layout::blocks(Int16, &blocks).unwrap_err().status(),
            Status::INVALID_PARAM,
            "{block:?}"
        );
    }
    // A block that occurs often enough is longer than memory, too.
    let large = [Block { offset: 0, length: 1 << 61 }; 4];
    assert!(Layout::blocks(Int16, &large).is_err());
    // Empty blocks have no place.
    let nowhere = [Block { offset: i64::MIN, length: 0 }, Block { offset: 1, length: 1 }];
    assert_eq!(Layout::blocks(Int16, &nowhere).unwrap().extent(), 2..4);
    assert_eq!(Layout::blocks(Int16, &nowhere[..1]).unwrap().elements(), 0);
}

#[test]
fn what_leaves_the_window_is_refused() {
    let layout = Layout::vector(Int32, 3, 1, -2).unwrap();
    assert_eq!(layout.extent(), -16..4);
    let range = |displacement, unit, size| {
        layout.range_in(displacement, unit, size).map_err(|error| error.status())
    };
    assert_eq!(range(4, 4, 20), Ok(0..20));
    assert_eq!(range(16, 1, 20), Ok(0..20));
    for (displacement, unit, size) in [
        (4, 4, 19),
        (3, 4, 100),
        (15, 1, 100),
        (i64::MAX, 1, u64::MAX),
        (i64::MAX, 8, u64::MAX),
        (-1, 8, 100),
        (i64::MIN, 8, 9),
    ] {
        assert_eq!(
            range(displacement, unit, size),
            Err(Status::RMA_RANGE),
            "{displacement} {unit} {size}"
        );
    }
    let empty = Layout::contiguous(Int32, 0).unwrap();
    assert_eq!(empty.range_in(i64::MIN, u32::MAX, 0).unwrap(), 0..0);
}

#[test]
fn other_lengths_do_not_go_together() {
    let (a, b) = (Layout::contiguous(Byte, 8).unwrap(), Layout::contiguous(Double, 2).unwrap());
    assert_eq!(together([&a, &b]).unwrap_err().status(), Status::INVALID_PARAM);
    assert!(one_piece([&a, &b]).is_err());
    let (b, c) = (Layout::contiguous(Double, 1).unwrap(), Layout::vector(Byte, 4, 2, 3).unwrap());
    assert_eq!(together([&a, &b]).unwrap().count(), 1);
    assert_eq!(one_piece([&a, &b]).unwrap(), Some(8));
    assert_eq!(one_piece([&a, &b, &c]).unwrap(), None);
}

#[test]
#[ignore = "measures: see the top of datatype_layout.rs"]
fn figures() {
    use std::hint::black_box;
    let time = |pieces: usize, mut work: Box<dyn FnMut() -> i64>| {
        let best = (0..7).map(|_| {
            let start = std::time::Instant::now();
            (0..1_000_000 / pieces).for_each(|_| _ = black_box(work()));
            start.elapsed().as_nanos() as f64 / (1_000_000 / pieces) as f64
        });
        best.fold(f64::INFINITY, f64::min)
    };
    let sum =
        |parts: Together<'_, 2>| parts.fold(0, |sum, ([a, b], length)| sum + a + b + length as i64);
    let made = || {
        let count = black_box(100);
        let (a, b) = (
            Layout::contiguous(Double, count).unwrap(),
            Layout::contiguous(Double, count).unwrap(),
        );
        let range = b.range_in(black_box(3), 8, 1 << 20).unwrap();
        (a, b, range.end as i64)
    };
    let one = time(
        1,
        Box::new(move || {
            let (a, b, end) = made();
            one_piece([&a, &b]).unwrap().map_or(0, |bytes| bytes as i64) + end
        }),
    );
    let both = time(
        1,
        Box::new(move || {
            let (a, b, end) = made();
            sum(together([&a, &b]).unwrap()) + end
        }),
    );
    println!(
        "two contiguous layouts made and checked: {one:.1} ns by one_piece, {both:.1} ns \
        paired"
    );
    let vector = time(
        1000,
        Box::new(move || {
            let (a, b) = (
                Layout::contiguous(Double, 4000).unwrap(),
                Layout::vector(Double, 1000, 4, black_box(9)).unwrap(),
            );
            sum(together([&a, &b]).unwrap())
        }),
    );
    println!("a piece of a vector of 1000 blocks: {:.2} ns", vector / 1000.0);
    let blocks: Vec<Block> = (0..1000).map(|at| Block { offset: at * 9, length: 4 }).collect();
    let list = time(
        1000,
        Box::new(move || {
            let (a, b) = (
                Layout::contiguous(Double, 4000).unwrap(),
                Layout::blocks(Double, black_box(&blocks)).unwrap(),
            );
            sum(together([&a, &b]).unwrap())
        }),
    );
    println!("a block of a list of 1000: {:.2} ns", list / 1000.0);
}

//! A hub with several incoming streams closes when all of them have ended, however they end.

use crate::engine::hub::link::Link;
use crate::engine::hub::records::Role;
use crate::engine::hub::stream::stream_tests::{new_link, Pair, STREAM, THEIRS, WINDOW};
use crate::engine::wire::hub_stream::{StreamHeader, Tells};
use std::ptr::NonNull;

/// How a stream into a hub ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Ends,
    Breaks,
    LosesItsLink,
}

/// A hub with two incoming streams, whose links have the numbers from 1; `gone` ones are destroyed.
struct Fed {
    pair: Pair,
    links: [NonNull<Link>; 2],
    gone: [bool; 2],
}

impl Fed {
    fn new() -> Self {
        // The pair's own link consumes.
        let pair = Pair::new(Role::Consume);
        let links = [Role::Produce; 2].map(|role| new_link(&pair.hub, role));
        let fed = Fed { pair, links, gone: [false; 2] };
        (0..2).for_each(|number| fed.connect(number, 1));
        fed
    }

    fn theirs(number: usize, time: u32) -> u32 {
        THEIRS + 10 * time + number as u32
    }

    fn connect(&self, number: usize, time: u32) {
        let stream = STREAM + 1 + number as u64;
        // SAFETY: not destroyed yet.
        unsafe { self.links[number].as_ref() }
            .connect(&self.pair.to_attacker, stream, WINDOW)
            .unwrap();
        let (from, to) = (Self::theirs(number, time), self.own(number));
        self.pair
            .say(&StreamHeader { count: stream, from, to, ..self.pair.open(Role::Produce) }, &[]);
        self.pair.pass();
    }

    fn own(&self, number: usize) -> u32 {
        let stream = self.pair.hub.state.lock().links[1 + number].watch.stream.clone();
        stream.map_or(0, |stream| stream.own_number())
    }

    fn meets(&mut self, number: usize, time: u32, fate: Fate) {
        let to = self.own(number);
        let end = StreamHeader {
            mark: true,
            ..StreamHeader::new(Tells::End, to, Self::theirs(number, time))
        };
        match fate {
            Fate::Ends => self.pair.say(&end, &[]),
            Fate::Breaks => self.pair.say(&StreamHeader { count: 5, ..end }, &[]),
            Fate::LosesItsLink => self.part(number),
        }
        self.pair.pass();
    }

    fn part(&mut self, number: usize) {
        if !std::mem::replace(&mut self.gone[number], true) {
            // SAFETY: created by `make`, destroyed once.
            unsafe { Link::destroy(self.links[number].as_ptr()) };
        }
    }

    fn is_closed(&self) -> bool {
        self.pair.hub.state.lock().closed
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        (0..2).for_each(|number| self.part(number));
    }
}

/// The hub closes when all its streams have ended, apart from those whose links are destroyed. An
/// interrupted stream has not ended, in whatever order that happens, and can be replaced.
#[test]
fn a_hub_that_several_feed_ends_when_all_of_them_have() {
    use Fate::{Breaks, Ends, LosesItsLink};
    for (fates, is_end) in [
        ([Ends, Ends], true),
        ([Breaks, Ends], false),
        ([LosesItsLink, Ends], true),
        ([Breaks, Breaks], false),
        ([Breaks, LosesItsLink], false),
        ([LosesItsLink, LosesItsLink], false),
    ] {
        for first in 0..2 {
            let mut fed = Fed::new();
            for number in [first, 1 - first] {
                assert!(!fed.is_closed(), "{fates:?}, {first} first");
                fed.meets(number, 1, fates[number]);
            }
            assert_eq!(fed.is_closed(), is_end, "{fates:?}, {first} first");
        }
    }
    for last in [Ends, LosesItsLink] {
        let mut fed = Fed::new();
        fed.meets(0, 1, Breaks);
        fed.meets(1, 1, Ends);
        fed.connect(0, 2);
        assert!(!fed.is_closed());
        fed.meets(0, 2, Breaks);
        assert!(!fed.is_closed());
        if last == Ends {
            fed.connect(0, 3);
        }
        fed.meets(0, 3, last);
        assert!(fed.is_closed(), "{last:?}");
    }
}

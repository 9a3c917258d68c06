//! How far a sender of active messages may be ahead of its receiver: credits.
//!
//! Each message costs its receiver a place and some memory until its handler's message is
//! destroyed. A sender keeps within what both sides know each connection to have, `MESSAGES` and
//! `UNITS`; the receiver tells from time to time how much it has taken in since the beginning, in
//! the headers of its own messages and in Grants. Both numbers wrap around, and what is told late
//! does no harm. A receiver whose peer does not keep to that gives the connection up. Grants cost
//! nothing.

use crate::engine::base::split_counter::Removed;
use crate::engine::wire::credit::{ADVERTISE_AFTER, LEAST, MESSAGES, UNITS};
use crate::engine::wire::header::Amount;
use std::cell::Cell;
use std::sync::atomic::{AtomicU16, Ordering};

/// Messages and units in one number that can be added to others: the messages from this bit on.
const MESSAGES_AT: u32 = 40;

/// One message that costs so much.
#[inline(always)]
pub(crate) const fn cost(charge: u16) -> u64 {
    1 << MESSAGES_AT | charge as u64
}

/// Is there enough for this message when so much is out?
#[inline(always)]
pub(crate) fn fits(out: u64, charge: u16) -> bool {
    out >> MESSAGES_AT < u64::from(MESSAGES)
        && out & ((1 << MESSAGES_AT) - 1) <= u64::from(UNITS - charge)
}

fn sum(amount: Amount) -> u64 {
    u64::from(amount.messages) << MESSAGES_AT | u64::from(amount.units)
}

/// Of one endpoint.
#[derive(Default)]
pub(crate) struct Credits {
    /// What was sent is an account (see `base::split_counter`): this is what is got back less what
    /// was spent, but for what other threads have reserved.
    pub(crate) gone: Removed,
    /// What they have reserved that has been spent, or was given back.
    reserved: Cell<u64>,
    /// Got back, as the peer has told.
    acked: Total,
    /// What came in.
    received: Total,
    /// Of that, what is gone again.
    consumed: Total,
    /// The latest that the peer was told.
    advertised: Total,
    /// The place in the order of the next message that goes out.
    pub(crate) sequence: Cell<u32>,
    /// What the cheapest message costs that would have to wait: `LEAST` where all would, 0 where
    /// none was refused. Read by any thread.
    short: AtomicU16,
}

/// An amount in one word, written and read as a whole: what is written in two halves and read as
/// one a moment later, as it is where a handler lets go of its message and answers, has to wait for
/// both to arrive in the cache.
#[derive(Default)]
struct Total(Cell<u32>);

impl Total {
    #[inline(always)]
    fn get(&self) -> Amount {
        Amount::of_word(self.0.get())
    }

    #[inline(always)]
    fn set(&self, amount: Amount) {
        self.0.set(amount.word());
    }
}

impl Total {
    /// With one more message, that costs so much.
    #[inline(always)]
    fn with(&self, charge: u16) -> Total {
        let sum = self.0.get().wrapping_add(1 | u32::from(charge) << 16);
        // What has been carried over from the messages to the units goes back.
        Total(Cell::new(if sum as u16 == 0 { sum.wrapping_sub(1 << 16) } else { sum }))
    }

    /// It is ahead of the other one by less than `1 << messages` messages and no more than `1 <<
    /// units` units, as nearly always: one look at both. False where that is not certain.
    #[inline(always)]
    fn is_near(&self, other: &Total, messages: u32, units: u32) -> bool {
        let too_far = u32::from(u16::MAX << messages) | u32::from(u16::MAX << units) << 16;
        // What the messages may have borrowed from the units makes these one less.
        self.0.get().wrapping_sub(other.0.get()) & too_far == 0
    }
}

#[inline(always)]
fn minus(amount: Amount, less: Amount) -> Amount {
    Amount {
        messages: amount.messages.wrapping_sub(less.messages),
        units: amount.units.wrapping_sub(less.units),
    }
}

impl Credits {
    /// What has been spent and not got back.
    #[inline(always)]
    fn out(&self) -> u64 {
        self.gone.left_of(self.reserved.get())
    }

    /// Is there enough for this message, whatever other threads have reserved?
    #[inline(always)]
    pub(crate) fn suffice(&self, charge: u16) -> bool {
        fits(self.out(), charge)
    }

    #[inline(always)]
    pub(crate) fn spend(&self, charge: u16) {
        self.gone.subtract(cost(charge));
        self.note_spent();
    }

    /// The same of what another thread has reserved.
    pub(crate) fn spend_reserved(&self, charge: u16) {
        self.reserved.set(self.reserved.get().wrapping_add(cost(charge)));
        self.note_spent();
    }

    /// It has reserved that, and has not used it.
    pub(crate) fn drop_reserved(&self, charge: u16) {
        self.reserved.set(self.reserved.get().wrapping_add(cost(charge)));
        self.gone.add(cost(charge));
    }

    #[inline(always)]
    fn note_spent(&self) {
        let out = self.out();
        // As nearly always, at one look at each half.
        let plenty =
            const { UNITS > 1 << 13 && MESSAGES_AT > 13 && MESSAGES_AT < 45 && MESSAGES == 1 << 8 }
                && out >> (MESSAGES_AT + 8) == 0
                && (out >> 13) as u32 & ((1 << (MESSAGES_AT - 13)) - 1) == 0;
        if !plenty && !fits(out, LEAST) {
            self.short.store(LEAST, Ordering::Relaxed);
        }
    }

    /// Somebody waits for credit, or would have to.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short_for(u16::MAX)
    }

    /// The same of a message that costs so much.
    #[inline(always)]
    pub(crate) fn is_short_for(&self, charge: u16) -> bool {
        let short = self.short.load(Ordering::Relaxed);
        short != 0 && short <= charge
    }

    /// A message that costs so much has been refused.
    #[cold]
    pub(crate) fn refused(&self, charge: u16) {
        if !self.is_short_for(charge) {
            self.short.store(charge, Ordering::Relaxed);
        }
    }

    /// Credit has come, or what waited for it has gone on; whether something still waits.
    pub(crate) fn look_again(&self, waits: bool) {
        let refused = self.short.load(Ordering::Relaxed);
        let short = if waits || !self.suffice(LEAST) {
            LEAST
        } else if refused != 0 && !self.suffice(refused) {
            refused
        } else {
            0
        };
        self.short.store(short, Ordering::Relaxed);
    }

    /// It was not sent after all.
    pub(crate) fn unspend(&self, charge: u16) {
        self.gone.add(cost(charge));
    }

    /// What the peer has told last.
    pub(crate) fn acked_by_peer(&self) -> Amount {
        self.acked.get()
    }

    /// The peer has told what it has taken in. True if that is news.
    #[inline(always)]
    pub(crate) fn note_acked(&self, taken: Amount) -> bool {
        self.note_acked_word(taken.word())
    }

    /// The same of its word.
    #[inline(always)]
    pub(crate) fn note_acked_word(&self, taken: u32) -> bool {
        if taken == self.acked.0.get() {
            return false;
        }
        let taken = Amount::of_word(taken);
        let (out, news) = (self.out(), minus(taken, self.acked.get()));
        let (messages, units) = (out >> MESSAGES_AT, out & ((1 << MESSAGES_AT) - 1));
        // What is out of date looks like far more than is out.
        let new = u64::from(news.messages) <= messages && u64::from(news.units) <= units;
        if new {
            self.acked.set(taken);
            self.gone.add(sum(news));
        }
        new
    }

    /// A message has come in. False if the peer had not the credit for it.
    #[inline(always)]
    pub(crate) fn receive(&self, charge: u16) -> bool {
        let received = self.received.with(charge);
        self.received.set(received.get());
        let unreceived = minus(received.get(), self.consumed.get());
        unreceived.messages <= MESSAGES && unreceived.units <= UNITS
    }

    /// The same at one look. False: nothing has happened, and it may well have had it.
    #[inline(always)]
    pub(crate) fn receive_fast(&self, charge: u16) -> bool {
        const { assert!(1 << 8 <= MESSAGES && 1 << 13 <= UNITS) };
        let received = self.received.with(charge);
        let within = received.is_near(&self.consumed, 8, 13);
        if within {
            self.received.set(received.get());
        }
        within
    }

    /// A message is gone. True if it is time to tell the peer.
    #[inline(always)]
    pub(crate) fn give_back(&self, charge: u16) -> bool {
        self.consumed.set(self.consumed.with(charge).get());
        self.has_news()
    }

    /// So much is gone again that the peer is to be told, whether it needs to know or not.
    #[inline(always)]
    pub(crate) fn has_news(&self) -> bool {
        const { assert!(1 << 6 <= MESSAGES / ADVERTISE_AFTER) };
        const { assert!(1 << 11 < UNITS / ADVERTISE_AFTER) };
        !self.consumed.is_near(&self.advertised, 6, 11) && {
            let unadvertised = minus(self.consumed.get(), self.advertised.get());
            unadvertised.messages >= MESSAGES / ADVERTISE_AFTER
                || unadvertised.units >= UNITS / ADVERTISE_AFTER
        }
    }

    /// The peer may be waiting for what it does not know to be gone: by what it was told, its next
    /// message may cost more than it has. So it could stop with fewer messages kept here than it
    /// may send. To be asked when nothing more is to be handed out: else each message would be told
    /// of.
    #[inline(always)]
    pub(crate) fn may_starve(&self) -> bool {
        const { assert!(1 << 8 <= MESSAGES && 1 << 11 <= UNITS / ADVERTISE_AFTER) };
        !self.received.is_near(&self.advertised, 8, 11) && {
            let out = minus(self.received.get(), self.advertised.get());
            (out.messages >= MESSAGES || out.units > UNITS / ADVERTISE_AFTER)
                && self.consumed.0.get() != self.advertised.0.get()
        }
    }

    /// What has been taken in, for a peer that may not get to see it.
    #[inline(always)]
    pub(crate) fn consumed(&self) -> Amount {
        self.consumed.get()
    }

    /// What the peer is about to be told.
    #[inline(always)]
    pub(crate) fn advertise(&self) -> Amount {
        self.advertised.set(self.consumed.get());
        self.consumed.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::wire::credit::charge;
    use std::collections::VecDeque;

    #[test]
    fn a_sender_never_exceeds_the_window_and_always_gets_on() {
        let (sender, receiver) = (Credits::default(), Credits::default());
        let lengths = [0, 8, 1000, 1024, 5000, 300 << 10, 1 << 20, 8 << 20, 1 << 30];
        let mut held = VecDeque::new();
        for round in 0..200_000usize {
            let cost = charge(lengths[round % 7919 % lengths.len()]);
            while !sender.suffice(cost) {
                let gone = held.pop_front().expect("nothing is held, and still there is no credit");
                if receiver.give_back(gone) {
                    assert!(sender.note_acked(receiver.advertise()));
                }
            }
            sender.spend(cost);
            assert!(receiver.receive(cost), "within the window");
            held.push_back(cost);
        }
    }

    #[test]
    fn one_look_at_two_totals_says_what_two_say() {
        let near = |ahead: Amount| ahead.messages < 1 << 6 && ahead.units <= 1 << 11;
        for start in (0..=u16::MAX).step_by(255).chain([1, u16::MAX - 1]) {
            let behind = Amount { messages: start, units: start.rotate_left(5) };
            let less = Total::default();
            less.set(behind);
            for messages in [0, 1, 62, 63, 64, 65, 300, u16::MAX] {
                for units in [0, 1, 62, 64, 2046, 2047, 2048, 2049, 9000, u16::MAX] {
                    let more = Total::default();
                    more.set(Amount {
                        messages: start.wrapping_add(messages),
                        units: behind.units.wrapping_add(units),
                    });
                    assert!(
                        !more.is_near(&less, 6, 11) || near(Amount { messages, units }),
                        "{messages}, {units}"
                    );
                    let usual = messages < 64 && units >= messages && units < 1 << 11;
                    assert!(
                        more.is_near(&less, 6, 11) || !usual || units == 0,
                        "{messages}, {units}"
                    );
                    let one = more.with(9).get();
                    let by_hand =
                        (more.get().messages.wrapping_add(1), more.get().units.wrapping_add(9));
                    assert_eq!((one.messages, one.units), by_hand);
                }
            }
        }
    }

    #[test]
    fn what_others_were_promised_is_out_when_it_is_spent() {
        let sender = Credits::default();
        (1..MESSAGES).for_each(|_| sender.spend(1));
        sender.drop_reserved(7);
        assert!(sender.suffice(1) && !sender.is_short());
        sender.spend_reserved(2);
        assert!(!sender.suffice(1) && sender.is_short());
        sender.unspend(2);
        assert!(sender.suffice(1));
        assert!(
            !sender.note_acked(Amount { messages: MESSAGES, units: MESSAGES }),
            "more than was sent"
        );
        assert!(sender.note_acked(Amount { messages: MESSAGES - 1, units: MESSAGES - 1 }));
        assert_eq!(sender.out(), 0);
    }

    #[test]
    fn what_was_refused_is_waited_for() {
        let sender = Credits::default();
        while sender.suffice(65) {
            sender.spend(65);
        }
        sender.refused(65);
        assert!(sender.is_short() && sender.is_short_for(65) && !sender.is_short_for(64));
        sender.look_again(false);
        assert!(sender.is_short(), "there is credit for some, and not for that one");
        sender.refused(70);
        sender.refused(64);
        assert!(sender.is_short_for(64) && !sender.is_short_for(63));
        assert!(sender.note_acked(Amount { messages: 1, units: 65 }));
        sender.look_again(false);
        assert!(!sender.is_short());
        sender.look_again(true);
        assert!(sender.is_short_for(LEAST));
    }

    #[test]
    fn a_receiver_that_keeps_less_than_all_does_not_stop_its_sender() {
        for (cost, may_keep) in [(1, MESSAGES), (1025, 8), (charge(1 << 30), 1)] {
            let (sender, receiver) = (Credits::default(), Credits::default());
            // Each round a message comes in, and at most one goes.
            let mut kept = 0;
            for _ in 0..1000 {
                assert!(
                    sender.suffice(cost),
                    "{kept} messages of {cost} are kept, and the sender has to wait"
                );
                sender.spend(cost);
                assert!(receiver.receive(cost));
                kept += 1;
                if kept == may_keep {
                    kept -= 1;
                    let tell = receiver.give_back(cost);
                    if tell || receiver.may_starve() {
                        assert!(sender.note_acked(receiver.advertise()));
                    }
                }
            }
        }
    }

    #[test]
    fn old_news_and_lies_change_nothing() {
        let sender = Credits::default();
        (0..10).for_each(|_| sender.spend(1));
        let five = Amount { messages: 5, units: 5 };
        assert!(sender.note_acked(five));
        assert!(!sender.note_acked(five), "the same again");
        assert!(!sender.note_acked(Amount { messages: 3, units: 3 }), "older");
        assert!(!sender.note_acked(Amount { messages: 11, units: 11 }), "more than was sent");
    }

    #[test]
    fn who_sends_without_credit_is_found_out() {
        let receiver = Credits::default();
        (0..MESSAGES).for_each(|_| assert!(receiver.receive(1)));
        assert!(!receiver.receive(1));
    }
}

//! Credits: how far a sender of active messages may be ahead of its receiver.
//!
//! Each message occupies a place and some memory at the receiver until the handler's message is
//! destroyed. Both sides know the limits of a connection, `MESSAGES` and `UNITS`, and the sender
//! stays within them. From time to time the receiver reports how much it has consumed since the
//! start, in the headers of its own messages and in Grants. Grants need no credit.
//!
//! Both numbers wrap around, and a late report does no harm. If a peer exceeds its credit, the
//! receiver closes the connection.

use crate::engine::base::split_counter::Removed;
use crate::engine::wire::credit::{ADVERTISE_AFTER, LEAST, MESSAGES, UNITS};
use crate::engine::wire::header::Amount;
use std::cell::Cell;
use std::sync::atomic::{AtomicU16, Ordering};

/// Messages and units in one number that can be added: messages start at this bit.
const MESSAGES_AT: u32 = 40;

/// The cost of one message.
#[inline(always)]
pub(crate) const fn cost(charge: u16) -> u64 {
    1 << MESSAGES_AT | charge as u64
}

/// The messages and units of such a number.
#[inline(always)]
pub(crate) fn parts(credit: u64) -> (u64, u64) {
    (credit >> MESSAGES_AT, credit & ((1 << MESSAGES_AT) - 1))
}

/// Is there enough credit for this message if `out` is in use?
#[inline(always)]
pub(crate) fn fits(out: u64, charge: u16) -> bool {
    let (messages, units) = parts(out);
    messages < u64::from(MESSAGES) && units <= u64::from(UNITS - charge)
}

fn sum(amount: Amount) -> u64 {
    u64::from(amount.messages) << MESSAGES_AT | u64::from(amount.units)
}

/// The credits of one endpoint.
#[derive(Default)]
pub(crate) struct Credits {
    /// Credit in use is a split counter (see `base::split_counter`). This half is the credit
    /// returned minus the credit spent, without what other threads have reserved.
    pub(crate) gone: Removed,
    /// Of what other threads have reserved: spent or given back.
    reserved: Cell<u64>,
    /// Returned, by the peer's reports.
    acked: Total,
    /// Received.
    received: Total,
    /// Received and consumed.
    consumed: Total,
    /// The last value reported to the peer.
    advertised: Total,
    /// The sequence number of the next message.
    pub(crate) sequence: Cell<u32>,
    /// The cost of the cheapest message that would have to wait: `LEAST` if all would, 0 if none
    /// was refused. Read by any thread.
    short: AtomicU16,
}

/// An amount in one word, always written and read whole. If it was written in two halves and read
/// as one word a moment later (a handler destroys its message and replies), the read would stall
/// until both stores have reached the cache.
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
    /// The total plus one message of this cost.
    #[inline(always)]
    fn with(&self, charge: u16) -> Total {
        let sum = self.0.get().wrapping_add(1 | u32::from(charge) << 16);
        // Undoes a carry from the messages into the units.
        Total(Cell::new(if sum as u16 == 0 { sum.wrapping_sub(1 << 16) } else { sum }))
    }

    /// True if it is ahead of `other` by less than `1 << messages` messages and at most `1 <<
    /// units` units, which is almost always so, in one comparison. False if that is not certain.
    #[inline(always)]
    fn is_near(&self, other: &Total, messages: u32, units: u32) -> bool {
        let too_far = u32::from(u16::MAX << messages) | u32::from(u16::MAX << units) << 16;
        // If the subtraction of messages borrows from the units, they are one less.
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
    /// Spent and not returned.
    #[inline(always)]
    fn out(&self) -> u64 {
        self.gone.left_of(self.reserved.get())
    }

    /// Is there enough credit for this message, ignoring what other threads have reserved?
    #[inline(always)]
    pub(crate) fn suffice(&self, charge: u16) -> bool {
        fits(self.out(), charge)
    }

    #[inline(always)]
    pub(crate) fn spend(&self, charge: u16) {
        self.gone.subtract(cost(charge));
        self.note_spent();
    }

    /// Spends credit that another thread has reserved.
    pub(crate) fn spend_reserved(&self, charge: u16) {
        self.reserved.set(self.reserved.get().wrapping_add(cost(charge)));
        self.note_spent();
    }

    /// Gives back credit that was reserved and not used.
    pub(crate) fn drop_reserved(&self, charge: u16) {
        self.reserved.set(self.reserved.get().wrapping_add(cost(charge)));
        self.gone.add(cost(charge));
    }

    #[inline(always)]
    fn note_spent(&self) {
        let out = self.out();
        // The usual case, with one comparison for each half.
        let plenty =
            const { UNITS > 1 << 13 && MESSAGES_AT > 13 && MESSAGES_AT < 45 && MESSAGES == 1 << 8 }
                && out >> (MESSAGES_AT + 8) == 0
                && (out >> 13) as u32 & ((1 << (MESSAGES_AT - 13)) - 1) == 0;
        if !plenty && !fits(out, LEAST) {
            self.short.store(LEAST, Ordering::Relaxed);
        }
    }

    /// A message waits for credit, or would have to.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short_for(u16::MAX)
    }

    /// The same for a message of this cost.
    #[inline(always)]
    pub(crate) fn is_short_for(&self, charge: u16) -> bool {
        let short = self.short.load(Ordering::Relaxed);
        short != 0 && short <= charge
    }

    /// A message of this cost was refused.
    #[cold]
    pub(crate) fn refused(&self, charge: u16) {
        if !self.is_short_for(charge) {
            self.short.store(charge, Ordering::Relaxed);
        }
    }

    /// Credit has arrived, or a waiting message was sent. `waits`: another one still waits.
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

    /// The message was not sent after all.
    pub(crate) fn unspend(&self, charge: u16) {
        self.gone.add(cost(charge));
    }

    /// The last report from the peer.
    pub(crate) fn acked_by_peer(&self) -> Amount {
        self.acked.get()
    }

    /// The peer reports what it has consumed. True if that is new.
    #[inline(always)]
    pub(crate) fn note_acked(&self, taken: Amount) -> bool {
        self.note_acked_word(taken.word())
    }

    /// The same, for the packed word.
    #[inline(always)]
    pub(crate) fn note_acked_word(&self, taken: u32) -> bool {
        if taken == self.acked.0.get() {
            return false;
        }
        let taken = Amount::of_word(taken);
        let news = minus(taken, self.acked.get());
        let (messages, units) = parts(self.out());
        // An outdated report looks like far more than is in use.
        let new = u64::from(news.messages) <= messages && u64::from(news.units) <= units;
        if new {
            self.acked.set(taken);
            self.gone.add(sum(news));
        }
        new
    }

    /// A message has arrived. False if the peer did not have the credit for it.
    #[inline(always)]
    pub(crate) fn receive(&self, charge: u16) -> bool {
        let received = self.received.with(charge);
        self.received.set(received.get());
        let unreceived = minus(received.get(), self.consumed.get());
        unreceived.messages <= MESSAGES && unreceived.units <= UNITS
    }

    /// The same with one comparison. On false nothing has changed, and the peer may well have had
    /// the credit.
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

    /// A message was consumed. True if it is time to report to the peer.
    #[inline(always)]
    pub(crate) fn give_back(&self, charge: u16) -> bool {
        self.consumed.set(self.consumed.with(charge).get());
        self.has_news()
    }

    /// Enough was consumed that the peer must be informed, whether it waits or not.
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

    /// The peer may be out of credit without knowing what was consumed: by the last report, its
    /// next message may cost more than it has. So it could stop although fewer messages are held
    /// here than it may send. Call this only when no more messages are about to be delivered:
    /// otherwise each message would cause a report.
    #[inline(always)]
    pub(crate) fn may_starve(&self) -> bool {
        const { assert!(1 << 8 <= MESSAGES && 1 << 11 <= UNITS / ADVERTISE_AFTER) };
        !self.received.is_near(&self.advertised, 8, 11) && {
            let out = minus(self.received.get(), self.advertised.get());
            (out.messages >= MESSAGES || out.units > UNITS / ADVERTISE_AFTER)
                && self.consumed.0.get() != self.advertised.0.get()
        }
    }

    /// What was consumed, for a peer that may not receive the report.
    #[inline(always)]
    pub(crate) fn consumed(&self) -> Amount {
        self.consumed.get()
    }

    /// Sent, and not consumed by the peer as far as it has reported.
    pub(crate) fn outstanding(&self) -> Amount {
        let (messages, units) = parts(self.out());
        Amount { messages: messages as u16, units: units as u16 }
    }

    /// Received, and not consumed here.
    pub(crate) fn held(&self) -> Amount {
        minus(self.received.get(), self.consumed.get())
    }

    /// What the next report contains. Marks it as reported.
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
            // In each round one message arrives, and at most one is consumed.
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

//! What replies write, and what is counted.

use super::*;
use crate::engine::wire::window::What;

const THEM: u32 = 2;
const ASKED: Whom = Whom { window: 1, member: THEM };

fn answer(from: u32, token: u64, status: Status) -> WindowHeader {
    WindowHeader { token, status: status.0, ..WindowHeader::new(What::Answer, 1, from) }
}

fn nobody(_: Ticket, _: Status) {
    panic!("nothing that has a request has ended");
}

/// A request whose reply goes to two pieces.
fn ask(awaited: &Awaited, tally: &Tally, call: Call, place: &mut [u8]) -> u64 {
    let (first, second) = place.split_at_mut(1);
    let (first, second) = ((first.as_mut_ptr(), first.len()), (second.as_mut_ptr(), second.len()));
    // SAFETY: the callers keep the memory.
    unsafe {
        awaited.add(tally, ASKED, call, (place.len() as u64, false), |runs| {
            runs.extend([second, first])
        })
    }
}

#[test]
fn an_answer_goes_where_it_belongs_once_and_from_who_was_asked() {
    let (awaited, tally, mut place) = (Awaited::default(), Tally::default(), [0; 3]);
    let token = ask(&awaited, &tally, awaited.call(), &mut place);
    assert!(Awaited::knows(token) && tally.missing() == 1);
    awaited.answered(&answer(THEM + 1, token, Status::OK), &[7, 8, 9], &nobody);
    assert!(tally.missing() == 1 && place == [0; 3]);
    awaited.answered(&answer(THEM, token, Status::OK), &[7, 8, 9], &nobody);
    assert!(tally.missing() == 0 && place == [9, 7, 8]);
    awaited.answered(&answer(THEM, token, Status::OK), &[1, 1, 1], &nobody);
    // The place has another use now.
    let other = ask(&awaited, &tally, awaited.call(), &mut place);
    assert_ne!(other, token);
    awaited.answered(&answer(THEM, token, Status::OK), &[1, 1, 1], &nobody);
    assert!(tally.missing() == 1 && place == [9, 7, 8]);
    assert_eq!(tally.take_complaint(), None);
}

#[test]
fn what_ends_early_does_not_stand_for_what_was_asked_before() {
    let (awaited, tally, mut place) = (Awaited::default(), Tally::default(), [0; 3]);
    let first = ask(&awaited, &tally, awaited.call(), &mut place);
    let asked = tally.asked();
    for _ in 0..3 {
        let failed = awaited.call();
        ask(&awaited, &tally, failed, &mut place);
        awaited.withdraw(failed, &nobody);
    }
    assert!(!tally.has_answers(asked) && tally.missing() == 4);
    awaited.answered(&answer(THEM, first, Status::OK), &[7, 8, 9], &nobody);
    assert!(tally.has_answers(tally.asked()) && tally.missing() == 0);
}

#[test]
fn what_is_wrong_is_told_once_and_writes_nothing() {
    let (awaited, tally, mut place) = (Awaited::default(), Tally::default(), [5; 3]);
    for (status, data, told) in [
        (Status::RMA_ATTACH, &[1, 2, 3][..], Status::RMA_ATTACH),
        (Status::OK, &[1, 2], Status::MESSAGE_TRUNCATED),
        (Status::OK, &[1, 2, 3, 4], Status::MESSAGE_TRUNCATED),
    ] {
        let token = ask(&awaited, &tally, awaited.call(), &mut place);
        awaited.answered(&answer(THEM, token, status), data, &nobody);
        assert_eq!((tally.take_complaint(), tally.take_complaint()), (Some(told), None));
        assert!(place == [5; 3] && tally.missing() == 0);
    }
}

#[test]
fn what_was_taken_out_is_written_to_no_more() {
    let (awaited, tally, other, mut place) =
        (Awaited::default(), Tally::default(), Tally::default(), [5; 3]);
    let failed = awaited.call();
    let withdrawn = ask(&awaited, &tally, failed, &mut place);
    awaited.withdraw(failed, &nobody);
    let discarded = ask(&awaited, &tally, awaited.call(), &mut place);
    let kept = ask(&awaited, &other, awaited.call(), &mut place);
    awaited.discard(&tally, Status::PEER_FAILED, &nobody);
    assert!(tally.missing() == 0 && other.missing() == 1);
    for token in [withdrawn, discarded] {
        awaited.answered(&answer(THEM, token, Status::OK), &[1, 2, 3], &nobody);
    }
    assert_eq!(place, [5; 3]);
    awaited.discard_all_of(THEM + 1, Status::PEER_FAILED, &nobody);
    assert_eq!(other.missing(), 1);
    awaited.discard_all_of(THEM, Status::PEER_FAILED, &nobody);
    awaited.answered(&answer(THEM, kept, Status::OK), &[1, 2, 3], &nobody);
    assert!(other.missing() == 0 && place == [5; 3]);
    assert_eq!(other.take_complaint(), Some(Status::PEER_FAILED));
}

#[test]
fn a_call_with_a_request_that_has_all_when_it_returns_needs_no_ticket() {
    let (awaited, tally, mut place) = (Awaited::default(), Tally::default(), [0; 3]);
    for status in [Status::OK, Status::RMA_ATTACH] {
        let call = awaited.call_with_request(None);
        let token = ask(&awaited, &tally, call, &mut place);
        awaited.count_in(call);
        assert!(awaited.left(call) == 2 && awaited.is_over(call, None).is_none());
        awaited.answered(&answer(THEM, token, status), &[1, 2, 3], &nobody);
        assert!(awaited.left(call) == 1 && awaited.is_over(call, None).is_none());
        awaited.count_out(call, Status::OK, &nobody);
        assert_eq!(awaited.is_over(call, None), Some(status));
    }
    // A request reports its own errors; a flush's request also those before it.
    assert_eq!(tally.take_complaint(), None);
    tally.complain(Status::RMA_POISONED);
    let flush = awaited.call_with_request(Some(&tally));
    assert_eq!(awaited.is_over(flush, None), Some(Status::RMA_POISONED));
    assert_eq!(tally.take_complaint(), None);
}

/// The same with one piece.
fn ask_for_long(awaited: &Awaited, tally: &Tally, call: Call, place: &mut [u8]) -> u64 {
    let run = (place.as_mut_ptr(), place.len());
    // SAFETY: the callers keep the memory.
    unsafe { awaited.add(tally, ASKED, call, (place.len() as u64, true), |runs| runs.push(run)) }
}

#[test]
fn what_is_pulled_ends_when_that_has_ended_and_once() {
    let (awaited, tally, mut place) = (Awaited::default(), Tally::default(), [5; 3]);
    let token = ask_for_long(&awaited, &tally, awaited.call(), &mut place);
    assert!(awaited.begin_pull(&answer(THEM + 1, token, Status::OK), 3, &nobody).is_none());
    let pull =
        awaited.begin_pull(&answer(THEM, token, Status::OK), 3, &nobody).expect("it is wanted");
    assert_eq!((pull.place, pull.bytes), (place.as_mut_ptr(), 3));
    assert!(awaited.begin_pull(&answer(THEM, token, Status::OK), 3, &nobody).is_none());
    awaited.answered(&answer(THEM, token, Status::OK), &[1, 1, 1], &nobody);
    assert!(tally.missing() == 1 && place == [5; 3]);
    awaited.pulled(token, Status::OK, &nobody);
    awaited.pulled(token, Status::OK, &nobody);
    assert!(tally.missing() == 0 && tally.take_complaint().is_none());
}

#[test]
fn what_is_pulled_and_not_awaited_any_more_still_ends_with_the_pull() {
    for (status, told) in
        [(Status::PEER_FAILED, Status::PEER_FAILED), (Status::CANCELED, Status::CANCELED)]
    {
        let (awaited, tally, mut place) = (Awaited::default(), Tally::default(), [5; 3]);
        let token = ask_for_long(&awaited, &tally, awaited.call(), &mut place);
        assert!(awaited.begin_pull(&answer(THEM, token, Status::OK), 3, &nobody).is_some());
        awaited.discard(&tally, status, &nobody);
        awaited.discard_all_of(THEM, Status::NO_MEMORY, &nobody);
        assert_eq!(tally.missing(), 1);
        awaited.pulled(token, Status::OK, &nobody);
        assert_eq!((tally.missing(), tally.take_complaint()), (0, Some(told)));
        // Its place can be reused.
        let next = ask_for_long(&awaited, &tally, awaited.call(), &mut place);
        awaited.discard(&tally, Status::OK, &nobody);
        assert!(tally.missing() == 0 && next != token);
    }
}

#[test]
fn a_long_answer_of_another_length_or_to_something_else_is_not_pulled() {
    let (awaited, tally, mut place) = (Awaited::default(), Tally::default(), [5; 3]);
    for (length, status) in [(2, Status::OK), (4, Status::OK), (3, Status::RMA_RANGE)] {
        let token = ask_for_long(&awaited, &tally, awaited.call(), &mut place);
        assert!(awaited.begin_pull(&answer(THEM, token, status), length, &nobody).is_none());
        let told = if status == Status::OK { Status::MESSAGE_TRUNCATED } else { status };
        assert_eq!((tally.missing(), tally.take_complaint()), (0, Some(told)));
    }
    let scattered = ask(&awaited, &tally, awaited.call(), &mut place);
    assert!(awaited.begin_pull(&answer(THEM, scattered, Status::OK), 3, &nobody).is_none());
    assert_eq!((tally.missing(), tally.take_complaint()), (0, Some(Status::MESSAGE_TRUNCATED)));
}

fn pulls_for(awaited: &Awaited, window: u64) -> Vec<u32> {
    awaited.pulls(|whom, _| whom.window == window)
}

#[test]
fn an_answer_about_another_window_or_that_was_to_come_along_is_not_pulled() {
    let (awaited, tally, mut place) = (Awaited::default(), Tally::default(), [5; 3]);
    let token = ask_for_long(&awaited, &tally, awaited.call(), &mut place);
    let other = WindowHeader { window: 2, ..answer(THEM, token, Status::OK) };
    assert!(awaited.begin_pull(&other, 3, &nobody).is_none());
    assert!(tally.missing() == 1 && tally.owes_long() && pulls_for(&awaited, 1).is_empty());
    assert!(awaited.begin_pull(&answer(THEM, token, Status::OK), 3, &nobody).is_some());
    assert!(pulls_for(&awaited, 1) == [THEM] && pulls_for(&awaited, 2).is_empty());
    awaited.pulled(token, Status::OK, &nobody);
    assert!(!tally.owes_long() && pulls_for(&awaited, 1).is_empty());
    let run = (place.as_mut_ptr(), place.len());
    // SAFETY: the memory is kept.
    let short =
        unsafe { awaited.add(&tally, ASKED, awaited.call(), (3, false), |runs| runs.push(run)) };
    assert!(awaited.begin_pull(&answer(THEM, short, Status::OK), 3, &nobody).is_none());
    assert_eq!((tally.missing(), tally.take_complaint()), (0, Some(Status::MESSAGE_TRUNCATED)));
}

#[test]
fn a_flush_with_a_request_ends_after_all_that_was_asked_before() {
    let (awaited, tally, mut place) = (Awaited::default(), Tally::default(), [5; 3]);
    let put = awaited.call();
    // SAFETY: no data is written.
    let put = unsafe { awaited.add(&tally, ASKED, put, (0, true), |_| ()) };
    let get = ask_for_long(&awaited, &tally, awaited.call(), &mut place);
    let flush = awaited.call_with_request(Some(&tally));
    // SAFETY: no data is written.
    let question = unsafe { awaited.add(&tally, ASKED, flush, (0, false), |_| ()) };
    awaited.answered(&answer(THEM, question, Status::OK), &[], &nobody);
    assert_eq!(awaited.left(flush), 1);
    assert!(awaited.begin_pull(&answer(THEM, get, Status::OK), 3, &nobody).is_some());
    awaited.pulled(get, Status::OK, &nobody);
    assert_eq!(awaited.left(flush), 1);
    awaited.answered(&answer(THEM, put, Status::RMA_RANGE), &[], &nobody);
    assert_eq!(awaited.left(flush), 0);
    // It reports the put's error.
    assert_eq!(awaited.is_over(flush, None), Some(Status::RMA_RANGE));
    assert_eq!(tally.take_complaint(), None);
}

#[test]
fn a_flush_that_was_answered_early_can_be_given_up() {
    let (awaited, tally) = (Awaited::default(), Tally::default());
    // SAFETY: no data is written.
    let put = unsafe { awaited.add(&tally, ASKED, awaited.call(), (0, true), |_| ()) };
    let flush = awaited.call_with_request(Some(&tally));
    // SAFETY: no data is written.
    let question = unsafe { awaited.add(&tally, ASKED, flush, (0, false), |_| ()) };
    let ticket = Ticket::NOWHERE;
    assert_eq!(awaited.is_over(flush, Some(ticket)), None);
    awaited.answered(&answer(THEM, question, Status::RMA_POISONED), &[], &nobody);
    assert!(awaited.cancel(flush, ticket));
    awaited.answered(&answer(THEM, put, Status::OK), &[], &nobody);
    assert_eq!((tally.missing(), tally.take_complaint()), (0, Some(Status::RMA_POISONED)));
}

#[test]
fn a_call_that_has_failed_gives_its_place_back_when_the_last_of_it_has_ended() {
    let (awaited, tally) = (Awaited::default(), Tally::default());
    // SAFETY: no data is written.
    let put = unsafe { awaited.add(&tally, ASKED, awaited.call(), (0, true), |_| ()) };
    let flush = awaited.call_with_request(Some(&tally));
    // SAFETY: no data is written.
    unsafe { awaited.add(&tally, ASKED, flush, (0, false), |_| ()) };
    awaited.withdraw(flush, &nobody);
    awaited.is_lost(flush);
    assert_eq!(awaited.0.lock().orders.in_use(), 1);
    awaited.answered(&answer(THEM, put, Status::OK), &[], &nobody);
    assert_eq!(awaited.0.lock().orders.in_use(), 0);
}

#[test]
fn a_request_that_has_ended_is_not_given_back_again_by_a_cancel() {
    let (awaited, tally, mut place) = (Awaited::default(), Tally::default(), [0; 3]);
    let ticket = Ticket::NOWHERE;
    let call = awaited.call_with_request(None);
    let token = ask(&awaited, &tally, call, &mut place);
    assert!(awaited.is_over(call, Some(ticket)).is_none());
    let told = std::cell::Cell::new(0);
    let count = |_: Ticket, _: Status| told.set(told.get() + 1);
    awaited.answered(&answer(THEM, token, Status::OK), &[7, 8, 9], &count);
    assert!(!awaited.cancel(call, ticket) && told.get() == 1);
    let orders = [0; 2].map(|_| awaited.call_with_request(None).order);
    assert_ne!(orders[0], orders[1]);
}

//! What is copied, from where, how much at a time, and what becomes of it: single steps on the
//! tables, with transfers that end when the test decides.

use crate::engine::hub::lease::{LeaseRequest, Refusal};
use crate::engine::hub::lease_end::End;
use crate::engine::hub::link::new_unit;
use crate::engine::hub::memory::{Block, MemoryKind};
use crate::engine::hub::records::{self, Retain, Role};
use crate::engine::hub::state::{State, COMPETING, NONE};
use crate::engine::hub::transfer::Transfer;
use crate::engine::ucx::memory_type::{DUMMY, HOST};

const ON_HOST: MemoryKind = MemoryKind { memory_type: HOST, device_id: 0 };
const ON_DUMMY: MemoryKind = MemoryKind { memory_type: DUMMY, device_id: 0 };
const ON_OTHER: MemoryKind = MemoryKind { memory_type: DUMMY, device_id: 1 };

/// A hub with this many envelopes of each kind; pools are numbered in this order.
fn hub(retain: Retain, pools: &[(MemoryKind, usize)]) -> State {
    let mut state = State::new(8, u64::MAX, u64::MAX, retain, 2);
    for (kind, count) in pools {
        let pool = state.pool(*kind).unwrap();
        let block = || {
            Block::wrap(Box::leak(Box::new(0u64)) as *mut u64 as *mut _, None, std::ptr::null_mut())
        };
        state.add(pool, (0..*count).map(|_| block()).collect());
    }
    state
}

fn request(role: Role, pool: u32) -> LeaseRequest {
    LeaseRequest { role, pool, unit: COMPETING, link: NONE, autocommit: false, synced: false }
}

/// Creates a link; returns its request.
fn link(state: &mut State, role: Role, pool: u32, broadcast: bool) -> LeaseRequest {
    let unit = new_unit(state, role, broadcast).unwrap();
    state.competing += u32::from(role == Role::Consume && unit == COMPETING);
    let watch = crate::engine::hub::ready::Watch::default();
    let (alive, autocommit, in_flow, leases) = (true, false, false, 0);
    state.links.push(records::Link {
        alive,
        role,
        pool,
        unit,
        autocommit,
        in_flow,
        leases,
        watch,
        handle: 0,
    });
    state.count_wants();
    let number = state.links.len() as u32 - 1;
    state.links[number as usize].request(number)
}

fn lease(state: &mut State, request: &LeaseRequest) -> Result<u32, Refusal> {
    let found = state.look(request)?;
    Ok(state.take(request, found))
}

fn word(state: &State, lease: u32) -> *mut u64 {
    state.envelopes[state.lease_records[lease as usize].envelope as usize].block.span().data.cast()
}

fn produce(state: &mut State, pool: u32, value: u64) {
    let made = lease(state, &request(Role::Produce, pool)).unwrap();
    // SAFETY: leased to us.
    unsafe { *word(state, made) = value };
    state.end(made, End::Commit(8));
}

fn finish(state: &mut State, transfer: &Transfer) {
    transfer.from.copy_to(transfer.to, transfer.length);
    state.end_transfer(transfer, None);
}

#[test]
fn so_many_transfers_are_under_way_in_one_direction() {
    let mut state = hub(Retain::Auto, &[(ON_HOST, 4), (ON_DUMMY, 4), (ON_OTHER, 1)]);
    link(&mut state, Role::Consume, 1, false);
    for value in 1..=3 {
        produce(&mut state, 0, value);
    }
    let first = state.begin_transfer().unwrap();
    let second = state.begin_transfer().unwrap();
    assert!(state.begin_transfer().is_none(), "a third one");
    // Each direction has its own limit.
    link(&mut state, Role::Peek, 2, false);
    let elsewhere = state.begin_transfer().unwrap();
    assert_eq!(elsewhere.to_kind, ON_OTHER);
    assert!(state.begin_transfer().is_none());
    finish(&mut state, &second);
    let third = state.begin_transfer().unwrap();
    assert_eq!((third.from_kind, third.to_kind), (ON_HOST, ON_DUMMY));
    for transfer in [&first, &elsewhere, &third] {
        finish(&mut state, transfer);
    }
    assert!(state.begin_transfer().is_none());
    assert_eq!(state.stats.transfers, 4);
}

#[test]
fn a_transfer_begins_on_the_host_if_the_chunk_is_there() {
    for pools in [[ON_HOST, ON_DUMMY, ON_OTHER], [ON_DUMMY, ON_HOST, ON_OTHER]] {
        let mut state = hub(Retain::Always, &pools.map(|kind| (kind, 1)));
        let host = u32::from(pools[1] == ON_HOST);
        produce(&mut state, host, 1);
        link(&mut state, Role::Peek, 1 - host, false);
        let near = state.begin_transfer().unwrap();
        finish(&mut state, &near);
        link(&mut state, Role::Peek, 2, false);
        assert_eq!(state.begin_transfer().unwrap().from_kind, ON_HOST);
    }
}

/// Regression: a copy was reclaimed as soon as it was done, if its pool was created first. A caller
/// that polled never found it.
#[test]
fn what_was_asked_for_is_there_when_the_copy_ends_later() {
    for pools in [[ON_DUMMY, ON_HOST], [ON_HOST, ON_DUMMY]] {
        let mut state = hub(Retain::UntilCopied, &pools.map(|kind| (kind, 1)));
        let host = u32::from(pools[1] == ON_HOST);
        let device = 1 - host;
        // With and without a consumer on the host that does not lease.
        for stalled in [false, true] {
            if stalled {
                link(&mut state, Role::Consume, host, false);
            }
            produce(&mut state, host, 7);
            let ask = request(Role::Peek, device);
            assert_eq!(lease(&mut state, &ask), Err(Refusal::NotNow));
            state.pools[device as usize].demand += 1;
            let transfer = state.begin_transfer().unwrap();
            state.pools[device as usize].demand -= 1;
            finish(&mut state, &transfer);
            let found = lease(&mut state, &ask).expect("has been copied");
            // SAFETY: leased to us.
            assert_eq!(unsafe { *word(&state, found) }, 7);
            assert_eq!(state.pools[host as usize].free_count, u32::from(!stalled));
            state.end(found, End::Abort);
            state.remove(state.head);
        }
    }
}

/// What a swap has taken away is never served, however late its copy ends, and whatever links are
/// created meanwhile.
#[test]
fn a_copy_of_what_was_swapped_away_is_dropped() {
    let mut state = hub(Retain::UntilCopied, &[(ON_HOST, 1), (ON_DUMMY, 2), (ON_OTHER, 1)]);
    let consumer = link(&mut state, Role::Consume, 1, false);
    let looker = link(&mut state, Role::Peek, 2, false);
    produce(&mut state, 0, 1);
    let near = state.begin_transfer().unwrap();
    let far = state.begin_transfer().unwrap();
    assert_eq!((near.to_kind, far.to_kind), (ON_DUMMY, ON_OTHER));
    finish(&mut state, &near);
    let (held, fresh) = (
        lease(&mut state, &consumer).unwrap(),
        lease(&mut state, &request(Role::Produce, 1)).unwrap(),
    );
    // SAFETY: leased to us.
    unsafe { *word(&state, fresh) = 2 };
    state.exchange(held, fresh);
    state.end(held, End::Abort);
    state.end(fresh, End::Abort);
    finish(&mut state, &far);
    assert_eq!((state.stats.transfers, state.stats.stale_transfers), (1, 1));
    assert_eq!(lease(&mut state, &looker), Err(Refusal::NotNow));
    let again = state.begin_transfer().unwrap();
    finish(&mut state, &again);
    let found = lease(&mut state, &looker).unwrap();
    // SAFETY: leased to us.
    assert_eq!(unsafe { *word(&state, found) }, 2);
}

#[test]
fn what_a_swap_has_brought_may_be_swapped_again() {
    let mut state = hub(Retain::Auto, &[(ON_HOST, 3), (ON_DUMMY, 1)]);
    let consumer = link(&mut state, Role::Consume, 0, false);
    let sees_all = link(&mut state, Role::Consume, 1, true);
    produce(&mut state, 0, 1);
    let taken = lease(&mut state, &consumer).unwrap();
    assert!(state.exchanged(taken).is_err(), "the other one is still to have it from there");
    let transfer = state.begin_transfer().unwrap();
    finish(&mut state, &transfer);
    let made = lease(&mut state, &request(Role::Produce, 0)).unwrap();
    for round in 0..2 {
        assert!(state.exchanged(made).is_ok() && state.exchanged(taken).is_ok(), "round {round}");
        state.exchange(made, taken);
    }
    // The other consumer gets the old contents, from the copy.
    let seen = lease(&mut state, &sees_all).unwrap();
    // SAFETY: leased to us.
    assert_eq!(unsafe { *word(&state, seen) }, 1);
}

/// Completes all transfers.
fn settle(state: &mut State) {
    while let Some(transfer) = state.begin_transfer() {
        finish(state, &transfer);
    }
}

#[test]
fn a_younger_chunk_may_go_first_and_then_nothing_stands_still() {
    let mut state = hub(Retain::Auto, &[(ON_HOST, 2), (ON_DUMMY, 2)]);
    let there = link(&mut state, Role::Consume, 1, true);
    let here = link(&mut state, Role::Consume, 0, true);
    produce(&mut state, 0, 1);
    produce(&mut state, 0, 2);
    let first = lease(&mut state, &here).unwrap();
    state.end(first, End::Commit(0));
    settle(&mut state);
    // Out of order: it consumes the second of the two.
    let [first, second] = [0, 1].map(|_| lease(&mut state, &there).unwrap());
    state.end(second, End::Commit(0));
    state.end(first, End::Abort);
    // Its change leaves it only on the host, and other chunks take all free envelopes elsewhere.
    let changed = lease(&mut state, &request(Role::Modify, 0)).unwrap();
    state.end(changed, End::Commit(8));
    produce(&mut state, 1, 3);
    produce(&mut state, 1, 4);
    assert!(state.begin_transfer().is_none());
    assert_eq!(lease(&mut state, &there), Err(Refusal::NotNow));
    let second = lease(&mut state, &here).unwrap();
    state.end(second, End::Commit(0));
    settle(&mut state);
    let served = lease(&mut state, &there).unwrap();
    // SAFETY: leased to us.
    assert_eq!(unsafe { *word(&state, served) }, 1);
}

#[test]
fn what_was_swapped_away_is_hidden_until_that_lease_ends() {
    let mut state = hub(Retain::UntilCopied, &[(ON_HOST, 3), (ON_DUMMY, 2)]);
    let consumer = link(&mut state, Role::Consume, 0, false);
    let gone = link(&mut state, Role::Consume, 1, true);
    let sees_all = link(&mut state, Role::Consume, 0, true);
    produce(&mut state, 0, 1);
    settle(&mut state);
    let kept = lease(&mut state, &gone).unwrap();
    state.links[gone.link as usize].alive = false;
    state.broadcast &= !gone.unit;
    state.count_wants();
    // Nobody is going to read it there any more, so the envelope is no longer the chunk's.
    let seen = lease(&mut state, &sees_all).unwrap();
    state.end(seen, End::Commit(0));
    let taken = lease(&mut state, &consumer).unwrap();
    let made = lease(&mut state, &request(Role::Produce, 0)).unwrap();
    assert!(state.exchanged(made).is_ok() && state.exchanged(taken).is_ok());
    state.exchange(made, taken);
    state.end(kept, End::Commit(0));
    assert_eq!(state.queued, 1, "it went under the hands of the one that has it");
    assert_eq!(lease(&mut state, &request(Role::Peek, 0)), Err(Refusal::NotNow));
    state.end(taken, End::Abort);
    assert!(lease(&mut state, &request(Role::Peek, 0)).is_ok());
}

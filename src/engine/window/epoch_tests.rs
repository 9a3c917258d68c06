//! Every call in every state, against a table that was written from the contract.

use super::*;

const NO_ASSERTION: u32 = 0;
const NOCHECK: u32 = 1;
const NOPRECEDE: u32 = 8;
const NOSUCCEED: u32 = 16;

fn lock(given: u32) -> Assertions {
    Assertions::of_lock(given).unwrap()
}

fn fence(given: u32) -> Assertions {
    Assertions::of_fence(given).unwrap()
}

/// The access axis, targets 0 and 1, and `+` for exposure: the notation of the table.
fn snapshot(epoch: &Epoch) -> String {
    let target = |rank| match epoch.target(rank) {
        target::CLOSED => '.',
        target::PENDING => 'p',
        target::STARTED => 't',
        target::SHARED => 's',
        target::EXCLUSIVE => 'x',
        target::NO_CHECK => 'n',
        strange => panic!("{strange}"),
    };
    let access = match epoch.now() {
        access::NONE => 'N',
        access::FENCE => 'F',
        access::FENCE_EPOCH => 'E',
        access::START => 'S',
        access::LOCK => 'L',
        access::LOCK_ALL => 'A',
        access::LOCK_ALL_NO_CHECK => 'a',
        strange => panic!("{strange}"),
    };
    let calls = epoch.calls.lock();
    let locked = [0, 1].iter().filter(|rank| epoch.held(**rank).is_some()).count();
    assert_eq!(epoch.held.load(Ordering::Relaxed) as usize, locked);
    assert_eq!(calls.pending as usize, [0, 1].iter().filter(|rank| target(**rank) == 'p').count());
    assert_eq!(calls.started.len(), [0, 1].iter().filter(|rank| target(**rank) == 't').count());
    let exposed = if calls.exposure.is_some() { "+" } else { "" };
    format!("{access}{}{}{exposed}", target(0), target(1))
}

/// A window brought to this state by legal calls only.
fn reach(state: &str) -> Epoch {
    let epoch = Epoch::new(2, false);
    let mut letters = state.chars();
    let access = letters.next().unwrap();
    let targets: Vec<(u32, char)> = (0..).zip(letters.by_ref().take(2)).collect();
    match access {
        'N' => {}
        'F' | 'E' => {
            epoch.begin_fence(fence(NO_ASSERTION)).unwrap();
            epoch.end_fence(fence(NO_ASSERTION));
            if access == 'E' {
                epoch.check_access(1).unwrap();
            }
        }
        'S' => {
            let ranks: Vec<u32> =
                targets.iter().filter(|(_, how)| *how == 't').map(|(rank, _)| *rank).collect();
            epoch.start(&ranks).unwrap();
        }
        'A' => epoch.lock_all(lock(NO_ASSERTION)).unwrap(),
        'a' => epoch.lock_all(lock(NOCHECK)).unwrap(),
        'L' => {
            for (rank, how) in targets {
                match how {
                    '.' => {}
                    'n' => assert!(epoch.begin_lock(rank, lock(NOCHECK), || None).unwrap()),
                    _ => {
                        assert!(!epoch.begin_lock(rank, lock(NO_ASSERTION), || None).unwrap());
                        match how {
                            's' => epoch.grant_lock(rank, LockType::Shared),
                            'x' => epoch.grant_lock(rank, LockType::Exclusive),
                            _ => {}
                        }
                    }
                }
            }
        }
        _ => panic!("{state}"),
    }
    if letters.next() == Some('+') {
        epoch.post(&[1]).unwrap();
    }
    assert_eq!(snapshot(&epoch), state);
    epoch
}

type Doing = fn(&Epoch) -> Result<()>;

/// The columns. Calls with a target name target 0.
const CALLS: [(&str, Option<Call>, Doing); 17] = [
    ("lock", Some(Call::Lock(0)), |epoch| {
        epoch
            .begin_lock(0, lock(NO_ASSERTION), || None)
            .map(|_| epoch.grant_lock(0, LockType::Exclusive))
    }),
    ("lock_nocheck", Some(Call::Lock(0)), |epoch| {
        epoch.begin_lock(0, lock(NOCHECK), || None).map(|_| ())
    }),
    ("unlock", Some(Call::Unlock(0)), |epoch| epoch.unlock(0).map(|_| ())),
    ("lock_all", Some(Call::LockAll), |epoch| epoch.lock_all(lock(NO_ASSERTION))),
    ("unlock_all", Some(Call::UnlockAll), |epoch| epoch.unlock_all().map(|_| ())),
    ("flush", Some(Call::Flush(0)), |epoch| epoch.check_passive(Call::Flush(0), 0)),
    ("flush_all", Some(Call::FlushAll), |epoch| epoch.check(Call::FlushAll)),
    ("sync", Some(Call::Sync), |epoch| epoch.check(Call::Sync)),
    ("post", Some(Call::Post), |epoch| epoch.post(&[0, 1])),
    ("start", Some(Call::Start), |epoch| epoch.start(&[0])),
    ("complete", Some(Call::Complete), |epoch| epoch.complete().map(|_| ())),
    ("wait", Some(Call::Wait), |epoch| epoch.test_exposure(|_| true).map(|done| assert!(done))),
    ("fence", Some(Call::Fence), |epoch| {
        epoch.begin_fence(fence(NO_ASSERTION)).map(|_| epoch.end_fence(fence(NO_ASSERTION)))
    }),
    ("fence_nosucceed", Some(Call::Fence), |epoch| {
        epoch.begin_fence(fence(NOSUCCEED)).map(|_| epoch.end_fence(fence(NOSUCCEED)))
    }),
    ("close", Some(Call::Close), |epoch| epoch.check(Call::Close)),
    ("put", Some(Call::Access(0)), |epoch| epoch.check_access(0)),
    ("rput", Some(Call::Request(0)), |epoch| epoch.check_passive(Call::Request(0), 0)),
];

/// The state, and what each call makes of it; `-` is RMA_SYNC, which changes nothing. The calls:
/// lock, lock with NOCHECK, unlock, lock_all, unlock_all, flush, flush_all, sync, post, start,
/// complete, wait, fence, fence with NOSUCCEED, close, put, rput.
const TABLE: [&str; 29] = [
    //     lock noch unlc lcka unla flus flsh sync post star comp wait fenc nosu clos put  rput
    "N..  Lx.  Ln.  -    A..  -    -    -    N..  N..+ St.  -    -    F..  N..  N..  -    -",
    "F..  Lx.  Ln.  -    A..  -    -    -    F..  N..+ St.  -    -    F..  N..  F..  E..  -",
    "E..  -    -    -    -    -    -    -    E..  -    -    -    -    F..  N..  -    E..  -",
    "St.  -    -    -    -    -    -    -    St.  St.+ -    N..  -    -    -    -    St.  -",
    "S.t  -    -    -    -    -    -    -    S.t  S.t+ -    N..  -    -    -    -    -    -",
    "S..  -    -    -    -    -    -    -    S..  S..+ -    N..  -    -    -    -    -    -",
    "Ls.  -    -    N..  -    -    Ls.  Ls.  Ls.  Ls.+ -    -    -    -    -    -    Ls.  Ls.",
    "Lx.  -    -    N..  -    -    Lx.  Lx.  Lx.  Lx.+ -    -    -    -    -    -    Lx.  Lx.",
    "Ln.  -    -    N..  -    -    Ln.  Ln.  Ln.  Ln.+ -    -    -    -    -    -    Ln.  Ln.",
    "Lxs  -    -    L.s  -    -    Lxs  Lxs  Lxs  Lxs+ -    -    -    -    -    -    Lxs  Lxs",
    "Lsp  -    -    L.p  -    -    Lsp  Lsp  Lsp  Lsp+ -    -    -    -    -    -    Lsp  Lsp",
    "L.s  Lxs  Lns  -    -    -    -    L.s  L.s  L.s+ -    -    -    -    -    -    -    -",
    "L.n  Lxn  Lnn  -    -    -    -    L.n  L.n  L.n+ -    -    -    -    -    -    -    -",
    "Lp.  -    -    -    -    -    -    -    Lp.  Lp.+ -    -    -    -    -    -    -    -",
    "Lps  -    -    -    -    -    -    Lps  Lps  Lps+ -    -    -    -    -    -    -    -",
    "L.p  Lxp  Lnp  -    -    -    -    -    L.p  L.p+ -    -    -    -    -    -    -    -",
    "A..  -    -    -    -    N..  A..  A..  A..  A..+ -    -    -    -    -    -    A..  A..",
    "a..  -    -    -    -    N..  a..  a..  a..  a..+ -    -    -    -    -    -    a..  a..",
    "N..+ Lx.+ Ln.+ -    A..+ -    -    -    N..+ -    St.+ -    N..  -    -    -    -    -",
    "St.+ -    -    -    -    -    -    -    St.+ -    -    N..+ St.  -    -    -    St.+ -",
    "S.t+ -    -    -    -    -    -    -    S.t+ -    -    N..+ S.t  -    -    -    -    -",
    "Lx.+ -    -    N..+ -    -    Lx.+ Lx.+ Lx.+ -    -    -    Lx.  -    -    -    Lx.+ Lx.+",
    "Ln.+ -    -    N..+ -    -    Ln.+ Ln.+ Ln.+ -    -    -    Ln.  -    -    -    Ln.+ Ln.+",
    "Lss+ -    -    L.s+ -    -    Lss+ Lss+ Lss+ -    -    -    Lss  -    -    -    Lss+ Lss+",
    "L.s+ Lxs+ Lns+ -    -    -    -    L.s+ L.s+ -    -    -    L.s  -    -    -    -    -",
    "Lp.+ -    -    -    -    -    -    -    Lp.+ -    -    -    Lp.  -    -    -    -    -",
    "Lps+ -    -    -    -    -    -    Lps+ Lps+ -    -    -    Lps  -    -    -    -    -",
    "A..+ -    -    -    -    N..+ A..+ A..+ A..+ -    -    -    A..  -    -    -    A..+ A..+",
    "a..+ -    -    -    -    N..+ a..+ a..+ a..+ -    -    -    a..  -    -    -    a..+ a..+",
];

fn outcome(epoch: &Epoch, doing: Doing) -> String {
    match doing(epoch) {
        Ok(()) => snapshot(epoch),
        Err(error) => {
            assert_eq!(error.status(), Status::RMA_SYNC, "{error}");
            "-".into()
        }
    }
}

#[test]
fn every_call_in_every_state() {
    for row in TABLE {
        let mut cells = row.split_whitespace();
        let state = cells.next().unwrap();
        for (name, call, doing) in CALLS {
            let expected = cells.next().unwrap();
            let epoch = reach(state);
            if let Some(call) = call {
                assert_eq!(
                    epoch.check(call).is_ok(),
                    expected != "-",
                    "{name} in {state}: asked beforehand"
                );
                assert_eq!(snapshot(&epoch), state, "{name} in {state}: asking changes nothing");
            }
            assert_eq!(outcome(&epoch, doing), expected, "{name} in {state}");
            if expected == "-" {
                assert_eq!(
                    snapshot(&epoch),
                    state,
                    "{name} in {state}: what is refused changes nothing"
                );
            }
        }
        assert!(cells.next().is_none());
    }
}

/// Every state that legal calls lead to is in the table.
#[test]
fn the_table_has_every_state() {
    let rows: Vec<&str> = TABLE.iter().map(|row| row.split_whitespace().next().unwrap()).collect();
    for row in TABLE {
        for reached in row.split_whitespace().skip(1).filter(|cell| *cell != "-") {
            // States that differ in how target 1 is held, or that only a lock of both has, behave
            // like one in the table.
            let alike = reached
                .replace("xs", "ss")
                .replace("ns", "ss")
                .replace("xn", "ss")
                .replace("nn", "ss");
            let alike = alike.replace("xp", "sp").replace("np", "sp");
            let pair = [alike.clone(), alike.replace("Ls.", "Lx."), alike.replace("Lss", "Lxs")];
            let bare = reached.trim_end_matches('+');
            assert!(
                pair.iter().any(|state| rows.contains(&state.as_str())) || rows.contains(&bare),
                "{reached}"
            );
        }
    }
}

#[test]
fn without_locks_there_are_none() {
    for (state, exposed) in [("N..", ""), ("F..", ""), ("N..+", "+")] {
        let epoch = reach(state);
        epoch.set_no_locks(true).unwrap();
        for (name, call, doing) in CALLS {
            if name.starts_with("lock") || name.starts_with("unlock") || name.starts_with("flush") {
                assert_eq!(outcome(&epoch, doing), "-", "{name}");
                assert!(epoch.check(call.unwrap()).is_err());
            }
        }
        assert_eq!(snapshot(&epoch), state);
        epoch.set_no_locks(false).unwrap();
        assert!(epoch.begin_lock(0, lock(NO_ASSERTION), || None).is_ok());
        assert_eq!(snapshot(&epoch), format!("Lp.{exposed}"));
    }
    for state in ["Lp.", "Lx.", "Ln.", "A..", "a.."] {
        assert_eq!(reach(state).set_no_locks(true).unwrap_err().status(), Status::RMA_SYNC);
    }
}

#[test]
fn a_lock_that_comes_to_nothing_leaves_no_trace() {
    for (before, during) in [
        ("N..", "Lp."),
        ("F..", "Lp."),
        ("L.s", "Lps"),
        ("L.n", "Lpn"),
        ("L.p", "Lpp"),
        ("N..+", "Lp.+"),
    ] {
        let epoch = reach(before);
        epoch.begin_lock(0, lock(NO_ASSERTION), || None).unwrap();
        assert_eq!(snapshot(&epoch), during);
        epoch.abandon_lock(0);
        assert_eq!(snapshot(&epoch), before);
    }
    let epoch = reach("F..");
    assert!(epoch.begin_lock(0, lock(NO_ASSERTION), || Some(LockType::Shared)).unwrap());
    assert_eq!(snapshot(&epoch), "Ls.");
    assert!(epoch
        .begin_lock(0, lock(NO_ASSERTION), || panic!("what is refused is not tried"))
        .is_err());
    // One of two locks was granted: the fence's permission is used up.
    let epoch = reach("F..");
    for rank in [0, 1] {
        assert!(!epoch.begin_lock(rank, lock(NO_ASSERTION), || None).unwrap());
    }
    epoch.grant_lock(1, LockType::Shared);
    epoch.unlock(1).unwrap();
    assert_eq!(snapshot(&epoch), "Lp.");
    epoch.abandon_lock(0);
    assert_eq!(snapshot(&epoch), "N..");
    // A post has used it up.
    let epoch = reach("F..");
    assert!(!epoch.begin_lock(0, lock(NO_ASSERTION), || None).unwrap());
    epoch.post(&[1]).unwrap();
    epoch.abandon_lock(0);
    assert_eq!(snapshot(&epoch), "N..+");
}

#[test]
fn what_is_given_back() {
    assert_eq!(reach("Ls.").unlock(0).unwrap(), Held::Locked(LockType::Shared));
    assert_eq!(reach("Lx.").unlock(0).unwrap(), Held::Locked(LockType::Exclusive));
    assert_eq!(reach("Ln.").unlock(0).unwrap(), Held::NoCheck);
    assert_eq!(reach("A..").unlock_all().unwrap(), Held::Locked(LockType::Shared));
    assert_eq!(reach("a..").unlock_all().unwrap(), Held::NoCheck);
    assert_eq!(*reach("S.t").complete().unwrap(), [1]);
}

#[test]
fn what_a_fence_has_to_do() {
    let plan = |state, given| reach(state).begin_fence(fence(given)).unwrap();
    assert_eq!(plan("N..", NO_ASSERTION), FencePlan { flush: false, barrier: true });
    assert_eq!(plan("E..", NO_ASSERTION), FencePlan { flush: true, barrier: true });
    assert_eq!(plan("E..", NOSUCCEED), FencePlan { flush: true, barrier: true });
    assert_eq!(plan("E..", NOPRECEDE), FencePlan { flush: false, barrier: true });
    assert_eq!(plan("E..", NOPRECEDE | NOSUCCEED), FencePlan { flush: false, barrier: false });
    // Nothing may be accessed until it has ended.
    let epoch = reach("E..");
    epoch.begin_fence(fence(NO_ASSERTION)).unwrap();
    assert!(epoch.check_access(0).is_err());
    epoch.end_fence(fence(NO_ASSERTION));
    assert!(epoch.check_access(0).is_ok());
}

#[test]
fn a_test_goes_on_where_the_last_one_stopped() {
    let epoch = Epoch::new(4, false);
    epoch.post(&[3, 1, 2]).unwrap();
    let mut asked = Vec::new();
    let mut test = |completed: &[u32]| {
        epoch.test_exposure(|rank| {
            asked.push(rank);
            completed.contains(&rank)
        })
    };
    assert!(!test(&[3, 2]).unwrap());
    assert!(!test(&[3, 2]).unwrap());
    assert!(test(&[1, 2]).unwrap());
    assert_eq!(test(&[]).unwrap_err().status(), Status::RMA_SYNC);
    assert_eq!(asked, [3, 1, 1, 1, 2]);
    epoch.post(&[]).unwrap();
    assert!(epoch.test_exposure(|_| false).unwrap(), "nobody is waited for");
}

#[test]
fn an_exposure_that_is_given_up_tells_who_is_missing() {
    let epoch = Epoch::new(4, false);
    epoch.post(&[3, 1, 2]).unwrap();
    assert!(!epoch.test_exposure(|rank| rank == 3).unwrap());
    let mut missing = Vec::new();
    epoch.abandon_exposure(|rank| missing.push(rank));
    assert_eq!(missing, [1, 2]);
    epoch.abandon_exposure(|_| panic!("there is none any more"));
    epoch.post(&[2]).unwrap();
    assert!(epoch.test_exposure(|rank| rank == 2).unwrap());
}

#[test]
fn ranks_are_checked_before_the_epoch() {
    let epoch = Epoch::new(2, true);
    let status = |result: Result<()>| result.unwrap_err().status();
    assert_eq!(status(epoch.check_access(2)), Status::RMA_RANK);
    assert_eq!(status(epoch.begin_lock(2, lock(NOCHECK), || None).map(|_| ())), Status::RMA_RANK);
    assert_eq!(status(epoch.unlock(u32::MAX).map(|_| ())), Status::RMA_RANK);
    assert_eq!(status(epoch.check_passive(Call::Flush(2), 2)), Status::RMA_RANK);
    assert_eq!(status(epoch.start(&[0, 2])), Status::RMA_RANK);
    assert_eq!(status(epoch.post(&[2])), Status::RMA_RANK);
    assert_eq!(status(epoch.post(&[1, 0, 1])), Status::INVALID_PARAM);
    assert_eq!(snapshot(&epoch), "N..");
    let epoch = reach("A..");
    assert_eq!(status(epoch.check_access(2)), Status::RMA_RANK);
}

#[test]
fn what_is_reported() {
    use SyncType::*;
    let cases = [
        ("N..", [None, None], None),
        ("F..", [Fence, Fence], Fence),
        ("E..", [FenceEpoch, FenceEpoch], FenceEpoch),
        ("St.", [Pscw, None], Pscw),
        ("St.+", [Pscw, Pscw], Pscw),
        ("N..+", [None, Pscw], Pscw),
        ("Lx.", [Lock, None], Lock),
        ("L.n", [None, LockNoCheck], Lock),
        ("Lp.", [None, None], Lock),
        ("Lx.+", [Lock, Pscw], Lock),
        ("A..", [LockAll, LockAll], LockAll),
        ("a..+", [LockAllNoCheck, LockAllNoCheck], LockAllNoCheck),
    ];
    for (state, targets, window) in cases {
        let epoch = reach(state);
        assert_eq!([0, 1].map(|rank| epoch.sync_type(rank)), targets, "{state}");
        assert_eq!(epoch.window_sync_type(), window, "{state}");
    }
}

#[test]
fn only_who_names_targets_pays_for_them() {
    for state in ["N..", "F..", "E..", "A..", "a..", "N..+"] {
        assert!(reach(state).targets.get().is_none(), "{state}");
    }
}

/// Threads race for the first operation after a fence while another one fences: no thread moves the
/// window out of an epoch that it is not in.
#[test]
fn the_first_operation_is_no_race() {
    let (epoch, done) = (&Epoch::new(2, false), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|rank| {
            scope.spawn(move || {
                let mut accepted = 0_u32;
                while !done.load(Ordering::Relaxed) {
                    accepted += u32::from(epoch.check_access(rank).is_ok());
                }
                accepted
            })
        });
        for turn in 0..20_000 {
            epoch.begin_fence(fence(NO_ASSERTION)).unwrap();
            assert_eq!(epoch.now(), access::NONE);
            let given = if turn % 3 == 0 { NOSUCCEED } else { NO_ASSERTION };
            epoch.end_fence(fence(given));
            let now = epoch.now();
            assert!(if given == NOSUCCEED {
                now == access::NONE
            } else {
                now == access::FENCE || now == access::FENCE_EPOCH
            });
        }
        epoch.begin_fence(fence(NO_ASSERTION)).unwrap();
        epoch.end_fence(fence(NO_ASSERTION));
        while epoch.now() != access::FENCE_EPOCH {
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
        assert!(threads.map(|thread| thread.join().unwrap()).iter().sum::<u32>() > 0);
    });
}

#[test]
#[ignore = "measures: see the top of epoch.rs"]
fn figures() {
    let time = |what: &str, work: &dyn Fn()| {
        let best = (0..7).map(|_| {
            let start = std::time::Instant::now();
            (0..1_000_000).for_each(|_| work());
            start.elapsed().as_nanos() as f64 / 1e6
        });
        println!("{what}: {:.2} ns", best.fold(f64::INFINITY, f64::min));
    };
    for state in ["A..", "E..", "Lx.", "St."] {
        let epoch = reach(state);
        time(&format!("put in {state}"), &|| {
            assert!(std::hint::black_box(&epoch).check_access(0).is_ok())
        });
    }
    let epoch = reach("N..");
    time("lock and unlock", &|| {
        assert!(epoch.begin_lock(0, lock(NO_ASSERTION), || Some(LockType::Exclusive)).unwrap());
        std::hint::black_box(epoch.unlock(0).unwrap());
    });
    time("fence", &|| {
        std::hint::black_box(epoch.begin_fence(fence(NO_ASSERTION)).unwrap());
        epoch.end_fence(fence(NO_ASSERTION));
    });
}

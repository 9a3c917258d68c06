//! Compares the tables in the head of `life.rs` with the code.

use super::*;
use std::fmt::Debug;

const AT: u64 = 7;

fn events() -> Vec<LifeEvent> {
    let ending = Ending { deadline: AT, ..Ending::default() };
    let said =
        Said { sent: Sent::UnderWay, answer: Answer::Missing, deadline: AT, unheard_until: AT };
    vec![
        GreetsLater,
        Greets,
        Asks(AT),
        IsReached(AT),
        Meets,
        IsRefused,
        Connects,
        AwaitsHello,
        IsConnected,
        UcpAnswers,
        Drains(Status::TIMED_OUT),
        Closes,
        MovesOn(AT, 1),
        FlushQueues,
        FlushAwaits,
        FlushBegins(false),
        FlushEnds,
        Hurries(AT),
        HurriesBye(AT),
        Forces,
        BreaksOff(ending),
        LetsGo(ending),
        UcpCloses,
        UcpClosed,
        Abandons,
        Ends,
        WorkerEnds,
        Reports,
        Fails(Status::PEER_FAILED),
        RunsOut,
        IsCut(Status::CANCELED),
        Refuses(Status::CLOSED),
        FallsSilent,
        LosesPeer(Status::PEER_FAILED),
        GivesUp,
        ProcessEnds(AT),
        OmitsBye,
        SaysBye(said),
        ByeLeaves,
        ByeFails,
        ByeIsAnswered,
        TakesLeave,
        CourtesyEnds,
        HearsHello,
        HearsBye(true),
        AnswersBye,
    ]
}

/// The name of a state or event, without its contents.
fn name(value: impl Debug) -> String {
    name_in(&format!("{value:?}"))
}

fn name_in(text: &str) -> String {
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn rows() -> Vec<Vec<&'static str>> {
    include_str!("life.rs")
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.trim().trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// Applies each event to each state, and compares the result with the table of this title.
/// `samples`: at least one value of each state, in the order of the columns.
fn check<M: Machine + PartialEq>(title: &str, samples: &[M]) {
    let all = rows();
    let start = all.iter().position(|row| row[0] == title).expect("a table with this title");
    let columns = &all[start][1..];
    let table: Vec<_> = all[start + 2..].iter().take_while(|row| row.len() > 1).collect();
    let known = events();
    for row in &table {
        assert!(known.iter().any(|event| name(event) == row[0]), "{title}: no event {}", row[0]);
    }
    for event in known {
        let row = table.iter().find(|row| row[0] == name(event));
        for (place, column) in columns.iter().enumerate() {
            let expected = row.map_or("=", |row| row[place + 1]);
            let of_column: Vec<_> = samples.iter().filter(|state| name(state) == *column).collect();
            assert!(!of_column.is_empty(), "{title}: no sample of {column}");
            let steps = of_column.iter().map(|state| (**state, state.after(event)));
            let found: Vec<_> = steps.filter_map(|(from, to)| Some((from, to?))).collect();
            let what = format!("{title}: {event:?} in {column}: {found:?}");
            match expected {
                "!" => assert!(found.is_empty(), "{what}"),
                "=" => {
                    assert_eq!(found.len(), of_column.len(), "{what}");
                    assert!(found.iter().all(|(from, to)| from == to), "{what}");
                }
                next => {
                    assert!(!found.is_empty(), "{what}");
                    assert!(found.iter().all(|(_, to)| name(to) == next), "{what}");
                }
            }
        }
    }
}

fn flushes() -> [Flush; 5] {
    use Flush::{Again, Awaited, Done, Queued, UnderWay};
    [Done, Queued, Awaited, UnderWay { again: false }, Again]
}

fn stages() -> Vec<Stage> {
    let flushing = |flush| Stage::Flushing(Flushing { flush, ..Flushing::default() });
    let mut stages =
        vec![Stage::Open, Stage::Draining { status: Status::TIMED_OUT, only_matched: false }];
    stages.extend(flushes().map(flushing));
    stages.push(Stage::Ending(Ending { deadline: AT + 1, ..Ending::default() }));
    stages.extend([Stage::Closed(Remains::default()), Stage::Reported(Remains::default())]);
    stages
}

#[test]
fn each_table_is_what_the_code_does() {
    use Greeting::{Asked, Known, Refused, Unknown, Unspoken};
    check("Greeting", &[Unknown, Unspoken, Asked(AT + 1), Known, Refused]);
    check("Hold", &[Hold::Free, Hold::Connecting, Hold::Unheard]);
    check("Stage", &stages());
    check("Flush", &flushes());
    let failed = Outcome::Failed(Status::TIMED_OUT);
    check("Outcome", &[Outcome::Good, Outcome::Overdue, failed]);
    let lost = Status::CONNECTION_RESET;
    let peers = [Peer::Present, Peer::Silent, Peer::Lost(lost), Peer::GivenUp(lost), Peer::Gone];
    check("Peer", &peers);
    let said =
        Said { sent: Sent::UnderWay, answer: Answer::Missing, deadline: 9, unheard_until: 9 };
    check("Bye", &[Bye::Unsaid, Bye::Omitted, Bye::Said(said)]);
    check("Heard", &[Heard::Nothing, Heard::Hello, Heard::Bye, Heard::ByeToAnswer]);
}

#[test]
fn each_event_is_tried() {
    let source = include_str!("life.rs").split("enum LifeEvent {").nth(1).unwrap();
    let lines = source.lines().take_while(|line| *line != "}").map(str::trim);
    let named = lines.filter(|line| line.starts_with(char::is_alphabetic)).map(name_in);
    assert_eq!(named.collect::<Vec<_>>(), events().iter().map(name).collect::<Vec<_>>());
}

#[test]
fn the_phase_never_goes_back() {
    for stage in stages() {
        for event in events() {
            let next = stage.after(event).unwrap_or(stage);
            assert!(next.phase() >= stage.phase(), "{event:?} of {stage:?}");
        }
    }
}

#[test]
fn what_a_step_keeps_of_a_state() {
    let walk = |from: Stage, events: &[LifeEvent]| {
        events.iter().fold(from, |stage, event| stage.after(*event).unwrap())
    };
    let reset = LifeEvent::Drains(Status::CONNECTION_RESET);
    // The first status is kept, and so is that receives were cancelled.
    let draining = walk(Stage::Open, &[LifeEvent::Drains(Status::IO_ERROR), reset]);
    assert_eq!(draining, Stage::Draining { status: Status::IO_ERROR, only_matched: true });
    // A flush that started with sends in flight is followed by another one.
    let begun = [LifeEvent::Closes, LifeEvent::FlushBegins(true), LifeEvent::FlushEnds];
    let Stage::Flushing(again) = walk(Stage::Open, &begun) else { panic!("flushing") };
    assert!(again.flush == Flush::Again && again.has_flushed() && !again.forced);
    // What was torn or not returned stays so.
    let torn = Ending { left: Remains { torn: true, abandoned: false }, ..Ending::default() };
    let ends = [LifeEvent::BreaksOff(torn), LifeEvent::Abandons, LifeEvent::Ends];
    let end = walk(Stage::Open, &[&ends[..], &[LifeEvent::Reports]].concat());
    assert_eq!(end, Stage::Reported(Remains { torn: true, abandoned: true }));
    // The earlier of two deadlines counts.
    let hurried = [LifeEvent::Closes, LifeEvent::MovesOn(9, 2), LifeEvent::Hurries(AT)];
    let Stage::Flushing(hurried) = walk(Stage::Open, &hurried) else { panic!("flushing") };
    assert_eq!((hurried.deadline, hurried.transfers), (AT, 2));
}

//! Holds back log lines that repeat: of one place in the code only so many are written in a second,
//! and the others are counted.
//!
//! Its memory is a fixed table, and one text for each place that is held back at the moment. Places
//! that share an entry push each other out, which tells of what was held back, and begins anew.
#![deny(unsafe_code)]

use crate::engine::base::log::Component;

/// Where a line comes from: the address of the file's name, and the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) file: usize,
    pub(crate) line: u32,
}

/// Lines that were held back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) level: i32,
    pub(crate) component: Component,
    pub(crate) count: u64,
    /// The first one of them.
    pub(crate) text: String,
}

/// What happens to a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Write,
    /// The first one that is held back: its text is wanted.
    HoldFirst,
    Hold,
}

const ENTRIES: usize = 128;
const SECOND: u64 = 1_000_000_000;

struct Entry {
    place: Place,
    level: i32,
    component: Component,
    /// When its second began.
    since: u64,
    written: u32,
    held: u64,
    text: String,
}

impl Entry {
    const UNUSED: Entry = Entry {
        place: Place { file: 0, line: 0 },
        level: 0,
        component: Component::Log,
        since: 0,
        written: 0,
        held: 0,
        text: String::new(),
    };

    fn take_report(&mut self) -> Option<Report> {
        let count = std::mem::take(&mut self.held);
        let text = std::mem::take(&mut self.text);
        let (level, component) = (self.level, self.component);
        (count > 0).then_some(Report { level, component, count, text })
    }
}

/// See the head of this file.
pub(crate) struct Repeats {
    entries: [Entry; ENTRIES],
    /// Lines were held back since all entries were last looked at.
    holds: bool,
}

impl Repeats {
    pub(crate) const fn new() -> Self {
        Repeats { entries: [const { Entry::UNUSED }; ENTRIES], holds: false }
    }

    fn entry(&mut self, place: Place) -> &mut Entry {
        let mixed = (place.file ^ (place.line as usize) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.entries[mixed >> 32 & (ENTRIES - 1)]
    }

    /// A line is due, `now` in nanoseconds. Adds what there is to tell first to `reports`.
    pub(crate) fn judge(
        &mut self,
        place: Place,
        level: i32,
        component: Component,
        now: u64,
        most: u32,
        reports: &mut Vec<Report>,
    ) -> Verdict {
        let is_over = |entry: &Entry| now.saturating_sub(entry.since) >= SECOND;
        if self.holds {
            let over = self.entries.iter_mut().filter(|entry| is_over(entry));
            reports.extend(over.filter_map(Entry::take_report));
            self.holds = self.entries.iter().any(|entry| entry.held > 0);
        }
        let entry = self.entry(place);
        if entry.place != place || is_over(entry) {
            reports.extend(entry.take_report());
            *entry = Entry { place, level, component, since: now, ..Entry::UNUSED };
        }
        if entry.written < most {
            entry.written += 1;
            return Verdict::Write;
        }
        entry.held += 1;
        let is_first = entry.held == 1;
        self.holds = true;
        if is_first {
            Verdict::HoldFirst
        } else {
            Verdict::Hold
        }
    }

    /// The text of the first line that is held back.
    pub(crate) fn note_text(&mut self, place: Place, text: String) {
        let entry = self.entry(place);
        if entry.place == place && entry.held > 0 {
            entry.text = text;
        }
    }

    /// Everything that was held back.
    pub(crate) fn take_all(&mut self) -> Vec<Report> {
        self.holds = false;
        self.entries.iter_mut().filter_map(Entry::take_report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::base::log::{DEBUG, INFO};

    const MOST: u32 = 3;

    fn place(line: u32) -> Place {
        Place { file: 0x1000, line }
    }

    /// A line from this place, with its text noted where it is wanted.
    fn line(repeats: &mut Repeats, at: u32, now: u64) -> (Verdict, Vec<Report>) {
        let mut reports = Vec::new();
        let verdict = repeats.judge(place(at), INFO, Component::Am, now, MOST, &mut reports);
        if verdict == Verdict::HoldFirst {
            repeats.note_text(place(at), format!("line {at} at {now}"));
        }
        (verdict, reports)
    }

    fn report(count: u64, text: &str) -> Report {
        Report { level: INFO, component: Component::Am, count, text: text.to_owned() }
    }

    #[test]
    fn a_second_has_so_many_lines_and_the_next_one_tells() {
        let mut repeats = Repeats::new();
        let verdicts: Vec<_> = (10..18).map(|now| line(&mut repeats, 1, now)).collect();
        let count = |wanted| verdicts.iter().filter(|(found, _)| *found == wanted).count();
        assert_eq!((count(Verdict::Write), count(Verdict::HoldFirst)), (MOST as usize, 1));
        assert!(verdicts.iter().all(|(_, reports)| reports.is_empty()));
        // Just before the second is over, and then.
        assert_eq!(line(&mut repeats, 1, SECOND + 9), (Verdict::Hold, vec![]));
        let told = vec![report(6, "line 1 at 13")];
        assert_eq!(line(&mut repeats, 1, SECOND + 10), (Verdict::Write, told));
        assert_eq!(line(&mut repeats, 1, SECOND + 11), (Verdict::Write, vec![]));
        assert!(repeats.take_all().is_empty());
    }

    #[test]
    fn any_line_tells_of_others_whose_second_is_over() {
        let mut repeats = Repeats::new();
        (0..5).for_each(|_| drop(line(&mut repeats, 1, 100)));
        assert_eq!(line(&mut repeats, 2, 200), (Verdict::Write, vec![]));
        let told = vec![report(2, "line 1 at 100")];
        assert_eq!(line(&mut repeats, 2, SECOND + 100), (Verdict::Write, told));
        assert_eq!(line(&mut repeats, 3, 2 * SECOND + 200), (Verdict::Write, vec![]));
    }

    #[test]
    fn the_end_tells_of_all() {
        let mut repeats = Repeats::new();
        for at in [1, 2] {
            (0..4 + u64::from(at)).for_each(|now| drop(line(&mut repeats, at, now)));
        }
        let mut told = repeats.take_all();
        told.sort_by_key(|report| report.count);
        assert_eq!(told, [report(2, "line 1 at 3"), report(3, "line 2 at 3")]);
        assert!(repeats.take_all().is_empty());
        assert_eq!(line(&mut repeats, 1, 20), (Verdict::HoldFirst, vec![]));
    }

    /// Nothing is lost, however many places there are: each line was written or is reported.
    #[test]
    fn places_that_share_an_entry_lose_no_line() {
        let mut repeats = Repeats::new();
        let (mut written, mut told) = (0, 0);
        let places = 20 * ENTRIES as u32;
        for now in 0..10 {
            for at in 0..places {
                let (verdict, reports) = line(&mut repeats, at / 4, now);
                written += u64::from(verdict == Verdict::Write);
                told += reports.iter().map(|report| report.count).sum::<u64>();
            }
        }
        told += repeats.take_all().iter().map(|report| report.count).sum::<u64>();
        assert_eq!(written + told, 10 * u64::from(places));
        assert!(told > 0);
    }

    #[test]
    fn a_text_of_a_place_that_was_pushed_out_is_dropped() {
        let mut repeats = Repeats::new();
        repeats.note_text(place(9), "late".to_owned());
        let mut reports = Vec::new();
        let most = 0;
        repeats.judge(place(9), DEBUG, Component::Hub, 1, most, &mut reports);
        let told = repeats.take_all();
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].level, told[0].component), (DEBUG, Component::Hub));
        assert_eq!(told[0].text, "");
    }
}

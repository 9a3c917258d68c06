//! What the log is to contain, as the environment says: the variable UCXX_RS_LOG, or
//! UCXX_RS_LOG_LEVEL, its older name, which takes the same text.
//!
//! `UCXX_RS_LOG=debug,am=trace,repeats=100`: entries with a comma between them. A level alone is
//! for all components that are not named, `component=level` for one. `repeats` is how many lines of
//! one place in the code are written in a second, or `all`.
#![deny(unsafe_code)]

use crate::engine::base::log::{Component, LEVEL_NAMES};

/// The parsed text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The variable that asks for lines on stderr is set.
    pub(crate) asks_for_output: bool,
    level: Option<i32>,
    levels: [Option<i32>; Component::ALL.len()],
    pub(crate) most_in_a_second: u32,
    /// What cannot be understood, as messages.
    pub(crate) mistakes: Vec<String>,
}

impl Filter {
    /// The limit if the variable has none.
    pub(crate) const MOST_IN_A_SECOND: u32 = 20;

    pub(crate) fn from_environment() -> Filter {
        let read = |name: &str| {
            let text = std::env::var_os(name)?.to_string_lossy().into_owned();
            (!text.trim().is_empty()).then(|| Filter::parse(name, &text))
        };
        match read("UCXX_RS_LOG") {
            Some(filter) => Filter { asks_for_output: true, ..filter },
            None => read("UCXX_RS_LOG_LEVEL").unwrap_or_else(|| Filter::parse("", "")),
        }
    }

    /// The level of this component. `otherwise`: the level where the text does not say.
    pub(crate) fn level(&self, component: Component, otherwise: i32) -> i32 {
        self.levels[component as usize].or(self.level).unwrap_or(otherwise)
    }

    fn parse(variable: &str, text: &str) -> Filter {
        let mut filter = Filter {
            asks_for_output: false,
            level: None,
            levels: [None; Component::ALL.len()],
            most_in_a_second: Self::MOST_IN_A_SECOND,
            mistakes: Vec::new(),
        };
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            if let Err(why) = filter.add(&entry.to_ascii_lowercase()) {
                filter.mistakes.push(format!("{variable}: \"{entry}\" is ignored: {why}"));
            }
        }
        filter
    }

    fn add(&mut self, entry: &str) -> Result<(), String> {
        match entry.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
            None => self.level = Some(level(entry)?),
            Some(("repeats", "all")) => self.most_in_a_second = u32::MAX,
            Some(("repeats", number)) => {
                self.most_in_a_second = match number.parse() {
                    Ok(number) if number > 0 => number,
                    _ => return Err("repeats is a number from 1, or all".to_owned()),
                }
            }
            Some((name, value)) => {
                let named = |component: &&Component| component.name().to_str() == Ok(name);
                let Some(component) = Component::ALL.iter().find(named) else {
                    let names = Component::ALL.iter().map(|one| one.name().to_string_lossy());
                    let names = names.collect::<Vec<_>>().join(", ");
                    return Err(format!("the components are {names}"));
                };
                self.levels[*component as usize] = Some(level(value)?);
            }
        }
        Ok(())
    }
}

/// A name or a number.
fn level(text: &str) -> Result<i32, String> {
    let found = LEVEL_NAMES.iter().position(|name| *name == text);
    let number = || text.parse().ok().filter(|number| *number < LEVEL_NAMES.len());
    match found.or_else(number) {
        Some(level) => Ok(level as i32),
        None => Err(format!("the levels are {}", LEVEL_NAMES.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::base::log::{DEBUG, ERROR, OFF, TRACE, WARN};

    fn parse(text: &str) -> Filter {
        Filter::parse("UCXX_RS_LOG", text)
    }

    #[test]
    fn entries_are_for_all_or_for_one_component() {
        let filter = parse("debug, AM=trace,tag = off,,ucx=1,");
        assert!(filter.mistakes.is_empty(), "{:?}", filter.mistakes);
        let level = |component| filter.level(component, WARN);
        assert_eq!(level(Component::Worker), DEBUG);
        assert_eq!(level(Component::Am), TRACE);
        assert_eq!(level(Component::Tag), OFF);
        assert_eq!(level(Component::Ucx), ERROR);
        assert_eq!(filter.most_in_a_second, Filter::MOST_IN_A_SECOND);
        let filter = parse("am=trace,repeats=7");
        assert_eq!(filter.level(Component::Worker, DEBUG), DEBUG);
        assert_eq!((filter.level(Component::Am, WARN), filter.most_in_a_second), (TRACE, 7));
        assert_eq!(parse("repeats=all").most_in_a_second, u32::MAX);
        for (number, name) in LEVEL_NAMES.iter().enumerate() {
            assert_eq!(parse(name).level(Component::Am, WARN), number as i32);
            assert_eq!(parse(&number.to_string()), parse(name));
        }
    }

    #[test]
    fn mistakes_are_named_and_the_rest_holds() {
        for (text, named) in [
            ("verbose", "\"verbose\" is ignored: the levels are off, error"),
            ("6", "the levels are"),
            ("-1", "the levels are"),
            ("am", "the levels are"),
            ("Am=loud", "\"Am=loud\" is ignored: the levels are"),
            ("am=", "the levels are"),
            ("ma=debug", "the components are worker, endpoint"),
            ("=debug", "the components are"),
            ("repeats=0", "repeats is a number"),
            ("repeats=-1", "repeats is a number"),
            ("repeats=many", "repeats is a number"),
        ] {
            let filter = parse(&format!("tag=error,{text},debug"));
            assert_eq!(filter.mistakes.len(), 1, "{text}");
            let mistake = &filter.mistakes[0];
            assert!(mistake.starts_with("UCXX_RS_LOG: ") && mistake.contains(named), "{mistake}");
            let mistakes = filter.mistakes.clone();
            assert_eq!(filter, Filter { mistakes, ..parse("tag=error,debug") }, "{text}");
        }
        assert_eq!(parse("x,debug,y").mistakes.len(), 2);
    }
}

//! The rules for a call for several links at once: its allowed results, and when it can never be
//! served. The rules for one link are in `rules`.

use crate::engine::base::status::Status;
use crate::engine::hub::model::rules::{Ask, Model};
use crate::engine::hub::records::Role;

impl Model {
    /// Like `lease`, for several links at once.
    pub(crate) fn lease_many(&self, asks: &[Ask]) -> Together {
        let mut then = self.clone();
        let (mut chunks, mut refusals, mut given) = (Vec::new(), Vec::new(), Vec::new());
        for ask in asks {
            let found = then.lease(ask);
            // A refusal for now may hide a final one.
            let is_final = refusals.iter().any(|refusal| *refusal != Some(Status::NO_RESOURCE));
            match found {
                Err(refusal) if !is_final => refusals.push(Some(refusal)),
                Ok(chunk) if refusals.is_empty() => {
                    chunks.push(chunk);
                    let here = then
                        .chunk(chunk)
                        .and_then(|chunk| chunk.places.iter().find(|place| place.0 == ask.pool));
                    let data = here.map_or(usize::MAX - chunks.len(), |place| place.1);
                    if ask.role == Role::Produce && then.free(ask.pool) == 0 {
                        let place = then.can_give(ask.pool, None).expect("it was to be served");
                        then.queue[place].places.retain(|place| place.0 != ask.pool);
                        given.push(ask.pool);
                    }
                    then.take(*ask, chunk, data);
                }
                _ => {}
            }
        }
        if refusals.is_empty() {
            return Together { refusals: vec![None], chunks, given };
        }
        refusals.retain(|refusal| *refusal != Some(Status::NO_RESOURCE));
        match self.find_starvation(asks) {
            Some((status, is_certain)) => {
                refusals.push(Some(status));
                if !is_certain {
                    refusals.push(Some(Status::NO_RESOURCE));
                }
            }
            None if refusals.is_empty() => refusals.push(Some(Status::NO_RESOURCE)),
            None => {}
        }
        // Which replicas are reclaimed is the hub's choice, and another choice may leave too few
        // envelopes elsewhere.
        if given.iter().any(|pool| *pool != given[0]) {
            refusals.push(Some(Status::NO_RESOURCE));
        }
        Together { refusals, chunks, given }
    }

    /// The status if these can never be served at once, and whether the hub has to report it.
    fn find_starvation(&self, asks: &[Ask]) -> Option<(Status, bool)> {
        let of = |role: Role| asks.iter().filter(move |ask| ask.role == role);
        let modifies = of(Role::Modify).next();
        if let Some(one) = modifies {
            let elsewhere = of(Role::Modify).any(|other| other.pool != one.pool);
            if elsewhere || of(Role::Peek).any(|other| other.pool == one.pool) {
                return Some((Status::INVALID_PARAM, true));
            }
            let consume = of(Role::Consume).fold(0, |all, ask| all | 1u64 << ask.group);
            if consume != 0 && self.everybody() & !consume == 0 {
                return Some((Status::STARVED, true));
            }
        }
        let chunks = |among: &dyn Fn(&Ask) -> bool| {
            let of_group = |group: u32| {
                of(Role::Consume).filter(|ask| ask.group == group && among(ask)).count()
            };
            let consumed = of(Role::Consume).map(|ask| of_group(ask.group)).max().unwrap_or(0);
            let top = usize::from(of(Role::Peek).chain(of(Role::Modify)).any(among));
            if modifies.is_some() {
                consumed + top
            } else {
                consumed.max(top)
            }
        };
        let produced = of(Role::Produce).count();
        let too_few = (0..self.totals.len()).any(|pool| {
            let produced = of(Role::Produce).filter(|ask| ask.pool == pool).count();
            produced + chunks(&|ask| ask.pool == pool) > self.totals[pool]
        });
        let room = produced as u64 * self.size;
        if too_few
            || (produced + chunks(&|_| true)) as u64 > self.max_chunks
            || room > self.max_bytes
        {
            return Some((Status::STARVED, true));
        }
        // The bytes of existing chunks count, but only where that is certain.
        let is_heavy = produced > 0
            && produced < asks.len()
            && room.saturating_add(self.bytes()) > self.max_bytes;
        is_heavy.then_some((Status::STARVED, false))
    }
}

/// Allowed results of a call for several links: `None` if it is served, and then with which chunks.
#[derive(Debug)]
pub(crate) struct Together {
    pub(crate) refusals: Vec<Option<Status>>,
    pub(crate) chunks: Vec<Option<u64>>,
    /// Pools where an envelope has to be reclaimed for it.
    pub(crate) given: Vec<usize>,
}

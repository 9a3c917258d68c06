//! Checks after random calls on a hub: where its chunks are, and its statistics, have to match the
//! rules.

use crate::engine::base::status::Status;
use crate::engine::hub::model::call_tests::World;
use crate::engine::hub::model::rules::Place;
use crate::engine::hub::records::{HubStats, Role};
use crate::engine::hub::state::NONE;

impl World {
    pub(super) fn check_words(&self, data: usize, metadata: *const u8, word: u64, length: u64) {
        // SAFETY: leased to us, or the hub's, which is at rest.
        unsafe {
            assert_eq!(metadata.cast::<u64>().read(), word, "stale");
            let bytes = std::slice::from_raw_parts(data as *const u8, length as usize);
            assert!(
                bytes.iter().all(|byte| *byte == word as u8),
                "the metadata of one, the data of another"
            );
        }
    }

    /// Checks the answers about the whole hub.
    pub(super) fn ask_about(&mut self) {
        let model = &self.model;
        assert_eq!(self.hub.length(), model.queue.len());
        assert_eq!(self.hub.drain(0).unwrap(), model.queue.is_empty() && model.producing() == 0);
        let verdict = self.hub.validate().map_err(|error| error.status());
        assert_eq!(
            verdict,
            if model.is_sound() { Ok(()) } else { Err(Status::STARVED) },
            "of the whole"
        );
    }

    /// Checks where the chunks are, unless that would end lock-free mode.
    pub(super) fn see(&mut self) {
        let looks = self.plain_for == 0 || self.hub.state.lock_either().is_in_tables();
        if !looks {
            return;
        }
        let state = self.hub.state.lock();
        let mut chunks = Vec::new();
        let mut place = state.head;
        while place != NONE {
            let chunk = &state.chunks[place as usize];
            let mut replicas: Vec<(Place, *const u8, u64)> = Vec::new();
            let mut number = chunk.first;
            while number != NONE {
                let envelope = &state.envelopes[number as usize];
                let span = envelope.block.span();
                replicas.push((
                    (envelope.pool as usize, span.data as usize),
                    span.metadata,
                    envelope.length,
                ));
                number = envelope.next;
            }
            chunks.push(replicas);
            place = chunk.next;
        }
        let free: Vec<_> = state.pools.iter().map(|pool| pool.free_count as usize).collect();
        drop(state);
        let places = chunks
            .iter()
            .map(|replicas| replicas.iter().map(|replica| replica.0).collect())
            .collect();
        let copies = self.model.see(places, &self.step);
        if let Some((top, pool)) = self.stuck {
            let first = &self.model.queue[0];
            assert!(
                first.id == top && first.places.iter().all(|place| place.0 != pool),
                "it was to stand still"
            );
        }
        for (chunk, replicas) in self.model.queue.iter().zip(&chunks) {
            for (place, metadata, length) in replicas {
                let is_written = self
                    .model
                    .held
                    .iter()
                    .any(|held| held.data == place.1 && held.ask.role == Role::Modify);
                if !is_written {
                    assert_eq!(*length, chunk.length);
                    self.check_words(place.1, *metadata, chunk.word, *length);
                }
            }
        }
        let model = &self.model;
        assert_eq!(
            free,
            (0..self.pools.len()).map(|pool| model.free(pool)).collect::<Vec<_>>(),
            "free ones of each pool"
        );
        let stats = self.hub.stats().unwrap();
        let mut leased: Vec<_> = model.held.iter().map(|held| held.data).collect();
        leased.sort_unstable();
        leased.dedup();
        let copied = stats.transfers - self.before.transfers;
        assert!(copied >= copies, "{copies} replicas, and {copied} copies");
        let due = HubStats {
            chunks_produced: model.produced,
            chunks_consumed: model.consumed,
            transfers: stats.transfers,
            transfer_bytes: stats.transfer_bytes,
            free_envelopes: free.iter().sum::<usize>() as u64,
            leased_envelopes: leased.len() as u64,
            queued_chunks: model.queue.len() as u64,
            trashed_envelopes: model.trashed().len() as u64,
            queue_high_water: model.most as u64,
            ..HubStats::default()
        };
        assert_eq!(stats, due);
        self.before = stats;
    }
}

//! Loads the events of a session.

use super::{
    super::{
        keys::{Key, KeyRange, SessionId},
        store::{ReadStore, StorageError},
    },
    event::Event,
    event_batch,
    payload::{Assembly, Payload},
    record::{damaged, for_each_entry},
};

/// Loads the first `count` events of a session, encoded.
///
/// # Errors
/// [`StorageError::Damaged`] if an event is missing or damaged.
pub fn load_event_payloads(
    read: &impl ReadStore,
    id: SessionId,
    count: u64,
) -> Result<Vec<Payload>, StorageError> {
    Ok(load_event_batches(read, id, count)?.0)
}

/// Loads the first `count` events of a session, encoded. Also returns the number of the first event
/// in the last batch, and true if that batch has further events.
///
/// # Errors
/// As [`load_event_payloads`].
pub fn load_event_batches(
    read: &impl ReadStore,
    id: SessionId,
    count: u64,
) -> Result<(Vec<Payload>, u64, bool), StorageError> {
    let mut range = KeyRange::events_from(id, 0);
    range.end = Key::event(id, count, 0);
    let mut payloads: Vec<Payload> = Vec::new();
    let mut assembly = Assembly::default();
    let mut first = 0;
    for_each_entry(read, &range, |key, value| {
        let (seq, part) = key
            .event_part()
            .ok_or_else(|| damaged(key, &"not an event's key"))?;
        if assembly.is_empty() {
            first = payloads.len() as u64;
        }
        if seq != first {
            let missing = format!("event {} is missing before it", payloads.len());
            return Err(damaged(key, &missing));
        }
        if let Some(batch) = assembly.push(key, part, &value)? {
            payloads.extend(event_batch::decode(&batch).map_err(|damage| damaged(key, &damage))?);
        }
        Ok(())
    })?;
    let found = payloads.len() as u64;
    if found < count || !assembly.is_empty() {
        let missing = Key::event(id, found, 0);
        return Err(damaged(
            &missing,
            &format!("the session should have {count} events"),
        ));
    }
    payloads.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    Ok((payloads, first, found > count))
}

/// Loads the first `count` events of a session.
///
/// # Errors
/// [`StorageError::Damaged`] if an event is missing or damaged.
pub fn load_events(
    read: &impl ReadStore,
    id: SessionId,
    count: u64,
) -> Result<Vec<Event>, StorageError> {
    let payloads = load_event_payloads(read, id, count)?;
    let decoded = payloads.iter().enumerate().map(|(seq, payload)| {
        Event::decode(payload).map_err(|damage| damaged(&Key::event(id, seq as u64, 0), &damage))
    });
    decoded.collect()
}

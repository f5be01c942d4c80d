//! Verification of one session: events, response, parents and index entries.

use super::{Report, load_header};
use crate::session::{
    format::{
        event::Event,
        hash_chain,
        record::{IndexEntry, ResponseMeta, SessionHeader, SessionState, load},
        session_events::load_event_batches,
    },
    keys::{EdgeKind, Key, KeyRange, SessionId, Space},
    log::stored_body,
    ops::lineage,
    store::{ReadStore, StorageError},
};

/// Checks a session that GC is not erasing.
pub(super) fn check(
    read: &impl ReadStore,
    id: SessionId,
    header: &SessionHeader,
    report: &mut Report,
) {
    let key = Key::header(id);
    check_events(read, id, header, report);
    let related = check_relations(read, id, header, report);
    report.take(&key, related);
    let checked = check_state(read, id, header, report);
    report.take(&key, checked);
    if header.flat {
        check_flattened_prefix(read, id, header, report);
    }
}

fn check_events(read: &impl ReadStore, id: SessionId, header: &SessionHeader, report: &mut Report) {
    let key = Key::header(id);
    let loaded = load_event_batches(read, id, header.events);
    let Some((payloads, _, more)) = report.take(&key, loaded) else {
        return;
    };
    report.check(!more, &key, "there are more events than the header states");
    let whole = hash_chain::over(&payloads) == header.chain;
    report.check(whole, &key, "the hash chain over its events does not match");
    let decoded: Result<Vec<_>, _> = payloads.iter().map(Event::decode).collect();
    let Some(events) = report.take(&key, decoded) else {
        return;
    };
    let tokens: u64 = events.iter().map(Event::token_count).sum();
    report.check(
        tokens == header.tokens,
        &key,
        "the number of its tokens does not match",
    );
    let opened =
        matches!(events.first(), Some(Event::Opened(opened)) if opened.fork == header.fork);
    report.check(opened, &key, "the first event is not its Opened event");
}

fn check_relations(
    read: &impl ReadStore,
    id: SessionId,
    header: &SessionHeader,
    report: &mut Report,
) -> Result<(), StorageError> {
    let key = Key::header(id);
    if let Some(point) = header.fork {
        let parent = load_header(read, point.parent)?;
        let is_there = parent.is_some_and(|parent| {
            parent.events >= point.events && parent.depth + 1 == header.depth
        });
        report.check(
            is_there,
            &key,
            format!(
                "the session that it forks, {}, is missing or too short",
                point.parent
            ),
        );
        let kind = match header.continues {
            Some(continued) if continued == point.parent => EdgeKind::Continues,
            _ => EdgeKind::Shares,
        };
        let edge = read.get(&Key::edge(point.parent, kind, id))?;
        report.check(
            edge.is_some(),
            &key,
            "the edge from the session that it forks is missing",
        );
    } else {
        report.check(
            header.depth == 0,
            &key,
            "a root session has a depth above 0",
        );
    }
    if let Some(parent) = header.continues {
        let continued = load_header(read, parent)?;
        report.check(
            continued.is_some_and(|header| header.response.is_some()),
            &key,
            format!("the response that it continues, {parent}, is missing"),
        );
        let edge = read.get(&Key::edge(parent, EdgeKind::Continues, id))?;
        report.check(
            edge.is_some(),
            &key,
            "the edge from the response that it continues is missing",
        );
    }
    Ok(())
}

fn check_state(
    read: &impl ReadStore,
    id: SessionId,
    header: &SessionHeader,
    report: &mut Report,
) -> Result<(), StorageError> {
    let key = Key::header(id);
    let record = ResponseMeta::of(header);
    let any = |kind| {
        read.scan(&KeyRange::edges(id, kind), 1)
            .map(|edges| !edges.is_empty())
    };
    match header.state {
        SessionState::Open => {}
        SessionState::Unstored => {
            check_index_entries(read, id, header, &[Space::UnstoredIndex], report)?;
        }
        SessionState::Stored if header.owner.is_none() => {
            check_index_entries(read, id, header, &[Space::ResponseIndex], report)?;
        }
        SessionState::Stored => check_index_entries(
            read,
            id,
            header,
            &[Space::ResponseIndex, Space::OwnerIndex],
            report,
        )?,
        SessionState::Hidden => report.check(
            any(EdgeKind::Continues)?,
            &key,
            "a hidden session without continuations",
        ),
        SessionState::Trunk => report.check(any(EdgeKind::Shares)?, &key, "a trunk without forks"),
    }
    match (record, header.state) {
        (Some(record), SessionState::Stored | SessionState::Hidden) => {
            let body = stored_body(read, id, header.clone());
            let body = report.take(&key, body);
            let len = body.map(|body| body.len() as u64);
            report.check(
                len == Some(record.body_len_bytes),
                &key,
                "the length of its body does not match",
            );
            let ends = record.end_events <= header.events;
            report.check(ends, &key, "its response ends beyond its events");
        }
        (None, SessionState::Stored | SessionState::Hidden) => {
            report.add(&key, "its response is missing");
        }
        (Some(_), _) => report.add(&key, "it has a response that its state does not allow"),
        _ => {}
    }
    Ok(())
}

fn check_index_entries(
    read: &impl ReadStore,
    id: SessionId,
    header: &SessionHeader,
    spaces: &[Space],
    report: &mut Report,
) -> Result<(), StorageError> {
    let key = Key::header(id);
    let Some(ordinal) = header.ordinal else {
        report.add(&key, "it has no ordinal");
        return Ok(());
    };
    for space in spaces {
        let index_key = match space {
            Space::ResponseIndex => Key::response_index(ordinal),
            Space::OwnerIndex => {
                Key::owner_index(header.owner.as_deref().unwrap_or_default(), ordinal)
            }
            _ => Key::unstored_index(ordinal),
        };
        let is_there =
            load::<IndexEntry>(read, &index_key)?.is_some_and(|entry| entry.session == id);
        report.check(
            is_there,
            &key,
            format!("the index entry {index_key:?} is missing"),
        );
    }
    Ok(())
}

/// Checks that the flattened prefix equals the tokens of the ancestors it covers.
fn check_flattened_prefix(
    read: &impl ReadStore,
    id: SessionId,
    header: &SessionHeader,
    report: &mut Report,
) {
    let key = Key::flattened_prefix(id, 0);
    let Some(point) = header.fork else {
        return report.add(&key, "a root session has a flattened prefix");
    };
    let loaded = lineage::load_flattened_prefix(read, id);
    let Some(flat) = report.take(&key, loaded) else {
        return;
    };
    let Some(base_depth) = lineage::flattened_base_depth(header.depth) else {
        return report.add(&key, "no flattened prefix is expected at this depth");
    };
    let lineage = lineage::lineage(read, point, base_depth);
    let Some(lineage) = report.take(&key, lineage) else {
        return;
    };
    let based = lineage
        .segments
        .last()
        .is_some_and(|segment| segment.oldest == flat.base);
    report.check(
        based && lineage.tokens() == flat.tokens,
        &key,
        "the flattened prefix differs from the ancestors' tokens",
    );
}

//! One session: its events, its response, and what it says of others.

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

/// Checks a session that is not being erased.
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
    report.check(!more, &key, "it has more events than it should");
    let whole = hash_chain::over(&payloads) == header.chain;
    report.check(whole, &key, "the chain over its events is broken");
    let decoded: Result<Vec<_>, _> = payloads.iter().map(Event::decode).collect();
    let Some(events) = report.take(&key, decoded) else {
        return;
    };
    let tokens: u64 = events.iter().map(Event::token_count).sum();
    report.check(
        tokens == header.tokens,
        &key,
        "the number of its tokens is wrong",
    );
    let opened =
        matches!(events.first(), Some(Event::Opened(opened)) if opened.fork == header.fork);
    report.check(opened, &key, "it does not begin with its opening");
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
            format!("the session that it forks, {}, lacks", point.parent),
        );
        let kind = match header.continues {
            Some(continued) if continued == point.parent => EdgeKind::Continues,
            _ => EdgeKind::Shares,
        };
        let edge = read.get(&Key::edge(point.parent, kind, id))?;
        report.check(
            edge.is_some(),
            &key,
            "is_there is no edge from the session that it forks",
        );
    } else {
        report.check(
            header.depth == 0,
            &key,
            "a session that forks none has a depth",
        );
    }
    if let Some(parent) = header.continues {
        let continued = load_header(read, parent)?;
        report.check(
            continued.is_some_and(|header| header.response.is_some()),
            &key,
            format!("the response that it continues, {parent}, lacks"),
        );
        let edge = read.get(&Key::edge(parent, EdgeKind::Continues, id))?;
        report.check(
            edge.is_some(),
            &key,
            "is_there is no edge from the response that it continues",
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
            check_index_entries(read, id, header, &[Space::UnstoredIndex], report)?
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
        SessionState::Hidden => report.check(any(EdgeKind::Continues)?, &key, "nothing needs it"),
        SessionState::Trunk => report.check(any(EdgeKind::Shares)?, &key, "nothing shares it"),
    }
    match (record, header.state) {
        (Some(record), SessionState::Stored | SessionState::Hidden) => {
            let body = stored_body(read, id, header.clone());
            let body = report.take(&key, body);
            let len = body.map(|body| body.len() as u64);
            report.check(
                len == Some(record.body_len_bytes),
                &key,
                "its body's length is wrong",
            );
            let ends = record.end_events <= header.events;
            report.check(ends, &key, "its response has more events than it");
        }
        (None, SessionState::Stored | SessionState::Hidden) => {
            report.add(&key, "its response lacks")
        }
        (Some(_), _) => report.add(&key, "it has a response although it stored none"),
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
        report.add(&key, "it has no place in the log");
        return Ok(());
    };
    for space in spaces {
        let place = match space {
            Space::ResponseIndex => Key::response_index(ordinal),
            Space::OwnerIndex => {
                Key::owner_index(header.owner.as_deref().unwrap_or_default(), ordinal)
            }
            _ => Key::unstored_index(ordinal),
        };
        let is_there = load::<IndexEntry>(read, &place)?.is_some_and(|place| place.session == id);
        report.check(is_there, &key, format!("it does not stand at {place:?}"));
    }
    Ok(())
}

/// The flattened tokens must be those of the ancestors that they stand for.
fn check_flattened_prefix(
    read: &impl ReadStore,
    id: SessionId,
    header: &SessionHeader,
    report: &mut Report,
) {
    let key = Key::flattened_prefix(id, 0);
    let Some(point) = header.fork else {
        return report.add(&key, "a root has no ancestors");
    };
    let loaded = lineage::load_flattened_prefix(read, id);
    let Some(flat) = report.take(&key, loaded) else {
        return;
    };
    let Some(base_depth) = lineage::flattened_base_depth(header.depth) else {
        return report.add(&key, "no flattened tokens belong here");
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
        "they are not the ancestors' tokens",
    );
}

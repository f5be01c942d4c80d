//! One session: its events, its response, and what it says of others.

use super::{Report, head_of};
use crate::session::{
    format::{
        event::Event,
        hash_chain,
        record::{IndexEntry, ResponseMeta, SessionHeader, SessionState, load},
        session_events::load_packs,
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
    head: &SessionHeader,
    report: &mut Report,
) {
    let key = Key::header(id);
    check_events(read, id, head, report);
    let related = check_relations(read, id, head, report);
    report.take(&key, related);
    let placed = check_state(read, id, head, report);
    report.take(&key, placed);
    if head.flat {
        check_flat(read, id, head, report);
    }
}

fn check_events(read: &impl ReadStore, id: SessionId, head: &SessionHeader, report: &mut Report) {
    let key = Key::header(id);
    let loaded = load_packs(read, id, head.events);
    let Some((payloads, _, more)) = report.take(&key, loaded) else {
        return;
    };
    report.check(!more, &key, "it has more events than it should");
    let whole = hash_chain::over(&payloads) == head.chain;
    report.check(whole, &key, "the chain over its events is broken");
    let decoded: Result<Vec<_>, _> = payloads.iter().map(Event::decode).collect();
    let Some(events) = report.take(&key, decoded) else {
        return;
    };
    let tokens: u64 = events.iter().map(Event::token_count).sum();
    report.check(
        tokens == head.tokens,
        &key,
        "the number of its tokens is wrong",
    );
    let opened = matches!(events.first(), Some(Event::Opened(opened)) if opened.fork == head.fork);
    report.check(opened, &key, "it does not begin with its opening");
}

fn check_relations(
    read: &impl ReadStore,
    id: SessionId,
    head: &SessionHeader,
    report: &mut Report,
) -> Result<(), StorageError> {
    let key = Key::header(id);
    if let Some(point) = head.fork {
        let parent = head_of(read, point.parent)?;
        let there = parent
            .is_some_and(|parent| parent.events >= point.events && parent.depth + 1 == head.depth);
        report.check(
            there,
            &key,
            format!("the session that it forks, {}, lacks", point.parent),
        );
        let bond = match head.continues {
            Some(continued) if continued == point.parent => EdgeKind::Continues,
            _ => EdgeKind::Shares,
        };
        let edge = read.get(&Key::edge(point.parent, bond, id))?;
        report.check(
            edge.is_some(),
            &key,
            "there is no edge from the session that it forks",
        );
    } else {
        report.check(
            head.depth == 0,
            &key,
            "a session that forks none has a depth",
        );
    }
    if let Some(parent) = head.continues {
        let continued = head_of(read, parent)?;
        report.check(
            continued.is_some_and(|head| head.response.is_some()),
            &key,
            format!("the response that it continues, {parent}, lacks"),
        );
        let edge = read.get(&Key::edge(parent, EdgeKind::Continues, id))?;
        report.check(
            edge.is_some(),
            &key,
            "there is no edge from the response that it continues",
        );
    }
    Ok(())
}

fn check_state(
    read: &impl ReadStore,
    id: SessionId,
    head: &SessionHeader,
    report: &mut Report,
) -> Result<(), StorageError> {
    let key = Key::header(id);
    let record = ResponseMeta::of(head);
    let any = |bond| {
        read.scan(&KeyRange::edges(id, bond), 1)
            .map(|edges| !edges.is_empty())
    };
    match head.state {
        SessionState::Open => {}
        SessionState::Unstored => check_place(read, id, head, &[Space::UnstoredIndex], report)?,
        SessionState::Stored if head.owner.is_none() => {
            check_place(read, id, head, &[Space::ResponseIndex], report)?;
        }
        SessionState::Stored => check_place(
            read,
            id,
            head,
            &[Space::ResponseIndex, Space::OwnerIndex],
            report,
        )?,
        SessionState::Hidden => report.check(any(EdgeKind::Continues)?, &key, "nothing needs it"),
        SessionState::Trunk => report.check(any(EdgeKind::Shares)?, &key, "nothing shares it"),
    }
    match (record, head.state) {
        (Some(record), SessionState::Stored | SessionState::Hidden) => {
            let body = stored_body(read, id, head.clone());
            let body = report.take(&key, body);
            let len = body.map(|body| body.len() as u64);
            report.check(
                len == Some(record.body_len_bytes),
                &key,
                "its body's length is wrong",
            );
            let ends = record.end_events <= head.events;
            report.check(ends, &key, "its response has more events than it");
        }
        (None, SessionState::Stored | SessionState::Hidden) => {
            report.find(&key, "its response lacks")
        }
        (Some(_), _) => report.find(&key, "it has a response although it stored none"),
        _ => {}
    }
    Ok(())
}

fn check_place(
    read: &impl ReadStore,
    id: SessionId,
    head: &SessionHeader,
    spaces: &[Space],
    report: &mut Report,
) -> Result<(), StorageError> {
    let key = Key::header(id);
    let Some(ordinal) = head.ordinal else {
        report.find(&key, "it has no place in the log");
        return Ok(());
    };
    for space in spaces {
        let place = match space {
            Space::ResponseIndex => Key::response_index(ordinal),
            Space::OwnerIndex => {
                Key::owner_index(head.owner.as_deref().unwrap_or_default(), ordinal)
            }
            _ => Key::unstored_index(ordinal),
        };
        let there = load::<IndexEntry>(read, &place)?.is_some_and(|place| place.session == id);
        report.check(there, &key, format!("it does not stand at {place:?}"));
    }
    Ok(())
}

/// The flattened tokens must be those of the ancestors that they stand for.
fn check_flat(read: &impl ReadStore, id: SessionId, head: &SessionHeader, report: &mut Report) {
    let key = Key::flattened_prefix(id, 0);
    let Some(point) = head.fork else {
        return report.find(&key, "a root has no ancestors");
    };
    let loaded = lineage::load_flat(read, id);
    let Some(flat) = report.take(&key, loaded) else {
        return;
    };
    let Some(base_depth) = lineage::flat_base_depth(head.depth) else {
        return report.find(&key, "no flattened tokens belong here");
    };
    let line = lineage::lineage(read, point, base_depth);
    let Some(line) = report.take(&key, line) else {
        return;
    };
    let based = line
        .pieces
        .last()
        .is_some_and(|piece| piece.oldest == flat.base);
    report.check(
        based && line.tokens() == flat.tokens,
        &key,
        "they are not the ancestors' tokens",
    );
}

//! Inspection of a store for operators: lists, single sessions, fork trees, sizes.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::session::{
    error::LogError,
    format::{
        event::{Event, Tokens},
        record::{
            ResponseMeta, SessionHeader, for_each_entry, load_session, load_totals, open_record,
        },
        session_events::load_events,
    },
    keys::{EdgeKind, KeyRange, SessionId, Space},
    store::{ReadStore, StorageError, Totals},
};

/// Calls `each` for every session in id order; sessions in flight come last.
///
/// # Errors
/// Errors of the storage.
pub fn list(
    read: &impl ReadStore,
    mut each: impl FnMut(SessionId, &SessionHeader),
) -> Result<(), LogError> {
    for space in [Space::Header, Space::OpenHeader] {
        for_each_entry(read, &KeyRange::space(space), |key, value| {
            let header = open_record::<SessionHeader>(key, &value)?;
            key.session().into_iter().for_each(|id| each(id, &header));
            Ok(())
        })?;
    }
    Ok(())
}

/// A session with its own events.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionDetails {
    /// The session's header.
    pub header: SessionHeader,
    /// The response's metadata; `None` without a response.
    pub response: Option<ResponseMeta>,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// Loads one session.
///
/// # Errors
/// [`LogError::NotFound`]; errors of the storage.
pub fn show(read: &impl ReadStore, id: SessionId) -> Result<SessionDetails, LogError> {
    let header = load_session(read, id)?.ok_or(LogError::NotFound)?;
    let events = load_events(read, id, header.events)?;
    Ok(SessionDetails {
        response: ResponseMeta::of(&header),
        header,
        events,
    })
}

/// Formats an event on one line.
pub fn describe(event: &Event) -> String {
    match event {
        Event::Opened(opened) => {
            let mut line = format!("opened for {}", opened.model);
            if let Some(owner) = &opened.owner {
                let _ = write!(line, " by {owner}");
            }
            if let Some(fork) = opened.fork {
                let _ = write!(line, ", fork of {} at event {}", fork.parent, fork.events);
            }
            if let Some(continues) = opened.continues {
                let _ = write!(line, ", continues {continues}");
            }
            line
        }
        Event::InputAppended(input) => {
            format!(
                "input of {} items: {}",
                input.items.len(),
                input.items.join(" ")
            )
        }
        Event::PromptAppended(tokens) => format!("prompt of {}", describe_tokens(tokens)),
        Event::Generated(tokens) => format!("generated {}", describe_tokens(tokens)),
        Event::TurnClosed(closed) => format!(
            "closed: {:?} by {:?}, {} tokens in ({} cached), {} out, seed {}",
            closed.status,
            closed.finish,
            closed.usage.input_tokens,
            closed.usage.cached_tokens,
            closed.usage.output_tokens,
            closed.seed
        ),
        Event::Rerooted(rerooted) => {
            format!("rerooted: first {} events kept", rerooted.kept_events)
        }
        Event::Purged(_) => "purged: kept only for its continuations".into(),
    }
}

fn describe_tokens(tokens: &Tokens) -> String {
    const SHOWN_TOKENS: usize = 16;
    let count = tokens.tokens.len();
    let shown: Vec<_> = tokens
        .tokens
        .iter()
        .take(SHOWN_TOKENS)
        .map(u32::to_string)
        .collect();
    let more = if count > SHOWN_TOKENS { " …" } else { "" };
    format!("{count} tokens: {}{more}", shown.join(" "))
}

/// A node of a fork tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// The session's id.
    pub id: SessionId,
    /// The distance to the root of the tree.
    pub level: usize,
    /// The kind of the edge from the parent; `None` for the root.
    pub edge: Option<EdgeKind>,
    /// The session's header.
    pub header: SessionHeader,
}

/// Returns the fork tree of a session: its oldest ancestor and all descendants of that, each after
/// its parent.
///
/// # Errors
/// [`LogError::NotFound`]; errors of the storage.
pub fn tree(read: &impl ReadStore, id: SessionId) -> Result<Vec<Branch>, LogError> {
    let load_header = |id| load_session(read, id);
    let mut root = id;
    let mut header = load_header(root)?.ok_or(LogError::NotFound)?;
    while let Some(parent) = header.continues.or(header.fork.map(|fork| fork.parent)) {
        let Some(parent_header) = load_header(parent)? else {
            break;
        };
        (root, header) = (parent, parent_header);
    }
    let mut branches = Vec::new();
    let mut pending = vec![(root, 0, None)];
    while let Some((id, level, edge)) = pending.pop() {
        let Some(header) = load_header(id)? else {
            continue;
        };
        branches.push(Branch {
            id,
            level,
            edge,
            header,
        });
        for_each_entry(read, &KeyRange::session(Space::Edge, id), |key, _| {
            let child = key.edge_child();
            pending.extend(child.map(|(edge, child)| (child, level + 1, Some(edge))));
            Ok(())
        })?;
    }
    Ok(branches)
}

/// Sizes of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// The totals record.
    pub totals: Totals,
    /// The number of values and their bytes, by key space.
    pub by_space: BTreeMap<Space, (u64, u64)>,
    /// The number of sessions, by state.
    pub by_state: BTreeMap<String, u64>,
}

/// Counts all values and sessions.
///
/// # Errors
/// Errors of the storage.
pub fn stats(read: &impl ReadStore) -> Result<Stats, LogError> {
    let mut stats = Stats {
        totals: load_totals(read)?,
        ..Stats::default()
    };
    for_each_entry(read, &KeyRange::all(), |key, value| {
        let Some(space) = key.space() else {
            return Err(StorageError::Damaged(format!(
                "{key:?} is not a key of a session log"
            )));
        };
        let (count, bytes) = stats.by_space.entry(space).or_default();
        *count += 1;
        *bytes += (key.as_bytes().len() + value.len()) as u64;
        if matches!(space, Space::Header | Space::OpenHeader) {
            let header = open_record::<SessionHeader>(key, &value)?;
            *stats
                .by_state
                .entry(format!("{:?}", header.state).to_lowercase())
                .or_default() += 1;
        }
        Ok(())
    })?;
    Ok(stats)
}

//! Tests of the released formats, byte for byte, and of upgrades that faults interrupt.

use std::sync::Arc;

use super::{super::v1::*, *};
use crate::session::{
    admin::verify::verify,
    format::{
        codec::{Kind, decode, encode},
        event::Event,
        event_batch,
        payload::Payload,
        record::{open_record, seal_record},
    },
    keys::SessionId,
    store::{
        StorageError,
        faulty::{Fault, FaultyStorage, Loss},
        memory::MemoryStorage,
    },
};

const ID: SessionId = SessionId([0x11; 16]);
const FORK: ForkPoint = ForkPoint {
    parent: SessionId([0x22; 16]),
    events: 5,
};

/// Returns one value of every kind with its encoding in format 1, in the order of the kinds'
/// numbers.
fn samples() -> Vec<(Kind, Vec<u8>)> {
    [event_samples(), session_samples(), store_samples()].concat()
}

fn event_samples() -> Vec<(Kind, Vec<u8>)> {
    let opened = Opened {
        fork: Some(FORK),
        continues: Some(FORK.parent),
        owner: Some("key_1".into()),
        model: "m".into(),
        created_at_ms: 1_760_000_000_123,
    };
    let input = InputAppended {
        items: vec!["{\"a\":1}".into(), "{}".into()],
        head: "{}".into(),
    };
    let tokens = Tokens {
        tokens: vec![1, 70_000],
    };
    let closed = TurnClosed {
        status: TurnStatus::Incomplete,
        finish: TurnFinish::EndToken(9),
        usage: Usage {
            input_tokens: 1,
            cached_tokens: 2,
            output_tokens: 3,
            reasoning_tokens: 4,
        },
        seed: u64::MAX,
        closed_at_ms: -1,
    };
    let together = [
        Event::Rerooted(Rerooted { kept_events: 5 }).encode(),
        Event::Generated(tokens.clone()).encode(),
    ];
    vec![
        (Kind::Opened, encode(&opened)),
        (Kind::InputAppended, encode(&input)),
        (Kind::PromptAppended, encode(&tokens)),
        (Kind::Generated, encode(&tokens)),
        (Kind::TurnClosed, encode(&closed)),
        (Kind::Rerooted, encode(&Rerooted { kept_events: 5 })),
        (Kind::Purged, encode(&Purged { ordinal: 6 })),
        (Kind::Events, event_batch::encode(&together).bytes),
    ]
}

fn kept() -> Kept {
    Kept {
        end_events: 5,
        head_digest: [0x44; 32],
        forkable: true,
        body_len_bytes: 2,
        body_digest: [0x55; 32],
        body: Some("{}".into()),
    }
}

fn session_samples() -> Vec<(Kind, Vec<u8>)> {
    let head = Head {
        owner: None,
        model: "m".into(),
        created_at_ms: 5,
        fork: Some(FORK),
        continues: None,
        depth: 32,
        flat: true,
        events: 6,
        tokens: 7,
        bytes: 8,
        chain: [0x33; 32],
        ordinal: Some(9),
        state: State::Trunk,
        response: Some(kept()),
    };
    let flat = Flat {
        base: ID,
        tokens: vec![1, 2],
    };
    let edge = Edge {
        shares_events: Some(5),
    };
    vec![
        (Kind::Head, encode(&head)),
        (Kind::Body, b"{}".to_vec()),
        (Kind::Edge, encode(&edge)),
        (Kind::Flat, encode(&flat)),
        (
            Kind::Place,
            encode(&Place {
                session: ID,
                at_ms: 5,
            }),
        ),
        (Kind::Mark, encode(&Mark {})),
    ]
}

fn store_samples() -> Vec<(Kind, Vec<u8>)> {
    let totals = Totals {
        commit: 1,
        records: 2,
        sessions: 3,
        responses: 4,
        response_bytes: 5,
        next_ordinal: 6,
    };
    let manifest = Manifest {
        version: 1,
        store: [0x66; 16],
        generation: 7,
        totals,
        db_len_bytes: 8,
        log_end: 9,
        closed: true,
    };
    let format = Format {
        version: 1,
        store: [0x66; 16],
    };
    let upgrade = Upgrade {
        to: 2,
        done: vec![1, 2],
    };
    vec![
        (Kind::Format, encode(&format)),
        (Kind::Totals, encode(&totals)),
        (Kind::Manifest, encode(&manifest)),
        (Kind::Upgrade, encode(&upgrade)),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_kind_of_format_1_is_written_byte_for_byte_as_released() {
    let lines = samples().into_iter().map(|(kind, payload)| {
        let stamp = codec::Stamp {
            kind,
            schema: 1,
            more: false,
            commit: 3,
        };
        let envelope = codec::seal(stamp, &Key::header(ID), &payload);
        format!("{} {}\n", kind as u8, hex(&envelope))
    });
    let written: String = lines.collect();
    let kinds: Vec<_> = samples().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, Kind::ALL);
    assert_eq!(written, include_str!("../../../../migrations/v1.golden"));
}

#[test]
fn every_variant_of_format_1_keeps_its_number() {
    let statuses = [
        TurnStatus::Completed,
        TurnStatus::Incomplete,
        TurnStatus::Failed,
        TurnStatus::Cancelled,
        TurnStatus::Interrupted,
    ];
    let finishes = [
        TurnFinish::EndToken(0),
        TurnFinish::StopString,
        TurnFinish::MaxTokens,
        TurnFinish::ContextFull,
        TurnFinish::CallLimit,
        TurnFinish::Cancelled,
        TurnFinish::Failed,
    ];
    let states = [
        State::Open,
        State::Unstored,
        State::Stored,
        State::Hidden,
        State::Trunk,
    ];
    let number = |bytes: Vec<u8>| decode::<u32>("number", &bytes[..4]).unwrap();
    assert!((0..5).eq(statuses.iter().map(|status| number(encode(status)))));
    assert!((0..7).eq(finishes.iter().map(|finish| number(encode(finish)))));
    assert!((0..5).eq(states.iter().map(|state| number(encode(state)))));
}

/// A migration step that adds an hour to every index entry. It must process every entry exactly
/// once.
fn add_an_hour(envelope: &Envelope<'_>) -> Result<Option<Payload>, String> {
    if envelope.kind != Kind::Place {
        return Ok(None);
    }
    let mut place: Place = decode("place", envelope.payload).map_err(|d| d.to_string())?;
    place.at_ms += 3_600_000;
    Ok(Some(Payload {
        kind: Kind::Place,
        schema: 1,
        bytes: encode(&place),
    }))
}

/// Creates a store of format 1 with more index entries than one commit of an upgrade rewrites.
fn old_store(storage: &dyn Storage, places: u64) {
    let totals = prepare(storage, &[]).unwrap();
    let mut txn = Txn::begin(storage, totals);
    for n in 0..places {
        txn.create(
            Key::unstored_index(n),
            &Place {
                session: ID,
                at_ms: n as i64,
            },
        );
    }
    let (batch, _) = txn.finish().unwrap();
    storage.commit(&batch).unwrap();
}

fn assert_upgraded(storage: &dyn Storage, places: u64) {
    let entries = storage
        .scan(&KeyRange::space(Space::UnstoredIndex), usize::MAX)
        .unwrap();
    assert_eq!(entries.len() as u64, places);
    for (n, (key, value)) in entries.iter().enumerate() {
        let place: Place = open_record(key, value).unwrap();
        assert_eq!(place.at_ms, n as i64 + 3_600_000);
    }
    let format: Format = load(&Direct(storage), &Key::format()).unwrap().unwrap();
    assert_eq!(format.version, 2);
    assert_eq!(storage.get(&Key::upgrade()).unwrap(), None);
    let totals = load_totals(&Direct(storage)).unwrap();
    let all = storage.scan(&KeyRange::all(), usize::MAX).unwrap();
    assert_eq!(totals.records, all.len() as u64);
}

#[test]
fn an_upgrade_continues_wherever_it_was_interrupted() {
    const PLACES: u64 = 3 * SCAN_PAGE_ENTRIES as u64 + 7;
    let faults = [
        Fault::CrashBeforeWrite,
        Fault::CrashBeforeSync,
        Fault::CrashAfterSync,
        Fault::SyncFails,
        Fault::FullBeforeWrite,
    ];
    for fault in faults {
        for loss in [Loss::Lost, Loss::Kept] {
            for commits in 0..4 {
                let storage = FaultyStorage::default();
                old_store(&storage, PLACES);
                storage.fail_after(commits, fault);
                prepare(&storage, &[add_an_hour]).unwrap_err();
                let storage = storage.restarted(loss);
                prepare(&storage, &[add_an_hour]).unwrap();
                assert_upgraded(&storage, PLACES);
                prepare(&storage, &[add_an_hour]).unwrap();
                assert_upgraded(&storage, PLACES);
            }
        }
    }
}

#[test]
fn a_store_of_a_newer_program_is_refused_with_a_reason() {
    let storage = MemoryStorage::default();
    prepare(&storage, &[add_an_hour]).unwrap();
    let before = storage.entries();
    let Err(LogError::Refused(sentence)) = prepare(&storage, &[]) else {
        panic!("it was not refused")
    };
    assert!(sentence.contains("newer version of stemma"), "{sentence}");
    assert_eq!(storage.entries(), before);
}

#[test]
fn data_without_a_format_record_is_corrupt() {
    let storage = MemoryStorage::holding(
        [(
            Key::open_header(ID),
            seal_record(&Key::open_header(ID), &Mark {}, 1),
        )]
        .into(),
    );
    assert!(matches!(prepare(&storage, &[]), Err(LogError::Corrupt(_))));
}

#[test]
fn a_new_store_has_no_findings() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    assert_eq!(prepare(&*storage, STEPS).unwrap().commit, 1);
    assert_eq!(verify(&Direct(&*storage)).unwrap().findings, [""; 0]);
    let read = storage.get(&Key::totals());
    assert!(matches!(read, Ok::<_, StorageError>(Some(_))));
}

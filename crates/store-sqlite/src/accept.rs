//! Writes that need no lease: submitters, intents, cancellations of queued intents, commands.

use std::collections::HashMap;

use gapless_domain::{CancelReason, CommandId, NewCommand, Protection, SubmitterId, Transition, TxId, TxState};
use gapless_store::{Accepted, CancelVerdict, NewIntent, NewSubmitter};
use gapless_store_sql::{SUBMITTERS, command_to_json, payload_to_json, protection, state_to_row, submitter, unsigned};

use crate::change::{record_event, write_change};
use crate::error::{Failure, refusal};
use crate::facts::cursor_row;
use crate::ledger::{Reading, Writing};
use crate::read::get_one;
use crate::rows;
use crate::statement::statement;

statement! {
    struct IntentInsert<'a> {
        tx_id: &'a str,
        seq: i64,
        submitter: &'a str,
        request_id: &'a str,
        payload: String,
        speed: &'static str,
        valid_until: Option<i64>,
        metadata: Option<&'a str>,
        state: &'static str,
        detail: &'a str,
        version: u32,
        created_at: i64,
        updated_at: i64,
    } = "INSERT INTO managed_tx ({columns}) VALUES ({values})";
}

statement! {
    struct CommandInsert<'a> {
        submitter: &'a str,
        kind: &'static str,
        body: String,
        issued_by: &'a str,
        issued_at: i64,
    } = "INSERT INTO lane_command ({columns}) VALUES ({values}) RETURNING id";
}

/// A submitter that comes without an alias keeps its alias. An alias that another submitter has is an error of the
/// whole call: moving the alias silently would send the next payment from another account.
pub(crate) fn register(writing: &Writing<'_>, submitters: &[NewSubmitter]) -> Result<(), Failure> {
    let mut statement = writing.sql.prepare_cached(
        "INSERT INTO submitter (submitter, alias, epoch, created_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (submitter) DO UPDATE SET alias = excluded.alias
         WHERE excluded.alias IS NOT NULL AND excluded.alias IS NOT alias",
    )?;
    // Until the newest loss is reconciled, a submitter that seems new may be one of the lost rows.
    let reconciled = "SELECT count(*) FROM store_epoch WHERE epoch = ?1 AND reconciled_at IS NULL";
    let newest = writing.epoch()?;
    let unreconciled: i64 = writing.sql.prepare_cached(reconciled)?.query_one([newest], |row| row.get(0))?;
    let epoch = newest - unreconciled;
    for new in submitters {
        statement.execute((new.id.as_str(), &new.alias, epoch, writing.now.as_micros()))?;
    }
    Ok(())
}

/// An operator declares that the lost commits have been dealt with.
pub(crate) fn reconcile(writing: &Writing<'_>) -> Result<(), Failure> {
    let mut statement =
        writing.sql.prepare_cached("UPDATE store_epoch SET reconciled_at = ?1 WHERE reconciled_at IS NULL")?;
    statement.execute([writing.now.as_micros()])?;
    Ok(())
}

pub(crate) fn submitters(reading: &Reading<'_>) -> Result<Vec<NewSubmitter>, Failure> {
    let statement = reading.sql.prepare_cached(SUBMITTERS)?;
    rows::all(statement, [], |row| Ok(NewSubmitter { id: submitter(rows::text(row, 0)?)?, alias: row.get(1)? }))
}

/// Inserts all intents together. If the tables refuse one, all are undone and each is inserted alone.
pub(crate) fn accept(writing: &Writing<'_>, intents: &[NewIntent]) -> Result<Vec<Accepted>, Failure> {
    let mut admissions = Admissions::default();
    let all = |admissions: &mut Admissions| intents.iter().map(|new| accept_one(writing, new, admissions)).collect();
    match writing.alone(|| all(&mut admissions)) {
        Err(failure) if refusal(&failure).is_some() => {}
        verdicts => return verdicts,
    }
    let alone = |new| match writing.alone(|| accept_one(writing, new, &mut admissions)) {
        Err(failure) => refusal(&failure).map(Accepted::Refused).ok_or(failure),
        verdict => verdict,
    };
    intents.iter().map(alone).collect()
}

/// Whether each lane takes new intents. Within one transaction the answer does not change.
#[derive(Default)]
struct Admissions(HashMap<SubmitterId, Admission>);

#[derive(Clone)]
enum Admission {
    Open,
    UnknownSubmitter,
    Protected(Protection),
}

impl Admissions {
    fn of(&mut self, writing: &Writing<'_>, lane: &SubmitterId) -> Result<Admission, Failure> {
        if let Some(admission) = self.0.get(lane) {
            return Ok(admission.clone());
        }
        let admission = read_admission(writing, lane)?;
        self.0.insert(lane.clone(), admission.clone());
        Ok(admission)
    }
}

fn read_admission(writing: &Writing<'_>, lane: &SubmitterId) -> Result<Admission, Failure> {
    if !is_known(writing, lane)? {
        return Ok(Admission::UnknownSubmitter);
    }
    let protected = writing.sql.prepare_cached(
        "SELECT protect_code, protect_detail FROM submitter_nonce_cursor WHERE submitter = ?1 AND state = 'PROTECT'",
    )?;
    let found = rows::first(protected, [lane.as_str()], |row| {
        Ok(protection(rows::optional_text(row, 0)?, rows::optional_text(row, 1)?)?)
    })?;
    if let Some(protection) = found {
        return Ok(Admission::Protected(protection));
    }
    let seen = cursor_row(writing, lane.as_str())?.map(|row| row.epoch);
    let is_regressed = writing.is_regressed(lane.as_str(), seen)?;
    Ok(if is_regressed { Admission::Protected(Protection::store_regressed()) } else { Admission::Open })
}

/// The CHECKs and unique keys of the tables decide which rows are refused.
fn accept_one(writing: &Writing<'_>, new: &NewIntent, admissions: &mut Admissions) -> Result<Accepted, Failure> {
    let admission = admissions.of(writing, new.intent.submitter())?;
    if matches!(admission, Admission::UnknownSubmitter) {
        return Ok(Accepted::UnknownSubmitter);
    }
    // A known request is answered for ever, also in PROTECT.
    if let Some(verdict) = known_request(writing, new)? {
        return Ok(verdict);
    }
    if let Admission::Protected(protection) = admission {
        return Ok(Accepted::Protected(protection));
    }
    insert(writing, new)?;
    Ok(Accepted::New)
}

fn is_known(reading: &Reading<'_>, lane: &SubmitterId) -> Result<bool, Failure> {
    let mut statement = reading.sql.prepare_cached("SELECT EXISTS (SELECT 1 FROM submitter WHERE submitter = ?1)")?;
    Ok(statement.query_one([lane.as_str()], |row| row.get(0))?)
}

fn known_request(reading: &Reading<'_>, new: &NewIntent) -> Result<Option<Accepted>, Failure> {
    let statement = reading
        .sql
        .prepare_cached("SELECT payload_hash, tx_id FROM request_key WHERE submitter = ?1 AND request_id = ?2")?;
    let key = (new.intent.submitter().as_str(), new.intent.request_id().as_str());
    let found = rows::first(statement, key, |row| Ok((rows::hash(row, 0)?, rows::tx_id(rows::text(row, 1)?)?)))?;
    let fingerprint = new.intent.payload().fingerprint().0;
    Ok(found.map(|(hash, id)| if hash == fingerprint { Accepted::Existing(id) } else { Accepted::Conflict(id) }))
}

fn insert(writing: &Writing<'_>, new: &NewIntent) -> Result<(), Failure> {
    let (id, intent, now) = (new.id.to_string(), &new.intent, writing.now.as_micros());
    let (lane, request) = (intent.submitter().as_str(), intent.request_id().as_str());
    writing
        .sql
        .prepare_cached("INSERT INTO request_key (submitter, request_id, payload_hash, tx_id) VALUES (?1, ?2, ?3, ?4)")?
        .execute((lane, request, intent.payload().fingerprint().0.as_slice(), &id))?;
    let queued = state_to_row(&TxState::Queued);
    let insert = IntentInsert {
        tx_id: &id,
        seq: writing.next_tx_seq()?,
        submitter: lane,
        request_id: request,
        payload: payload_to_json(intent.payload()),
        speed: intent.speed().as_str(),
        valid_until: intent.valid_until().map(|until| until.as_micros()),
        metadata: intent.metadata().map(|metadata| metadata.as_json()),
        state: queued.state.as_str(),
        detail: &queued.detail,
        version: 1,
        created_at: now,
        updated_at: now,
    };
    insert.execute(writing.sql)?;
    record_event(writing, lane, &id, 1, gapless_domain::EventKind::Accepted, &queued, None)
}

/// Gives the verdicts, each with the lane that was changed.
pub(crate) fn cancel_queued(writing: &Writing<'_>, ids: &[TxId]) -> Result<Vec<Canceled>, Failure> {
    ids.iter().map(|id| cancel_one(writing, *id)).collect()
}

type Canceled = (CancelVerdict, Option<SubmitterId>);

fn cancel_one(writing: &Writing<'_>, id: TxId) -> Result<Canceled, Failure> {
    let Some(tx) = get_one(writing, id)? else { return Ok((CancelVerdict::Unknown, None)) };
    let Ok(change) = tx.change(Transition::CancelInQueue(CancelReason::User)) else {
        return Ok((CancelVerdict::NotQueued, None));
    };
    let lane = tx.intent.submitter().as_str();
    let cursor = cursor_row(writing, lane)?;
    if cursor.as_ref().is_some_and(|row| row.fact.unreconciled)
        || writing.is_regressed(lane, cursor.map(|row| row.epoch))?
    {
        return Ok((CancelVerdict::Regressed, None));
    }
    // No fence is needed: the intent is queued, and this is the only transaction on the database.
    write_change(writing, tx.intent.submitter(), &change, None)?;
    Ok((CancelVerdict::Canceled, Some(tx.intent.submitter().clone())))
}

pub(crate) fn put_commands(writing: &Writing<'_>, commands: &[NewCommand]) -> Result<Vec<CommandId>, Failure> {
    let mut statement = CommandInsert::prepare(writing.sql)?;
    let mut ids = Vec::with_capacity(commands.len());
    for new in commands {
        let insert = CommandInsert {
            submitter: new.submitter.as_str(),
            kind: new.kind.as_str(),
            body: command_to_json(&new.kind),
            issued_by: new.issued_by.as_str(),
            issued_at: writing.now.as_micros(),
        };
        let id = statement.query_one(insert.params(), |row| row.get(0))?;
        ids.push(CommandId(unsigned("command id", id)?));
    }
    Ok(ids)
}

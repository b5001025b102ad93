//! Reading notifications: one, a list, the dead letters.

use super::timeouts::{with_long_timeout, with_timeout};
use super::{Service, ServiceError, snapshot_of};
use crate::domain::api_key::ApiKeyName;
use crate::domain::attempt::Attempt;
use crate::domain::key::Key;
use crate::domain::lane::KeyInLane;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::{Cursor, Filter, Order, Transition};
use crate::schedule::{FoundEntry, ScheduleError};

/// Maximum number of remembered dead entries read for one page. They are read only without a journal, and this
/// process filters them.
const MOST_SCANNED: usize = 10_000;
/// Dead entries read from the schedule at a time.
const SCAN_PAGE: usize = 200;

const CANNOT_LIST: ServiceError = ServiceError::NoJournal("list notifications, only dead letters");

/// Which notifications to list.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// The filter on state, topic and so on.
    pub filter: Filter,
    /// Of the scheduled ones, only those with (`true`) or without (`false`) an attempt in flight.
    pub in_flight: Option<bool>,
    /// Only pending ones whose next attempt is due now, the one that became due last first. The instants of the filter are
    /// compared with when they are due.
    pub is_due: bool,
    /// Maximum number of items on the page.
    pub limit: usize,
    /// The `next` of the page before; `None` for the first page.
    pub cursor: Option<String>,
    /// Maximum number of notifications that are read for the page; `None` for what the journal allows. With a small number
    /// the answer comes soon, and may be a short page.
    pub most_scanned: Option<usize>,
    /// The API key of the caller; its lists wait for each other.
    pub asked_by: Option<ApiKeyName>,
}

/// Whether it is known which scheduled notifications have an attempt in flight. Only the schedule knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flights {
    /// The schedule answered, or no notification of the answer is scheduled.
    #[default]
    Known,
    /// The schedule did not answer. The record is shown nevertheless, and the answer says so.
    Unknown,
}

/// A page of a list, newest first.
#[derive(Debug, Clone, Default)]
pub struct ListPage {
    /// The notifications, without attempts.
    pub items: Vec<Snapshot>,
    /// The last attempt of each notification, as [`JournalReads::last_attempts`] reads it. Empty without a journal. `None`
    /// if they cannot be read: a list is of use without them.
    ///
    /// [`JournalReads::last_attempts`]: crate::journal::JournalReads::last_attempts
    pub last_attempts: Option<Vec<Option<Attempt>>>,
    /// Whether `in_flight` of the items is known.
    pub flights: Flights,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<String>,
    /// If the page is short although there are more: the instant down to which notifications were looked at, in milliseconds
    /// since 1970. It is that of the registration, of the end in a list of dead letters, or when what is due became due.
    pub searched_until_ms: Option<i64>,
    /// How many there are in all, if that is counted anyway: of dead letters without a filter.
    pub total: Option<u64>,
}

impl Service {
    /// One notification with its attempts.
    ///
    /// # Errors
    /// If the store that keeps it fails.
    pub async fn find(&self, key: &Key) -> Result<Option<Snapshot>, ServiceError> {
        let found = self.look_up(key).await?;
        Ok(found.map(|(snapshot, _)| snapshot))
    }

    /// As [`Service::find`], and whether its `in_flight` is known.
    ///
    /// # Errors
    /// As [`Service::find`].
    pub async fn look_up(&self, key: &Key) -> Result<Option<(Snapshot, Flights)>, ServiceError> {
        let Some(journal) = self.journal() else {
            let found = with_timeout(self.schedule.find(key)).await?;
            let Some(mut snapshot) = found.map(snapshot_of) else {
                return Ok(None);
            };
            self.endpoints.fill_in_url(&mut snapshot);
            return Ok(Some((snapshot, Flights::Known)));
        };
        let Some(mut snapshot) = with_timeout(journal.find(key)).await? else {
            return Ok(None);
        };
        self.endpoints.fill_in_url(&mut snapshot);
        let marked = self.mark_in_flight(std::slice::from_mut(&mut snapshot));
        let flights = known_if(&marked.await);
        Ok(Some((snapshot, flights)))
    }

    /// The transitions of one notification, oldest first; empty without a journal.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn transitions(&self, key: &Key) -> Result<Vec<Transition>, ServiceError> {
        match self.journal() {
            Some(journal) => Ok(with_long_timeout(journal.transitions(key)).await?),
            None => Ok(Vec::new()),
        }
    }

    /// Notifications, newest first.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`] without a journal; [`ServiceError::BadCursor`]; [`ServiceError::TooManyTopics`];
    /// [`ServiceError::TooManyLists`]; if the journal fails, or if the schedule fails and the request filters by `in_flight`.
    pub async fn list(&self, request: &ListRequest) -> Result<ListPage, ServiceError> {
        self.journal().ok_or(CANNOT_LIST)?;
        if !request.is_due {
            return self.list_journal(request, Order::Registered).await;
        }
        let mut request = request.clone();
        let end_ms = self.clock.now_ms().saturating_add(1);
        let to_ms = request
            .filter
            .to_ms
            .map_or(end_ms, |to_ms| to_ms.min(end_ms));
        request.filter.to_ms = Some(to_ms);
        self.list_journal(&request, Order::Due).await
    }

    /// Dead letters, last parked first.
    ///
    /// # Errors
    /// [`ServiceError::BadCursor`], [`ServiceError::TooManyLists`], or if the store that keeps them fails.
    pub async fn dead_letters(&self, request: &ListRequest) -> Result<ListPage, ServiceError> {
        let mut request = request.clone();
        let is_filtered = request.filter != Filter::default();
        request.filter.state = Some(State::Dead);
        let page = if self.has_journal() {
            self.list_journal(&request, Order::Ended).await?
        } else {
            self.list_remembered(&request).await?
        };
        let total = match is_filtered {
            true => None,
            false => Some(self.count_dead_letters().await?),
        };
        Ok(ListPage { total, ..page })
    }

    /// The number of dead letters. The stores count them, so nothing is read for it.
    async fn count_dead_letters(&self) -> Result<u64, ServiceError> {
        match self.journal() {
            Some(journal) => Ok(with_timeout(journal.counts()).await?.dead),
            None => Ok(with_timeout(self.schedule.counts()).await?.dead),
        }
    }

    async fn list_journal(
        &self,
        request: &ListRequest,
        order: Order,
    ) -> Result<ListPage, ServiceError> {
        let journal = self.journal().ok_or(CANNOT_LIST)?;
        let cursor = request.cursor.as_deref().map(parse_cursor).transpose()?;
        let mut filter = request.filter.clone();
        if let Some(url) = &mut filter.url {
            url.lanes = self.endpoints.lanes_with_url(|known| url.is_in(known));
        }
        let limit = request.limit;
        let listing = match request.most_scanned {
            Some(most) => journal.list_scanned(&filter, order, cursor, limit, most),
            None => journal.list(&filter, order, cursor, limit),
        };
        let permit = self.list_limit.permit(request.asked_by.as_ref()).await?;
        let page = with_long_timeout(listing).await?;
        let is_short = page.items.len() < limit;
        if page.too_many_topics {
            return Err(ServiceError::TooManyTopics);
        }
        let mut items = page.items;
        items
            .iter_mut()
            .for_each(|item| self.endpoints.fill_in_url(item));
        if let Some(url) = &filter.url {
            // The endpoint of a lane may be another one than that which a notification names, or was just changed.
            items.retain(|item| {
                let shown = item.destination.as_ref();
                shown.is_some_and(|shown| url.is_in(shown.as_str()))
            });
        }
        let keys: Vec<Key> = items.iter().map(|item| item.key.clone()).collect();
        let last_attempts = with_long_timeout(journal.last_attempts(&keys)).await;
        // Nobody waits for the permit while the schedule is asked.
        drop(permit);
        if let Err(error) = &last_attempts {
            tracing::warn!(%error, "a list is answered without the last attempts, which cannot be read");
        }
        let mut last_attempts = last_attempts.ok();
        let marked = self.mark_in_flight(&mut items).await;
        let flights = known_if(&marked);
        if let Some(in_flight) = request.in_flight {
            // Without the schedule's answer no item would count as in flight, so the page would be wrong.
            marked?;
            if let Some(attempts) = &mut last_attempts {
                let mut is_kept = items.iter().map(|item| item.in_flight == in_flight);
                attempts.retain(|_| is_kept.next().unwrap_or(false));
            }
            items.retain(|item| item.in_flight == in_flight);
        }
        Ok(ListPage {
            items,
            last_attempts,
            flights,
            searched_until_ms: page.next.filter(|_| is_short).map(|next| next.at_ms),
            next: page.next.map(display_cursor),
            total: None,
        })
    }

    /// Filters the dead entries that the schedule remembers, a bounded number for each page. A page may be
    /// shorter than the limit and still have a cursor.
    async fn list_remembered(&self, request: &ListRequest) -> Result<ListPage, ServiceError> {
        let mut cursor = request.cursor.clone();
        let mut items = Vec::new();
        let mut scanned = 0;
        loop {
            let wanted = SCAN_PAGE.min(request.limit - items.len());
            let page = with_long_timeout(self.schedule.dead(cursor.as_deref(), wanted)).await?;
            scanned += page.entries.len();
            cursor = page.next;
            items.extend(
                page.entries
                    .into_iter()
                    .map(|entry| {
                        snapshot_of(FoundEntry {
                            entry,
                            in_flight: false,
                        })
                    })
                    .filter(|snapshot| request.filter.passes(snapshot, Order::Ended)),
            );
            if cursor.is_none() || items.len() >= request.limit || scanned >= MOST_SCANNED {
                return Ok(ListPage {
                    items,
                    last_attempts: Some(Vec::new()),
                    next: cursor,
                    ..ListPage::default()
                });
            }
        }
    }

    /// Sets `in_flight`, which the schedule knows and the journal does not.
    pub(super) async fn mark_in_flight(
        &self,
        snapshots: &mut [Snapshot],
    ) -> Result<(), ScheduleError> {
        let scheduled: Vec<KeyInLane> = snapshots
            .iter()
            .filter(|snapshot| snapshot.state == State::Scheduled)
            .map(|snapshot| snapshot.key_in_lane())
            .collect();
        if scheduled.is_empty() {
            return Ok(());
        }
        let flags = with_timeout(self.schedule.in_flight(&scheduled)).await?;
        let scheduled = snapshots
            .iter_mut()
            .filter(|snapshot| snapshot.state == State::Scheduled);
        for (snapshot, in_flight) in scheduled.zip(flags) {
            snapshot.in_flight = in_flight;
        }
        Ok(())
    }
}

pub(super) fn known_if(marked: &Result<(), ScheduleError>) -> Flights {
    match marked {
        Ok(()) => Flights::Known,
        Err(_) => Flights::Unknown,
    }
}

pub(super) fn parse_cursor(text: &str) -> Result<Cursor, ServiceError> {
    let (at_ms, row) = text.split_once('-').ok_or(ServiceError::BadCursor)?;
    match (at_ms.parse(), row.parse()) {
        (Ok(at_ms), Ok(row)) => Ok(Cursor { at_ms, row }),
        _ => Err(ServiceError::BadCursor),
    }
}

pub(super) fn display_cursor(cursor: Cursor) -> String {
    format!("{}-{}", cursor.at_ms, cursor.row)
}

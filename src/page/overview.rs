//! The overview: how many notifications are in which state, which destinations are in trouble, what the attempts of the
//! last hours did, and whether the stores work.
//!
//! The stores are asked once a second at most, however many visitors there are.

use super::Page;
use super::frame::PageFrame;
use super::html::document;
use super::live::LiveSubject;
use super::paths::destination_path;
use super::plots::{PlotRange, ShownPlots};
use super::problem::PageProblem;
use super::texts::default_key_warning::in_words as default_key_warning;
use super::texts::outcomes::OutcomeTexts;
use super::texts::overview::OverviewTexts;
use super::texts::plots::PlotsTexts;
use super::times::{TimeTag, duration_in_words};
use super::visit::Visit;
use crate::clock::millis;
use crate::domain::lane_settings::LaneState;
use crate::domain::role::Permission;
use crate::health::{HealthReport, StoreState};
use crate::schedule::lane_status::LaneStatus;
use crate::service::{ActivityReading, Service, StateCounts, TroubledLanes};
use askama::Template;
use axum::extract::State;
use axum::response::{Redirect, Response};
use http::StatusCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Destinations in trouble that are shown.
const MOST_LANES: usize = 20;
/// For how long what was read counts.
const FRESH: Duration = Duration::from_secs(1);

/// `GET /ui`: leads to the overview.
pub(super) async fn to_overview() -> Redirect {
    Redirect::permanent("/ui/")
}

/// What the stores have said.
#[derive(Debug, Clone)]
struct OverviewReading {
    counts: StateCounts,
    trouble: Option<TroubledLanes>,
    oldest_ms: Option<i64>,
}

/// The plots that were read last.
type LastActivity = Mutex<Option<(Instant, Option<Arc<ActivityReading>>)>>;

/// What was read last.
#[derive(Default)]
pub(super) struct LastOverview {
    numbers: Mutex<Option<(Instant, Arc<OverviewReading>)>>,
    /// In the order of [`PlotRange::ALL`].
    activity: [LastActivity; PlotRange::ALL.len()],
}

impl LastOverview {
    async fn activity(&self, service: &Service, range: PlotRange) -> Option<Arc<ActivityReading>> {
        let mut last = self.activity[range as usize].lock().await;
        if let Some((at, reading)) = last.as_ref()
            && at.elapsed() < FRESH
        {
            return reading.clone();
        }
        let reading = service.activity(range.window()).await.map(Arc::new);
        *last = Some((Instant::now(), reading.clone()));
        reading
    }

    async fn read(&self, service: &Service) -> Arc<OverviewReading> {
        let mut last = self.numbers.lock().await;
        if let Some((at, reading)) = last.as_ref()
            && at.elapsed() < FRESH
        {
            return reading.clone();
        }
        let (counts, trouble, oldest_ms) = tokio::join!(
            service.state_counts(),
            service.lanes_in_trouble(MOST_LANES),
            service.oldest_overdue_ms(),
        );
        let reading = Arc::new(OverviewReading {
            counts,
            trouble,
            oldest_ms,
        });
        *last = Some((Instant::now(), reading.clone()));
        reading
    }
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'a> {
    frame: PageFrame,
    t: &'static OverviewTexts,
    /// `None` for those who may not see the numbers.
    shown: Option<ShownOverview<'a>>,
}

struct ShownOverview<'a> {
    numbers: Vec<CountTile>,
    oldest: Option<TimeTag>,
    /// `None` if the schedule does not answer.
    trouble: Option<ShownTrouble<'a>>,
    plots: ShownPlots,
    stores: Vec<StoreRow>,
    stalled: Option<String>,
    warning: Option<String>,
    unusable: Vec<String>,
}

/// A number that leads to what it counts. `None` if it is not known.
struct CountTile {
    name: &'static str,
    text: &'static str,
    count: Option<u64>,
    href: &'static str,
}

struct ShownTrouble<'a> {
    lanes: Vec<TroubledRow<'a>>,
    is_complete: bool,
    has_more: bool,
}

/// A destination in trouble.
struct TroubledRow<'a> {
    lane: &'a str,
    href: String,
    state: &'static str,
    state_in_words: &'static str,
    pending: u64,
    /// Whether there may be more.
    is_at_least: bool,
    due: u64,
    since: Option<TimeTag>,
    last: Option<(&'static str, Option<u16>)>,
    held: Option<(&'a str, &'a str)>,
}

struct StoreRow {
    name: &'static str,
    state_in_words: &'static str,
    is_up: bool,
    lasted: Option<String>,
}

/// `GET /ui/`: the overview.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let t = OverviewTexts::of(visit.language);
    let frame = visit.frame(t.title);
    if !visit.may(Permission::Inspect) {
        let shown = OverviewPage {
            frame,
            t,
            shown: None,
        };
        return document(StatusCode::OK, &shown);
    }
    let range = PlotRange::of(&visit);
    let (reading, activity) = tokio::join!(
        page.overview.read(&page.service),
        page.overview.activity(&page.service, range),
    );
    let health = page.service.known_health();
    let unusable = page.service.unusable_endpoints();
    let trouble = reading.trouble.as_ref();
    let shown = ShownOverview {
        numbers: tiles(&reading, t),
        oldest: reading.oldest_ms.map(TimeTag),
        trouble: trouble.map(|trouble| ShownTrouble {
            lanes: (trouble.lanes.iter())
                .map(|lane| TroubledRow::of(lane, t, OutcomeTexts::of(visit.language)))
                .collect(),
            is_complete: trouble.is_complete,
            has_more: trouble.found > trouble.lanes.len(),
        }),
        plots: ShownPlots::of(activity.as_deref(), range, PlotsTexts::of(visit.language)),
        stores: stores(&health, t),
        stalled: health
            .stalled
            .map(|stalled| duration_in_words(millis(stalled))),
        warning: (page.service.default_keys_warning())
            .map(|warning| default_key_warning(&warning, visit.language)),
        unusable: unusable
            .iter()
            .map(|lane| lane.as_str().to_string())
            .collect(),
    };
    let shown = OverviewPage {
        frame: frame.with_live(&LiveSubject::Overview.to_text()),
        t,
        shown: Some(shown),
    };
    document(StatusCode::OK, &shown)
}

fn tiles(reading: &OverviewReading, t: &'static OverviewTexts) -> Vec<CountTile> {
    let counts = &reading.counts;
    let due = reading.trouble.as_ref().and_then(|trouble| trouble.due);
    let tile = |name, text, count, href| CountTile {
        name,
        text,
        count,
        href,
    };
    vec![
        tile(
            "scheduled",
            t.pending,
            counts.pending,
            "/ui/search?state=pending",
        ),
        tile("due", t.due, due, "/ui/search?state=due"),
        tile(
            "in_flight",
            t.in_flight,
            counts.in_flight,
            "/ui/search?state=in_flight",
        ),
        tile("dead", t.dead, counts.dead, "/ui/dead-letters"),
        tile(
            "delivered",
            t.delivered,
            counts.delivered,
            "/ui/search?state=delivered",
        ),
        tile(
            "cancelled",
            t.cancelled,
            counts.cancelled,
            "/ui/search?state=cancelled",
        ),
    ]
}

impl<'a> TroubledRow<'a> {
    fn of(
        status: &'a LaneStatus,
        t: &'static OverviewTexts,
        outcomes: &'static OutcomeTexts,
    ) -> Self {
        let hold = status.settings.hold.as_ref();
        let failing_since_ms = || status.last_outcome.as_ref().map(|last| last.since_ms);
        let since_ms = (hold.map(|hold| hold.since_ms))
            .or(status.failing_since_ms)
            .or_else(failing_since_ms);
        Self {
            lane: status.lane.as_str(),
            href: destination_path(&status.lane),
            // One that is open is here because its calls fail.
            state: match status.state() {
                LaneState::Open => "failed",
                state @ (LaneState::Probing | LaneState::Held) => state.as_str(),
            },
            state_in_words: t.lane_state(status.state()),
            pending: status.pending(),
            is_at_least: status.is_pending_at_least(),
            due: status.due,
            since: since_ms.map(TimeTag),
            last: (status.last_outcome.as_ref())
                .map(|last| (outcomes.short(last.call.outcome), last.call.status)),
            held: hold.map(|hold| (&*hold.by, &*hold.reason)),
        }
    }
}

fn stores(health: &HealthReport, t: &'static OverviewTexts) -> Vec<StoreRow> {
    let rows = health.stores.iter().map(|(store, report)| StoreRow {
        name: t.store(*store),
        state_in_words: t.store_state(report.state),
        is_up: report.state == StoreState::Up,
        lasted: (report.lasted).map(|lasted| duration_in_words(millis(lasted))),
    });
    rows.collect()
}

//! Live pages: a stream of server-sent events tells the script that what a page shows has changed. The script then fetches
//! the page again.
//!
//! What is watched is a [`LiveSubject`]. A server reads the version of a subject at most once a second, however many streams
//! watch it. A stream ends when the session ends and when the server stops. There are at most [`MOST_STREAMS`], and
//! of one API key at most [`MOST_STREAMS_OF_KEY`]; a page that gets none does not update itself.

use super::Page;
use super::problem::PageProblem;
use super::session::Session;
use super::visit::Visit;
use crate::api::key_places::PlaceOfKey;
use crate::domain::activity::MINUTE_MS;
use crate::domain::api_key::ApiKeyName;
use crate::domain::endpoint::EndpointName;
use crate::domain::job::{BulkJob, JobId};
use crate::domain::job_result::JobResult;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::role::Permission;
use crate::service::JobListRequest;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// Maximum number of streams at once.
pub(super) const MOST_STREAMS: usize = 256;
/// Maximum number of streams of one API key. Where no key is needed, all may be used.
const MOST_STREAMS_OF_KEY: usize = 64;
/// How often a stream looks whether something has changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// For how long a version that was read counts for other streams too.
const FRESH: Duration = Duration::from_millis(900);
/// A comment is sent after so many looks without a change, so that proxies keep the stream open.
const LOOKS_TO_HEARTBEAT: u32 = 15;

/// Of how many notifications that a job has changed the version tells a change.
const JOB_CHANGES: usize = 50;
/// Of how many jobs the version of the list tells a change: the newest ones.
const NEWEST_JOBS: usize = 50;

/// What a page shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LiveSubject {
    /// One notification.
    Notification(Key),
    /// The numbers of the overview.
    Overview,
    /// One destination.
    Lane(Lane),
    /// One endpoint.
    Endpoint(EndpointName),
    /// One job.
    Job(JobId),
    /// The newest jobs.
    Jobs,
}

impl LiveSubject {
    /// The subject in an address.
    pub fn to_text(&self) -> String {
        match self {
            Self::Notification(key) => format!("notification/{key}"),
            Self::Overview => "overview".to_string(),
            Self::Lane(lane) => format!("lane/{}", lane.as_str()),
            Self::Endpoint(name) => format!("endpoint/{name}"),
            Self::Job(id) => format!("job/{id}"),
            Self::Jobs => "jobs".to_string(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.split_once('/') {
            Some(("notification", key)) => Key::parse(key).ok().map(Self::Notification),
            Some(("lane", lane)) => Lane::parse(lane).ok().map(Self::Lane),
            Some(("endpoint", name)) => EndpointName::parse(name).ok().map(Self::Endpoint),
            Some(("job", id)) => JobId::parse(id).ok().map(Self::Job),
            Some(_) => None,
            None if text == "jobs" => Some(Self::Jobs),
            None => (text == "overview").then_some(Self::Overview),
        }
    }

    /// Whether the visitor may read it.
    fn is_open_to(&self, visit: &Visit) -> bool {
        let caller = visit.caller.as_ref();
        match self {
            Self::Notification(key) => caller.is_some_and(|caller| caller.may_use(key.topic())),
            Self::Overview | Self::Lane(_) | Self::Endpoint(_) | Self::Job(_) | Self::Jobs => {
                visit.may(Permission::Inspect)
            }
        }
    }

    /// A number that is another one after a change. `None` if it cannot be read now. `asked_by`: the API key of the visitor.
    async fn version(&self, page: &Page, asked_by: Option<&ApiKeyName>) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Notification(key) => {
                let (found, _) = page.service.look_up(key).await.ok()??;
                let progress = format!("{:?}", found.progress);
                let waits = found.waits_for_ms;
                (found.state_name(), found.fence, progress, waits).hash(&mut hasher);
                (found.attempts.len(), found.set_aside.is_some()).hash(&mut hasher);
            }
            Self::Overview => {
                // The plots go on with the time.
                let minute = page.service.clock().now_ms().div_euclid(MINUTE_MS);
                (page.service.state_counts().await, minute).hash(&mut hasher);
            }
            Self::Lane(lane) => {
                let status = page.service.lane(lane).await.ok()?;
                // If that cannot be told now, it has not changed.
                if status.held_until_ms != i64::MAX && status.later_in_journal.is_none() {
                    return None;
                }
                format!("{status:?}").hash(&mut hasher);
            }
            Self::Endpoint(name) => {
                let endpoint = page.service.stored_endpoint(name).await.ok()?;
                (endpoint.version, endpoint.changed_ms).hash(&mut hasher);
            }
            Self::Job(id) => {
                let job = page.service.job(id).await.ok()?;
                hash_job(&job, &mut hasher);
                if job.counts.done > 0 {
                    // What has become of the first ones, which the page shows.
                    let (service, done) = (&page.service, JobResult::Done);
                    let changes = service
                        .job_notifications(&job, done, None, JOB_CHANGES, asked_by)
                        .await;
                    for changed in changes
                        .ok()?
                        .items
                        .iter()
                        .filter_map(|one| one.present.as_ref())
                    {
                        let attempts = changed.progress.attempts;
                        (changed.state_name(), attempts, changed.fence).hash(&mut hasher);
                    }
                }
            }
            Self::Jobs => {
                let request = JobListRequest {
                    limit: NEWEST_JOBS,
                    ..JobListRequest::default()
                };
                let (jobs, _) = page.service.jobs(&request).await.ok()?;
                jobs.iter().for_each(|job| hash_job(job, &mut hasher));
            }
        }
        Some(hasher.finish())
    }
}

/// What changes of a job.
fn hash_job(job: &BulkJob, hasher: &mut DefaultHasher) {
    let counts = job.counts;
    (job.id.as_str(), job.state).hash(hasher);
    (counts.matched, counts.done, counts.skipped, counts.failed).hash(hasher);
}

/// The version that was read last, and when. Whoever reads it again holds the lock.
type LastVersion = Arc<tokio::sync::Mutex<Option<(Instant, Option<u64>)>>>;

/// The last versions of the subjects that streams watch.
#[derive(Default)]
pub(super) struct LiveVersions(Mutex<HashMap<LiveSubject, LastVersion>>);

impl LiveVersions {
    /// The last version of a subject, which a stream holds as long as it watches.
    fn of(&self, subject: &LiveSubject) -> LastVersion {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|_, last| Arc::strong_count(last) > 1);
        watched.entry(subject.clone()).or_default().clone()
    }
}

/// One stream.
struct EventStream {
    page: Arc<Page>,
    session: Option<Session>,
    subject: LiveSubject,
    asked_by: Option<ApiKeyName>,
    last: LastVersion,
    version: Option<u64>,
    looks: u32,
    _permit: OwnedSemaphorePermit,
    _place: Option<PlaceOfKey>,
}

/// `GET /ui/events?of=SUBJECT`: an event `change` whenever the subject has changed.
pub(super) async fn events(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let subject = visit.parameter("of");
    let subject = subject.and_then(|text| LiveSubject::parse(&text));
    let subject = subject.ok_or(PageProblem::Route)?;
    if !subject.is_open_to(&visit) {
        return Err(PageProblem::Forbidden);
    }
    let permit = page.streams.clone().try_acquire_owned();
    let permit = permit.map_err(|_| PageProblem::Busy)?;
    let place = match visit.session {
        None => None,
        Some(_) => {
            let name = visit.caller()?.name.clone();
            let place = page.streams_by_key.take(name, MOST_STREAMS_OF_KEY);
            Some(place.map_err(|_| PageProblem::Busy)?)
        }
    };
    let mut watched = EventStream {
        last: page.versions.of(&subject),
        session: visit.session.clone(),
        asked_by: visit.caller()?.name.clone(),
        page,
        subject,
        version: None,
        looks: 0,
        _permit: permit,
        _place: place,
    };
    watched.version = watched.read().await;
    let begun = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b"retry: 3000\n\n")) });
    let changes = stream::unfold(watched, async |mut watched| {
        let text = watched.next().await?;
        Some((Ok(Bytes::from_static(text.as_bytes())), watched))
    });
    let body = Body::from_stream(futures_util::StreamExt::chain(begun, Box::pin(changes)));
    let content_type = HeaderValue::from_static("text/event-stream");
    // Some proxies hold back what they have not been told to pass on.
    let buffering = ("x-accel-buffering", HeaderValue::from_static("no"));
    let mut response = body.into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response.headers_mut().insert(buffering.0, buffering.1);
    Ok(response)
}

impl EventStream {
    /// The version of the subject, read by this stream or lately by another one.
    async fn read(&self) -> Option<u64> {
        let mut last = self.last.lock().await;
        if let Some((at, version)) = *last
            && at.elapsed() < FRESH
        {
            return version;
        }
        let version = self.subject.version(&self.page, self.asked_by.as_ref());
        let version = version.await;
        *last = Some((Instant::now(), version));
        version
    }

    /// The next text of the stream; `None` if it ends.
    async fn next(&mut self) -> Option<&'static str> {
        let stop = self.page.stop.clone();
        loop {
            stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
                .await?;
            let signer = self.page.signer().ok()?;
            // The key may have ended meanwhile.
            let now_ms = self.page.service.clock().now_ms();
            let session = self.session.as_ref();
            let is_open = session.is_none_or(|session| now_ms < session.ends_ms);
            self.page
                .caller(signer, session, false)
                .ok()
                .filter(|_| is_open)?;
            let version = stop.run_until_cancelled(self.read()).await?;
            self.looks += 1;
            if version.is_some() && version != self.version {
                self.version = version;
                self.looks = 0;
                return Some("event: change\ndata:\n\n");
            }
            if self.looks >= LOOKS_TO_HEARTBEAT {
                self.looks = 0;
                return Some(": still here\n\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_survives_its_written_form() {
        let key = Key::new("t", "a/b").expect("a key");
        let lane = Lane::parse("https://shop.example:8443").expect("a lane");
        let endpoint = EndpointName::parse("shop").expect("a name");
        let job = LiveSubject::Job(JobId::parse("0a-1").expect("an id"));
        for subject in [
            LiveSubject::Notification(key),
            LiveSubject::Lane(lane),
            LiveSubject::Endpoint(endpoint),
            LiveSubject::Overview,
            job,
            LiveSubject::Jobs,
        ] {
            assert_eq!(LiveSubject::parse(&subject.to_text()), Some(subject));
        }
        for other in [
            "",
            "notification",
            "notification/t",
            "keys",
            "overview/x",
            "lane/x",
            "job/",
            "job/A",
        ] {
            assert_eq!(LiveSubject::parse(other), None, "{other}");
        }
    }
}

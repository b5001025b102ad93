//! Sends spans to a collector: OTLP over HTTP, in protobuf.
//!
//! One task takes spans from the queue, up to `BATCH_SPANS` for a request, which it sends after `GATHER` at the latest. If
//! the collector cannot be reached, or answers that it is overloaded, the request is made again after growing waits, as the
//! protocol asks for; meanwhile the queue fills up. After the last try the spans are dropped and counted. Nothing else waits
//! for the collector.
//!
//! The log has a line when the export begins to fail, and one when it works again.

use super::collector::Collector;
use super::otlp::{refused_spans, request_body, resource};
use super::queue::EndedSpan;
use super::tracer::Tracer;
use crate::config::TraceConfig;
use crate::telemetry::span_counters::{SpanCounters, SpanLoss};
use opentelemetry_proto::tonic::resource::v1::Resource;
use reqwest::header::RETRY_AFTER;
use reqwest::{Response, StatusCode};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Maximum number of spans in one request.
const BATCH_SPANS: usize = 512;
/// How long a span waits at most for others that are sent with it.
const GATHER: Duration = Duration::from_secs(1);
/// Maximum time to read an answer of which the status has come. While it is read, no other request is made.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// The waits before a request is made again.
const WAITS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];
/// The longest wait that a collector is granted that asks for one.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long a stop waits at most for the spans that are in the queue.
const STOP_TIME: Duration = Duration::from_secs(2);
/// Maximum bytes that are read of an answer.
const LARGEST_ANSWER: usize = 64 * 1024;
/// Maximum characters of what a collector says that the log has.
const LONGEST_REASON: usize = 200;

/// The task that sends spans.
pub struct TraceExporter {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// The result of one request.
enum SendOutcome {
    /// The collector has taken the spans, but for so many of them.
    Taken(usize, String),
    /// It may take them later, after this wait if it has named one.
    Later(Option<Duration>, String),
    /// It does not take them.
    Refused(String),
}

struct SpanSender {
    collector: Collector,
    resource: Resource,
    counters: SpanCounters,
    stop: CancellationToken,
    is_failing: bool,
}

impl TraceExporter {
    /// Starts the task if the settings name a collector. `instance` is the name of this process. Without one, no span is
    /// recorded.
    ///
    /// # Errors
    /// If the HTTP client cannot be made.
    pub fn start(
        config: &TraceConfig,
        instance: &str,
        counters: SpanCounters,
    ) -> anyhow::Result<(Tracer, Option<Self>)> {
        let (Some(endpoint), Some(collector)) = (&config.endpoint, Collector::of(config)?) else {
            return Ok((Tracer::default(), None));
        };
        let (tracer, queue) = Tracer::new(config.sample_ratio, counters.clone());
        let stop = CancellationToken::new();
        let sender = SpanSender {
            collector,
            resource: resource(instance),
            counters,
            stop: stop.clone(),
            is_failing: false,
        };
        tracing::info!(
            collector = %endpoint,
            sample_ratio = config.sample_ratio,
            "traces are recorded and sent to a collector"
        );
        let task = tokio::spawn(sender.run(queue));
        Ok((tracer, Some(Self { stop, task })))
    }

    /// Sends what is in the queue, and ends. Waits for two seconds at most. Spans that end later are dropped.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(
                %error,
                "the exporter of traces had panicked, which is a bug; the server continued without it"
            );
        }
    }
}

impl SpanSender {
    async fn run(mut self, mut queue: mpsc::Receiver<EndedSpan>) {
        let stop = self.stop.clone();
        // A request that is in flight at a stop is given time too.
        let mut ending = pin!(async {
            stop.cancelled().await;
            tokio::time::sleep(STOP_TIME).await;
        });
        let mut unsent = 0;
        while let Some(spans) = next(&mut queue, &stop).await {
            let many = spans.len();
            let body = request_body(&self.resource, spans).into();
            tokio::select! {
                biased;
                is_known = self.send_again(body, many) => if !is_known {
                    unsent += many;
                },
                () = &mut ending => {
                    unsent += many;
                    break;
                }
            }
        }
        queue.close();
        while let Some(spans) = rest(&mut queue) {
            unsent += spans.len();
        }
        if unsent > 0 {
            self.counters.dropped(SpanLoss::Stopped, unsent);
            tracing::warn!(
                spans = unsent,
                "the server stops, and its last traces could not be sent to the collector"
            );
        }
    }

    /// Sends spans, again if that may help. `false` if the server stops before that.
    async fn send_again(&mut self, body: bytes::Bytes, many: usize) -> bool {
        let mut waits = WAITS.into_iter();
        loop {
            let (loss, why) = match self.send(body.clone()).await {
                SendOutcome::Taken(refused, why) => {
                    self.taken(many, refused, &why);
                    return true;
                }
                SendOutcome::Refused(why) => (SpanLoss::Refused, why),
                SendOutcome::Later(asked, why) => match waits.next() {
                    Some(wait) => {
                        self.failing(&why);
                        let wait = asked.map_or(wait, |asked| asked.min(LONGEST_WAIT));
                        let waiting = tokio::time::sleep(wait);
                        match self.stop.run_until_cancelled(waiting).await {
                            Some(()) => continue,
                            None => return false,
                        }
                    }
                    None => (SpanLoss::CollectorAway, why),
                },
            };
            self.failing(&why);
            self.counters.dropped(loss, many);
            return true;
        }
    }

    async fn send(&self, body: bytes::Bytes) -> SendOutcome {
        let answer = match self.collector.post(body).await {
            Ok(answer) => answer,
            Err(why) => return SendOutcome::Later(None, why),
        };
        let status = answer.status();
        match status {
            StatusCode::OK => {
                // One that never ends its answer has taken the spans.
                let reading = tokio::time::timeout(ANSWER_TIME, start_of(answer)).await;
                let (refused, why) = refused_spans(&reading.unwrap_or_default());
                SendOutcome::Taken(refused, why.chars().take(LONGEST_REASON).collect())
            }
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                let asked = answer.headers().get(RETRY_AFTER);
                let asked = asked.and_then(|asked| asked.to_str().ok()?.parse().ok());
                SendOutcome::Later(
                    asked.map(Duration::from_secs),
                    format!("it answered {status}"),
                )
            }
            _ if status.is_success() => SendOutcome::Taken(0, String::new()),
            // The protocol allows no other try.
            _ => SendOutcome::Refused(format!("it answered {status}")),
        }
    }

    /// Counts spans that were taken but for those that the collector refused.
    fn taken(&mut self, many: usize, refused: usize, why: &str) {
        let refused = refused.min(many);
        self.counters.exported(many - refused);
        self.counters.dropped(SpanLoss::Refused, refused);
        if refused > 0 {
            self.failing(&format!("it refused {refused} of {many} spans: {why}"));
        } else if std::mem::take(&mut self.is_failing) {
            tracing::info!("the collector takes traces again");
        }
    }

    fn failing(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                collector = %self.collector.url(),
                reason,
                "traces, or some of them, cannot be sent to the collector; a request is made four times at most, then its spans \
                 are dropped; deliveries go on"
            );
        }
    }
}

/// The spans of the next request. After a stop, what is left in the queue. `None` if there are none any more.
async fn next(
    queue: &mut mpsc::Receiver<EndedSpan>,
    stop: &CancellationToken,
) -> Option<Vec<EndedSpan>> {
    if !stop.is_cancelled()
        && let Some(spans) = gather(queue, stop).await
    {
        return Some(spans);
    }
    queue.close();
    rest(queue)
}

/// Takes spans from the queue until there are enough for a request, or the first one has waited long enough. `None` when the
/// server stops.
async fn gather(
    queue: &mut mpsc::Receiver<EndedSpan>,
    stop: &CancellationToken,
) -> Option<Vec<EndedSpan>> {
    let first = stop.run_until_cancelled(queue.recv()).await??;
    let mut spans = vec![first];
    let until = tokio::time::Instant::now() + GATHER;
    while spans.len() < BATCH_SPANS {
        let room = BATCH_SPANS - spans.len();
        let more = queue.recv_many(&mut spans, room);
        let more = tokio::time::timeout_at(until, stop.run_until_cancelled(more));
        match more.await {
            Ok(Some(many)) if many > 0 => {}
            Ok(_) | Err(_) => break,
        }
    }
    Some(spans)
}

/// The spans that are left in a closed queue, as many as a request takes.
fn rest(queue: &mut mpsc::Receiver<EndedSpan>) -> Option<Vec<EndedSpan>> {
    let spans = std::iter::from_fn(|| queue.try_recv().ok());
    let spans = Vec::from_iter(spans.take(BATCH_SPANS));
    (!spans.is_empty()).then_some(spans)
}

/// The first bytes of an answer. What fails while it is read is left out: the status has said that the spans were taken.
async fn start_of(mut answer: Response) -> Vec<u8> {
    let mut read = Vec::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        let room = LARGEST_ANSWER - read.len();
        read.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if read.len() == LARGEST_ANSWER {
            break;
        }
    }
    read
}

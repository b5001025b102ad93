//! Services that register notifications and write down exactly what they were answered.
//!
//! They do what callers should: after a 503, a broken connection or no answer they send the very
//! same registration again, at whichever server is there. Some ask only once and go away. What is to be
//! done by hand to a notification is asked for until it is done or too late (`by_hand`).

use super::plan::{Change, Plan};
use crate::support::chance::Chance;
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Callers at work at the same time.
const CALLERS: u64 = 6;
/// How long a caller waits for an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long it waits before it asks again. `Retry-After` says a second; these are impatient.
pub const AGAIN_MS: std::ops::Range<u64> = 10..150;
/// How often it asks until it counts as a fault that it never got a 2xx: for minutes. On a busy machine Redis may
/// be set back every few seconds for so long, and for the time of a lease after each time what was due then
/// cannot be cancelled.
pub const MOST_TRIES: u32 = 5_000;
/// Most registrations in one request.
const LARGEST_BATCH: u64 = 20;

/// What the owner of one notification was answered.
#[derive(Debug, Clone, Default)]
pub struct Answered {
    /// A registration was answered with a 2xx.
    pub accepted: bool,
    /// By which server.
    pub by: Option<String>,
    /// The change by hand that its plan has was answered with a 2xx, then.
    pub changed: Option<Instant>,
    /// How often that change was asked for and answered 503 or not at all: it may have been made all the
    /// same.
    pub doubtful: u32,
}

/// What was answered to all.
#[derive(Debug, Default)]
pub struct Answers {
    /// By number, of every notification that was asked for.
    pub by_number: HashMap<u32, Answered>,
    /// Changes by hand that were answered with a 2xx.
    pub changes: BTreeMap<Change, usize>,
    /// Requests, those repeated included.
    pub requests: u64,
    /// Requests answered 503.
    pub unavailable: u64,
    /// Requests that got no answer: refused, broken off, too slow.
    pub unanswered: u64,
    /// Answers that should not have come.
    pub faults: Vec<String>,
}

/// Where the servers that run now listen.
#[derive(Debug, Default)]
pub struct Servers(RwLock<Vec<Option<String>>>);

impl Servers {
    /// Notes where one listens, or that it is away.
    pub fn set(&self, which: usize, url: Option<String>) {
        let mut urls = self.0.write().expect("not poisoned");
        if urls.len() <= which {
            urls.resize(which + 1, None);
        }
        urls[which] = url;
    }

    /// One that is there, other than this one if possible.
    pub fn any(&self, but: Option<&str>, chance: &mut Chance) -> Option<String> {
        let urls = self.0.read().expect("not poisoned");
        let there: Vec<&String> = urls.iter().flatten().collect();
        let others = there.iter().filter(|url| Some(url.as_str()) != but);
        let others: Vec<&String> = others.copied().collect();
        let among = if others.is_empty() { there } else { others };
        (!among.is_empty()).then(|| chance.pick(&among).to_string())
    }
}

/// The callers of one run.
pub struct Callers {
    seed: u64,
    most: u32,
    origins: Vec<String>,
    client: Client,
    servers: Arc<Servers>,
    is_long: AtomicBool,
    next: AtomicU32,
    pace: Semaphore,
    answers: Mutex<Answers>,
}

impl Callers {
    /// Callers for the notifications below `most`. They may register what [`Callers::allow`] allows.
    pub fn new(seed: u64, most: u32, origins: &[String], servers: Arc<Servers>) -> Arc<Self> {
        crate::support::install_tls();
        let client = Client::builder().no_proxy().timeout(ANSWER);
        Arc::new(Self {
            seed,
            most,
            origins: origins.to_vec(),
            client: client.build().expect("a client"),
            servers,
            is_long: AtomicBool::new(false),
            next: AtomicU32::new(0),
            pace: Semaphore::new(0),
            answers: Mutex::default(),
        })
    }

    /// The servers that run now.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The seed of their plans.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The run is a long one: those go away after their first answer who are of that kind, since the reconciler may take a minute for
    /// what they leave behind; and some of what they register is due after the horizon, two minutes later.
    pub fn run_is_long(&self) {
        self.is_long.store(true, Ordering::Relaxed);
    }

    fn is_long(&self) -> bool {
        self.is_long.load(Ordering::Relaxed)
    }

    /// Whether the caller of this one goes away, accepted or not.
    fn goes_away(&self, plan: &Plan) -> bool {
        plan.is_impatient && self.is_long()
    }

    /// Allows so many registrations more.
    pub fn allow(&self, many: u32) {
        self.pace.add_permits(many as usize);
    }

    /// What was answered so far.
    pub fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().expect("not poisoned")
    }

    /// Registers everything, and makes the changes by hand.
    pub async fn run(self: Arc<Self>) {
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            callers.spawn(
                self.clone()
                    .call(Chance::of_one(self.seed, u64::MAX - caller)),
            );
        }
        callers.join_all().await;
    }

    async fn call(self: Arc<Self>, mut chance: Chance) {
        let mut changing = JoinSet::new();
        loop {
            let wanted = if chance.percent(30) {
                u32::try_from(1 + chance.below(LARGEST_BATCH)).expect("small")
            } else {
                1
            };
            let plans = self.take(wanted).await;
            if plans.is_empty() {
                break;
            }
            let accepted = if wanted == 1 {
                self.register(plans, &mut chance).await
            } else {
                self.register_batch(plans, &mut chance).await
            };
            for plan in accepted {
                if let Some((change, after)) = plan.change {
                    let chance = Chance::of_one(self.seed, (1 << 32) | u64::from(plan.number));
                    let callers = self.clone();
                    changing.spawn(async move {
                        tokio::time::sleep(after).await;
                        callers.change(&plan, change, chance).await;
                    });
                }
            }
        }
        changing.join_all().await;
    }

    /// The next so many plans, as far as there are any.
    async fn take(&self, many: u32) -> Vec<Plan> {
        let first = self.next.fetch_add(many, Ordering::Relaxed).min(self.most);
        let end = (first + many).min(self.most);
        if first < end {
            let permits = self.pace.acquire_many(end - first).await;
            permits.expect("never closed").forget();
        }
        let plans = (first..end).map(|number| Plan::of(self.seed, number));
        match self.is_long() {
            true => plans.map(Plan::in_long_run).collect(),
            false => plans.collect(),
        }
    }

    async fn register(&self, plans: Vec<Plan>, chance: &mut Chance) -> Vec<Plan> {
        let plan = &plans[0];
        let body = plan.registration(&self.origins);
        self.answers().by_number.entry(plan.number).or_default();
        for _ in 0..MOST_TRIES {
            let url = self.servers.any(None, chance);
            let path = "/v1/notifications";
            match self
                .ask(url.as_deref(), Method::POST, path, Some(&body))
                .await
            {
                Some((200 | 201, _)) => {
                    self.accept(plan, url);
                    return plans;
                }
                Some((503, _)) | None => {}
                Some((status, problem)) => {
                    self.fault(format!("{} was answered {status}: {problem}", plan.id()));
                    return Vec::new();
                }
            }
            if self.goes_away(plan) {
                return Vec::new();
            }
            tokio::time::sleep(chance.millis(AGAIN_MS)).await;
        }
        self.fault(format!("{} was never accepted", plan.id()));
        Vec::new()
    }

    async fn register_batch(&self, plans: Vec<Plan>, chance: &mut Chance) -> Vec<Plan> {
        let mut left = plans;
        let mut accepted = Vec::new();
        for plan in &left {
            self.answers().by_number.entry(plan.number).or_default();
        }
        for _ in 0..MOST_TRIES {
            let items: Vec<Value> = left
                .iter()
                .map(|plan| plan.registration(&self.origins))
                .collect();
            let body = json!({ "notifications": items });
            let path = "/v1/notifications/batch";
            let url = self.servers.any(None, chance);
            match self
                .ask(url.as_deref(), Method::POST, path, Some(&body))
                .await
            {
                Some((200, answer)) => {
                    let results = answer["results"].as_array().cloned().unwrap_or_default();
                    if results.len() != left.len() {
                        self.fault(format!("{} items, but: {answer}", left.len()));
                        return accepted;
                    }
                    let mut again = Vec::new();
                    for (plan, result) in left.into_iter().zip(results) {
                        match result["status"].as_u64() {
                            Some(200 | 201) => {
                                self.accept(&plan, url.clone());
                                accepted.push(plan);
                            }
                            Some(503) => again.push(plan),
                            _ => self.fault(format!("{} was answered {result}", plan.id())),
                        }
                    }
                    left = again;
                }
                Some((503, _)) | None => {}
                Some((status, problem)) => {
                    self.fault(format!("a batch was answered {status}: {problem}"));
                    return accepted;
                }
            }
            left.retain(|plan| !self.goes_away(plan));
            if left.is_empty() {
                return accepted;
            }
            tokio::time::sleep(chance.millis(AGAIN_MS)).await;
        }
        self.fault(format!("{left:?} were never accepted"));
        accepted
    }

    /// One request to a server, if there is one; `None` without a complete answer.
    pub async fn ask(
        &self,
        url: Option<&str>,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Option<(u16, Value)> {
        let url = url?;
        self.answers().requests += 1;
        let mut request = self.client.request(method, format!("{url}{path}"));
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let whole = async |answer: Response| -> reqwest::Result<(u16, Value)> {
            let status = answer.status().as_u16();
            let bytes = answer.bytes().await?;
            Ok((
                status,
                serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            ))
        };
        let answer = match request.send().await {
            Ok(answer) => whole(answer).await,
            Err(error) => Err(error),
        };
        let mut answers = self.answers();
        match answer {
            Ok((status, body)) => {
                answers.unavailable += u64::from(status == 503);
                Some((status, body))
            }
            Err(_) => {
                answers.unanswered += 1;
                None
            }
        }
    }

    fn accept(&self, plan: &Plan, by: Option<String>) {
        let mut answers = self.answers();
        let answered = answers.by_number.entry(plan.number).or_default();
        answered.accepted = true;
        answered.by = by;
    }

    /// Writes down an answer that should not have come.
    pub fn fault(&self, fault: String) {
        self.answers().faults.push(fault);
    }
}

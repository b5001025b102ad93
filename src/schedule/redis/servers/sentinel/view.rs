//! What the sentinels have said, and which primary follows from it.

use crate::domain::redis_url::RedisHost;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A primary is doubted when most sentinels have not answered for so long. Each is asked several times in this time.
pub(super) const DOUBTED_AFTER: Duration = Duration::from_secs(3);
/// For how long the last answer of a sentinel that fails counts beside the answers of others.
pub(super) const REMEMBERED: Duration = Duration::from_secs(10);

/// What the sentinels have said.
#[derive(Debug)]
pub(super) struct SentinelView {
    pub(super) sentinels: Vec<SentinelSeen>,
    /// Since when they are asked.
    since: Instant,
    /// The primary, or why none is known. `None` until most sentinels have answered, or all have answered or failed.
    pub(super) chosen: Option<Result<RedisHost, String>>,
}

#[derive(Debug)]
pub(super) struct SentinelSeen {
    host: RedisHost,
    /// The result of the last question; `None` if none has ended yet.
    pub(super) status: Option<Result<(), String>>,
    /// The last answer, and when it came.
    pub(super) answer: Option<(NamedPrimary, Instant)>,
}

/// A sentinel's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedPrimary {
    /// The configuration epoch: each election has a higher one.
    pub(super) epoch: u64,
    pub(super) host: RedisHost,
}

impl SentinelView {
    pub(super) fn of(hosts: Vec<RedisHost>) -> Self {
        let seen = |host| SentinelSeen {
            host,
            status: None,
            answer: None,
        };
        Self {
            sentinels: hosts.into_iter().map(seen).collect(),
            since: Instant::now(),
            chosen: None,
        }
    }

    /// Whether most sentinels of the URL have answered lately, or could not yet. An election needs the votes of most of all
    /// sentinels, so if the URL names all, one of those that answer learns of it within a moment.
    pub(super) fn is_confirmed(&self) -> bool {
        if self.since.elapsed() < DOUBTED_AFTER {
            return true;
        }
        let lately = |seen: &&SentinelSeen| {
            let answer = seen.answer.as_ref();
            answer.is_some_and(|(_, at)| at.elapsed() < DOUBTED_AFTER)
        };
        self.sentinels.iter().filter(lately).count() * 2 > self.sentinels.len()
    }

    /// The primary with the highest epoch; of two with the same epoch, the one that more sentinels name.
    pub(super) fn choose(&self, name: &str) -> Option<Result<RedisHost, String>> {
        let answered = (self.sentinels.iter())
            .filter(|seen| matches!(seen.status, Some(Ok(()))))
            .count();
        let all_done = self.sentinels.iter().all(|seen| seen.status.is_some());
        if answered * 2 <= self.sentinels.len() && !all_done {
            return None;
        }
        let mut named: BTreeMap<&RedisHost, (u64, usize)> = BTreeMap::new();
        for seen in &self.sentinels {
            let Some((answer, at)) = &seen.answer else {
                continue;
            };
            if matches!(seen.status, Some(Ok(()))) || at.elapsed() < REMEMBERED {
                let (epoch, votes) = named.entry(&answer.host).or_default();
                match answer.epoch.cmp(epoch) {
                    std::cmp::Ordering::Greater => (*epoch, *votes) = (answer.epoch, 1),
                    std::cmp::Ordering::Equal => *votes += 1,
                    std::cmp::Ordering::Less => {}
                }
            }
        }
        let best = named.into_iter().max_by_key(|(_, rank)| *rank);
        Some(match best {
            Some((host, _)) => Ok(host.clone()),
            None => Err(self.why_none(name)),
        })
    }

    fn why_none(&self, name: &str) -> String {
        let why = |seen: &SentinelSeen| match &seen.status {
            Some(Err(why)) => format!("{}: {why}", seen.host),
            Some(Ok(())) | None => format!("{}: no answer", seen.host),
        };
        let why: Vec<String> = self.sentinels.iter().map(why).collect();
        format!(
            "no sentinel in --redis names a primary `{name}` ({})",
            why.join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> RedisHost {
        RedisHost {
            host: name.to_string(),
            port: 1,
        }
    }

    /// What is chosen after these answers: an epoch and a host, an error, or nothing yet.
    fn chosen(answers: &[Option<Result<(u64, &str), &str>>]) -> Option<Result<String, String>> {
        let mut view = SentinelView::of(answers.iter().map(|_| host("sentinel")).collect());
        for (seen, answer) in view.sentinels.iter_mut().zip(answers) {
            match answer {
                None => {}
                Some(Ok((epoch, name))) => {
                    let (epoch, host) = (*epoch, host(name));
                    seen.status = Some(Ok(()));
                    seen.answer = Some((NamedPrimary { epoch, host }, Instant::now()));
                }
                Some(Err(why)) => seen.status = Some(Err(why.to_string())),
            }
        }
        let chosen = view.choose("main");
        chosen.map(|chosen| chosen.map(|host| host.host))
    }

    #[test]
    fn the_primary_with_the_highest_epoch_is_chosen_when_most_sentinels_have_answered() {
        let named = |name: &str| Some(Ok(name.to_string()));
        let (a1, a2, b2) = (Some(Ok((1, "a"))), Some(Ok((2, "a"))), Some(Ok((2, "b"))));
        let failed = Some(Err("refused"));
        assert_eq!(chosen(&[None]), None);
        assert_eq!(chosen(&[a1]), named("a"));
        assert_eq!(chosen(&[a1, None, None]), None);
        assert_eq!(chosen(&[a1, failed, None]), None);
        assert_eq!(chosen(&[a1, None]), None);
        assert_eq!(chosen(&[a1, failed, failed]), named("a"));
        assert_eq!(chosen(&[a1, a1, None]), named("a"));
        assert_eq!(chosen(&[a1, b2, None]), named("b"));
        assert_eq!(chosen(&[b2, a1, a1]), named("b"));
        assert_eq!(chosen(&[a2, b2, b2]), named("b"));
        assert_eq!(chosen(&[b2, a2, a2]), named("a"));
        let Some(Err(why)) = chosen(&[failed, failed]) else {
            panic!("a primary");
        };
        assert!(
            why.contains("`main`") && why.contains("sentinel:1: refused"),
            "{why}"
        );
    }

    #[test]
    fn a_primary_is_confirmed_by_answers_of_most_sentinels_that_are_not_old() {
        let check = |ages_s: &[Option<u64>], expected| {
            let mut view = SentinelView::of(ages_s.iter().map(|_| host("sentinel")).collect());
            assert!(view.is_confirmed(), "they had no time");
            let earlier = Instant::now().checked_sub(Duration::from_secs(15));
            view.since = earlier.expect("it runs for longer");
            for (seen, age_s) in view.sentinels.iter_mut().zip(ages_s) {
                let named = NamedPrimary {
                    epoch: 1,
                    host: host("a"),
                };
                seen.answer = age_s.map(|age_s| {
                    let at = Instant::now().checked_sub(Duration::from_secs(age_s));
                    (named, at.expect("it runs for longer"))
                });
            }
            assert_eq!(view.is_confirmed(), expected, "{ages_s:?}");
        };
        check(&[Some(0)], true);
        check(&[Some(1)], true);
        check(&[Some(15)], false);
        check(&[None], false);
        check(&[Some(0), Some(15)], false);
        check(&[Some(0), Some(15), Some(1)], true);
        check(&[Some(0), Some(15), None], false);
    }
}

//! The master key and the signing keys: whether they can be read, and are those of the journal.

use super::finding::Finding;
use crate::clock::{Clock as _, SystemClock};
use crate::config::{
    ConfigError, JournalConfig, MASTER_KEY_FILE, ServeConfig, SettingsReview, read_master_key,
    read_new_master_key,
};
use crate::domain::default_keys::DefaultKeys;
use crate::domain::endpoint::Endpoint;
use crate::domain::master_key::MasterKey;
use crate::domain::signature::SecretOrigin;
use crate::endpoints::first_default_key::DefaultKeysError;
use crate::journal::{Journal, JournalError, MASTER_KEY};
use crate::keyring::Keyring;

const MASTER: &str = "master key";
const SIGNING: &str = "signing keys";
const OTHER_KEY: &str = "give the server the master key of the journal: --master-key-file FILE";
/// Endpoints read in one call.
const PAGE: usize = 1_000;
/// Maximum number of endpoints whose keys are tried.
const MOST_TRIED: usize = 20_000;
/// Maximum number of endpoints that a finding names.
const MOST_NAMED: usize = 10;

/// Compares the keys of the settings with those of the journal. `journal`: if it can be read.
pub async fn examine(review: &SettingsReview, journal: Option<&dyn Journal>) -> Vec<Finding> {
    match try_to_examine(review, journal).await {
        Ok(findings) => findings,
        Err(error) => {
            let text = format!("the keys in the journal cannot be read: {error}");
            vec![Finding::problem(SIGNING, text, "see the message")]
        }
    }
}

async fn try_to_examine(
    review: &SettingsReview,
    journal: Option<&dyn Journal>,
) -> Result<Vec<Finding>, JournalError> {
    let config = &review.config;
    let remembered = match journal {
        Some(journal) => journal.recall(MASTER_KEY).await?,
        None => None,
    };
    let (keyring, finding) = match master_key(config, remembered.as_deref()) {
        Ok(found) => found,
        Err(error) => {
            let mend =
                "restore the file from a backup, or name the right one with --master-key-file";
            return Ok(vec![Finding::problem(MASTER, error.to_string(), mend)]);
        }
    };
    let mut findings = vec![finding];
    let Some(journal) = journal else {
        findings.push(without_journal(review));
        return Ok(findings);
    };
    let keys = journal.default_keys().await?;
    findings.push(default_keys(review, &keys, &keyring));
    findings.extend(endpoint_keys(journal, &keyring).await?);
    Ok(findings)
}

/// The keyring of a server with these settings, as `app::master_key` makes it, but nothing is made or renamed.
pub(super) fn master_key(
    config: &ServeConfig,
    remembered: Option<&str>,
) -> Result<(Keyring, Finding), ConfigError> {
    let in_data_dir = matches!(config.journal, JournalConfig::Sqlite(_));
    let own = match &config.master_key {
        Some(given) => Some(given.clone()),
        None if in_data_dir => read_master_key(&config.data_dir)?,
        None => None,
    };
    let is_that = |key: &Option<MasterKey>| {
        let fingerprint = key.as_ref().map(MasterKey::fingerprint);
        fingerprint.is_some() && fingerprint.as_deref() == remembered
    };
    let other = config.other_master_key.clone();
    let new = match in_data_dir && !is_that(&own) && !is_that(&other) {
        true => read_new_master_key(&config.data_dir)?.filter(|new| is_that(&Some(new.clone()))),
        false => None,
    };
    let finding = match (remembered, &own) {
        (None, Some(_)) => Finding::ok(
            MASTER,
            "it can be read; the journal has nothing encrypted yet",
        ),
        (None, None) if in_data_dir => Finding::ok(
            MASTER,
            "there is none yet; the server makes one when it is needed",
        ),
        (None, None) => Finding::ok(
            MASTER,
            "none is given, so endpoints can have no signing keys of their own; --master-key-file gives one",
        ),
        (Some(_), _) if is_that(&own) || is_that(&other) => {
            Finding::ok(MASTER, "it is that of the journal")
        }
        (Some(_), _) if new.is_some() => Finding::ok(
            MASTER,
            "a change of the master key was interrupted at its end; the next start completes it",
        ),
        (Some(remembered), Some(own)) => {
            let text = format!(
                "the journal was encrypted with the master key of fingerprint {remembered}, but that of this server has {}",
                own.fingerprint()
            );
            Finding::problem(MASTER, text, OTHER_KEY)
        }
        (Some(remembered), None) => {
            let missing = match in_data_dir {
                true => {
                    let path = config.data_dir.join(MASTER_KEY_FILE);
                    format!("there is no file {}", path.display())
                }
                false => "none is given".to_string(),
            };
            let text = format!(
                "the journal was encrypted with the master key of fingerprint {remembered}, but this server has none ({missing})"
            );
            Finding::problem(MASTER, text, OTHER_KEY)
        }
    };
    let keyring = match new.or(own) {
        Some(own) => Keyring::with(own).with_other(other),
        None => other.map_or_else(Keyring::default, Keyring::with),
    };
    Ok((keyring, finding))
}

fn without_journal(review: &SettingsReview) -> Finding {
    match (&review.config.journal, &review.signing_secret) {
        (JournalConfig::None, _) => Finding::unknown(
            SIGNING,
            "without a journal they are kept in Redis, and compared when a server starts",
            "see what a server logs at its start",
        ),
        (_, Some(_)) => Finding::ok(SIGNING, "the signing secret can be read"),
        (_, None) => Finding::ok(SIGNING, "there is none yet; the first start makes one"),
    }
}

fn default_keys(review: &SettingsReview, keys: &DefaultKeys, keyring: &Keyring) -> Finding {
    if keys.is_empty() {
        return without_journal(review);
    }
    let is_given = review.config.delivery.secret_origin == SecretOrigin::Given;
    if let Some(secret) = review.signing_secret.as_ref().filter(|_| is_given)
        && !keys.may_have(&secret.fingerprint())
    {
        let text = DefaultKeysError::UnknownSecret(keys.ids()).to_string();
        let mend = "leave --signing-secret out; then the default keys of the journal sign";
        return Finding::problem(SIGNING, text, mend);
    }
    let unreadable = keys.unreadable().len();
    let closed = keys
        .kept()
        .filter(|kept| keyring.open_default(&kept.key).is_err());
    let (closed, all) = (closed.count(), keys.all().len());
    if closed + unreadable > 0 {
        let text = format!(
            "{} of the default keys cannot be opened with this master key, so nothing can be signed with them",
            closed + unreadable
        );
        return Finding::problem(SIGNING, text, OTHER_KEY);
    }
    Finding::ok(
        SIGNING,
        format!("the default keys of the journal can be opened ({all})"),
    )
}

/// Tries the keys of the endpoints.
async fn endpoint_keys(
    journal: &dyn Journal,
    keyring: &Keyring,
) -> Result<Option<Finding>, JournalError> {
    const SUBJECT: &str = "endpoints";
    let now_ms = SystemClock.now_ms();
    let (mut after, mut tried, mut unusable) = (0, 0, Vec::new());
    loop {
        let rows = journal.endpoints_after(after, PAGE).await?;
        for row in &rows {
            match &row.read {
                Ok(stored) if stored.is_removed => continue,
                Ok(stored) if can_open(&stored.endpoint, keyring, now_ms) => {}
                Ok(_) | Err(_) => unusable.push(row.name.clone()),
            }
            tried += 1;
        }
        match rows.last() {
            Some(last) if rows.len() == PAGE && tried < MOST_TRIED => after = last.number,
            Some(_) | None => break,
        }
    }
    if tried == 0 {
        return Ok(None);
    }
    if unusable.is_empty() {
        let text = format!("endpoints whose keys can be opened: {tried}");
        return Ok(Some(Finding::ok(SUBJECT, text)));
    }
    let many = unusable.len();
    unusable.truncate(MOST_NAMED);
    let more = if many > MOST_NAMED { ", ..." } else { "" };
    let text = format!(
        "the keys of {many} endpoints cannot be opened, so nothing is sent to them: {}{more}",
        unusable.join(", ")
    );
    let mend = "give the server the master key of the journal, or set the keys again: `ringback endpoint key add`";
    Ok(Some(Finding::problem(SUBJECT, text, mend)))
}

fn can_open(endpoint: &Endpoint, keyring: &Keyring, now_ms: i64) -> bool {
    let name = endpoint.name.as_str();
    let mut signing = endpoint.keys.signing_at(now_ms);
    let identity = endpoint
        .settings
        .tls
        .as_ref()
        .and_then(|tls| tls.identity());
    signing.all(|key| keyring.open(name, key).is_ok())
        && identity.is_none_or(|own| keyring.open_client_key(name, &own.sealed_key).is_ok())
}

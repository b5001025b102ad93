//! Which default keys servers have that start at the same moment: each step of one while the other is between two of its
//! own.

use super::{Place, Postgres, Redis, START_MS, Sqlite, fresh_postgres};
use ringback::domain::master_key::MasterKey;
use ringback::domain::signature::{SecretOrigin, SigningSecret};
use ringback::endpoints::default_key_store::{DefaultKeyStore, DefaultKeysInSchedule};
use ringback::endpoints::default_keys::DefaultKeyring;
use ringback::endpoints::first_default_key::DefaultKeysError;
use ringback::endpoints::server_secret::ServerSecret;
use ringback::keyring::Keyring;
use ringback::schedule::recoverable::{Inspection, Recoverable as _};
use zeroize::Zeroizing;

contract!(@ sqlite, Sqlite(tempfile::tempdir().expect("a directory")),
    of_two_with_different_secrets_the_second_ends,
    two_that_were_given_no_secret_have_the_same_key,
    of_two_with_different_master_keys_the_second_ends,
);
contract!(@ postgres, Postgres(fresh_postgres()),
    of_two_with_different_secrets_the_second_ends,
    two_that_were_given_no_secret_have_the_same_key,
    of_two_with_different_master_keys_the_second_ends,
);
contract!(@ redis, Redis::with(1),
    of_two_with_different_secrets_the_second_ends,
    two_that_were_given_no_secret_have_the_same_key,
    of_two_with_different_master_keys_the_second_ends,
);

fn keyring(byte: u8) -> Keyring {
    Keyring::with(MasterKey::from_random(Zeroizing::new([byte; 32])))
}

fn own(byte: u8, origin: SecretOrigin) -> ServerSecret {
    ServerSecret {
        secret: SigningSecret::from_random(&[byte; 32]),
        origin,
    }
}

/// Opens the default keys for a server with this secret, before its schedule is inspected.
async fn opened(
    store: &DefaultKeyStore,
    own: ServerSecret,
    keyring: &Keyring,
) -> Result<DefaultKeyring, DefaultKeysError> {
    match store.clone() {
        DefaultKeyStore::Schedule(schedule) => {
            DefaultKeyring::open_in_schedule(own, schedule, keyring, START_MS).await
        }
        journal @ DefaultKeyStore::Journal(_) => {
            DefaultKeyring::open(own, journal, keyring, START_MS).await
        }
    }
}

async fn of_two_with_different_secrets_the_second_ends(place: &impl Place) {
    let (store, keyring) = (place.open_default_keys().await, keyring(1));
    let one = opened(&store, own(1, SecretOrigin::Given), &keyring).await;
    let two = opened(&store, own(2, SecretOrigin::Given), &keyring).await;
    let one = one.expect("opened");
    one.complete(&keyring, START_MS).await.expect("started");
    let ended = match two {
        Ok(two) => two.complete(&keyring, START_MS).await.err(),
        Err(error) => Some(error),
    };
    assert!(
        matches!(&ended, Some(DefaultKeysError::UnknownSecret(_))),
        "{ended:?}"
    );
    assert_eq!(store.read().await.expect("read"), one.keys());
}

async fn two_that_were_given_no_secret_have_the_same_key(place: &impl Place) {
    let (store, keyring) = (place.open_default_keys().await, keyring(1));
    let one = opened(&store, own(1, SecretOrigin::Kept), &keyring).await;
    let two = opened(&store, own(2, SecretOrigin::Kept), &keyring).await;
    let (one, two) = (one.expect("opened"), two.expect("opened"));
    // For journals, the first was given when the first server opened it.
    for server in [&two, &one] {
        server.complete(&keyring, START_MS).await.expect("started");
    }
    assert_eq!(one.keys(), two.keys());
    assert_eq!(one.keys().all().len(), 1);
    assert_eq!((one.warning(), two.warning()), (None, None));
}

async fn of_two_with_different_master_keys_the_second_ends(place: &impl Place) {
    let store = place.open_default_keys().await;
    let keyrings = [keyring(1), keyring(2)];
    let one = opened(&store, own(1, SecretOrigin::Kept), &keyrings[0]).await;
    let two = opened(&store, own(2, SecretOrigin::Kept), &keyrings[1]).await;
    let (one, two) = (one.expect("opened"), two.expect("opened"));
    one.complete(&keyrings[0], START_MS).await.expect("started");
    let ended = two.complete(&keyrings[1], START_MS).await;
    assert!(
        matches!(ended, Err(DefaultKeysError::OtherMasterKey)),
        "{ended:?}"
    );
    assert_eq!(one.warning(), None);
}

#[tokio::test]
async fn a_server_that_signs_with_its_own_secret_is_not_overtaken_by_a_first_key() {
    let place = Redis::with(1);
    let (schedules, master) = ([place.schedule().await, place.schedule().await], keyring(1));
    let opened = async |number: usize, keyring: &Keyring| {
        let schedule = DefaultKeysInSchedule::of(schedules[number].clone());
        let schedule = schedule.expect("it keeps default keys");
        let own = own(u8::from(number == 1), SecretOrigin::Given);
        DefaultKeyring::open_in_schedule(own, schedule, keyring, START_MS).await
    };
    let inspected = async |number: usize| schedules[number].inspect(false).await;
    // This one is about to give the first key, so the inspection does not compare it.
    let giving = opened(1, &master).await.expect("opened");
    assert_eq!(inspected(1).await.expect("looked"), Inspection::Whole);
    let without = Keyring::default();
    let signing = opened(0, &without).await.expect("opened");
    assert_eq!(inspected(0).await.expect("looked"), Inspection::Whole);
    signing.complete(&without, START_MS).await.expect("started");
    let ended = giving.complete(&master, START_MS).await;
    assert!(
        matches!(ended, Err(DefaultKeysError::OtherSecretSigns)),
        "{ended:?}"
    );
    assert!(signing.keys().is_empty() && signing.warning().is_none());
    // Started again, it is compared.
    opened(1, &master).await.expect("opened");
    assert!(inspected(1).await.is_err(), "the other one is alive");
}

use super::*;
use crate::domain::endpoint::{EndpointName, EndpointSettings};
use crate::domain::endpoint_keys::EndpointKeys;
use crate::domain::signers::DefaultSigner;

fn keyring(byte: u8) -> Keyring {
    Keyring::with(MasterKey::from_random(Zeroizing::new([byte; 32])))
}

fn endpoint(keys: EndpointKeys) -> Endpoint {
    let settings = EndpointSettings::from_text(r#"{"url":"https://shop.example/n"}"#);
    Endpoint {
        name: EndpointName::parse("shop-1").expect("a name"),
        version: 1,
        settings: settings.expect("settings"),
        keys,
        created_ms: 0,
        changed_ms: 0,
    }
}

fn default_signers() -> Arc<DefaultSigners> {
    let bytes = Zeroizing::new([9; 32]);
    let key = DefaultSigner {
        id: "default_1".into(),
        key: SigningKey::from_random(KeyKind::Symmetric, bytes),
        signs_until_ms: None,
    };
    Arc::new(DefaultSigners::of(vec![key]))
}

#[test]
fn a_default_key_is_no_key_of_an_endpoint() {
    let key = keyring(1).generate(KeyKind::Ed25519).expect("made");
    let sealed = keyring(1).seal_default(&key, 7).expect("sealed").key;
    assert!(sealed.id.starts_with("default_"), "{}", sealed.id);
    let opened = keyring(1).open_default(&sealed).expect("opened");
    assert!(opened.is_same(&key));
    assert!(keyring(1).open("shop-1", &sealed).is_err());
    assert!(keyring(2).open_default(&sealed).is_err());
    let of_endpoint = keyring(1).seal("shop-1", &key, 7).expect("sealed").key;
    assert!(keyring(1).open_default(&of_endpoint).is_err());
}

#[test]
fn a_sealed_key_signs_with_the_same_master_key_alone() {
    let key = keyring(1).generate(KeyKind::Ed25519).expect("made");
    let sealed = keyring(1).seal("shop-1", &key, 0).expect("sealed");
    assert_eq!(Some(sealed.master_key), keyring(1).fingerprint());
    assert!(!sealed.key.sealed.contains(&key.expose()[5..20]));
    let id = sealed.key.id.clone();
    let keys = EndpointKeys::default().with_added(sealed.key, 0, 10);
    let endpoint = endpoint(keys.expect("added"));
    let default = default_signers();
    let signers = keyring(1).signers(&endpoint, Some(default), 9);
    let signers = signers.expect("signers");
    assert_eq!(signers.ids().join(" "), format!("{id} default_1"));
    let signers = keyring(1).signers(&endpoint, None, 10).expect("signers");
    assert_eq!(signers.ids().join(" "), id);
    for other in [keyring(2), Keyring::default()] {
        let unusable = other.signers(&endpoint, None, 9);
        let unusable = unusable.expect_err("another master key");
        assert_eq!(unusable.key_id, id);
    }
}

#[test]
fn a_sealed_key_is_bound_to_what_its_row_says() {
    for kind in [KeyKind::Symmetric, KeyKind::Ed25519] {
        let key = keyring(1).generate(kind).expect("made");
        let sealed = keyring(1).seal("shop-1", &key, 0).expect("sealed").key;
        assert!(keyring(1).open("shop-1", &sealed).is_ok());
        let other_kind = match kind {
            KeyKind::Symmetric => KeyKind::Ed25519,
            KeyKind::Ed25519 => KeyKind::Symmetric,
        };
        let public = keyring(1)
            .generate(KeyKind::Ed25519)
            .expect("made")
            .public_key();
        let changed = [
            EndpointKey {
                kind: other_kind,
                ..sealed.clone()
            },
            EndpointKey {
                public_key: public,
                ..sealed.clone()
            },
            EndpointKey {
                id: "key_0".to_string(),
                ..sealed.clone()
            },
        ];
        for changed in changed {
            assert!(keyring(1).open("shop-1", &changed).is_err(), "{changed:?}");
        }
        assert!(keyring(1).open("shop-2", &sealed).is_err());
        let prolonged = EndpointKey {
            signs_until_ms: Some(1),
            ..sealed
        };
        assert!(
            keyring(1).open("shop-1", &prolonged).is_ok(),
            "a rotation changes that"
        );
    }
}

#[test]
fn two_master_keys_open_and_one_seals() {
    let both = Keyring::with(MasterKey::from_random(Zeroizing::new([1; 32])));
    let both = both.with_other(Some(MasterKey::from_random(Zeroizing::new([2; 32]))));
    let key = both.generate(KeyKind::Symmetric).expect("made");
    for by in [1, 2] {
        let sealed = keyring(by).seal("shop-1", &key, 0).expect("sealed").key;
        assert!(both.open("shop-1", &sealed).is_ok(), "{by}");
    }
    let sealed = both.seal("shop-1", &key, 0).expect("sealed");
    assert_eq!(Some(sealed.master_key), keyring(1).fingerprint());
    assert!(keyring(1).open("shop-1", &sealed.key).is_ok());
    let third = keyring(3).seal("shop-1", &key, 0).expect("sealed").key;
    assert!(both.open("shop-1", &third).is_err());
}

#[test]
fn an_endpoint_without_keys_needs_no_master_key() {
    let endpoint = endpoint(EndpointKeys::default());
    let signers = Keyring::default().signers(&endpoint, Some(default_signers()), 0);
    assert_eq!(signers.expect("the default").ids().join(" "), "default_1");
    let none = Keyring::default().signers(&endpoint, None, 0);
    assert_eq!(none.expect_err("nothing signs"), no_key_signs());
    let key = Keyring::default().generate(KeyKind::Symmetric);
    let sealed = Keyring::default().seal("shop-1", &key.expect("made"), 0);
    assert_eq!(sealed.err(), Some(SealFailure::NoMasterKey));
}

#[test]
fn a_master_key_is_made_when_it_is_needed_and_only_then() {
    let making = Keyring::making(Box::new(|| {
        Ok(MasterKey::from_random(Zeroizing::new([3; 32])))
    }));
    assert_eq!(making.fingerprint(), None);
    let key = making.generate(KeyKind::Symmetric).expect("made");
    assert_eq!(making.fingerprint(), None);
    let sealed = making.seal("shop-1", &key, 0).expect("sealed");
    assert_eq!(Some(sealed.master_key), keyring(3).fingerprint());
    let failing = Keyring::making(Box::new(|| Err("no space".to_string())));
    let failed = failing.seal("shop-1", &key, 0).err();
    assert_eq!(failed, Some(SealFailure::Making("no space".to_string())));
}

#[test]
fn a_client_key_is_opened_with_the_same_master_key_alone() {
    let pem = rcgen::KeyPair::generate().expect("a key").serialize_pem();
    let key = ClientKey::parse(&pem).expect("a key");
    let SealedClientKey { sealed, master_key } =
        keyring(1).seal_client_key("shop-1", &key).expect("sealed");
    assert_eq!(Some(master_key), keyring(1).fingerprint());
    let opened = keyring(1).open_client_key("shop-1", &sealed);
    assert!(opened.expect("opened").is_same(&key));
    assert!(keyring(1).open_client_key("shop-2", &sealed).is_err());
    assert!(keyring(2).open_client_key("shop-1", &sealed).is_err());
    let none = Keyring::default();
    assert!(none.open_client_key("shop-1", &sealed).is_err());
    let failed = none.seal_client_key("shop-1", &key).err();
    assert_eq!(failed, Some(SealFailure::NoMasterKey));
}

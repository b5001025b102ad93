use super::*;
use crate::domain::signing_key::KeyKind;

fn key(id: &str) -> DefaultKey {
    DefaultKey {
        key: EndpointKey {
            id: id.to_string(),
            kind: KeyKind::Symmetric,
            sealed: format!("sealed {id}"),
            public_key: None,
            created_ms: 0,
            signs_until_ms: None,
        },
        fingerprint: format!("print {id}"),
    }
}

fn changed(keys: &DefaultKeys, change: DefaultKeyChange, now_ms: i64) -> DefaultKeys {
    match keys.effect(&change, now_ms) {
        DefaultKeysEffect::Changed(keys) => keys,
        other => panic!("{change:?}: {other:?}"),
    }
}

fn refused(keys: &DefaultKeys, change: DefaultKeyChange, now_ms: i64) -> BadDefaultKeyChange {
    match keys.effect(&change, now_ms) {
        DefaultKeysEffect::Refused(bad) => bad,
        other => panic!("{change:?}: {other:?}"),
    }
}

/// Ids, ends, and whether the secret is there.
fn rows(keys: &DefaultKeys) -> Vec<(&str, Option<i64>, bool)> {
    let row = |key: &'_ DefaultKey| key.key.signs_until_ms;
    (keys.all().iter())
        .map(|key| (key.key.id.as_str(), row(key), !key.is_former()))
        .collect()
}

#[test]
fn a_rotation_signs_with_both_and_remembers_what_has_ended() {
    let none = DefaultKeys::default();
    let add = |id: &str, overlap_ms| DefaultKeyChange::Add(key(id), overlap_ms);
    let remove = |id: &str| DefaultKeyChange::Remove(id.to_string());
    assert_eq!(
        refused(&none, add("a", 0), 0),
        BadDefaultKeyChange::NotBegun
    );
    let one = changed(&none, DefaultKeyChange::First(key("a")), 0);
    let again = one.effect(&DefaultKeyChange::First(key("b")), 0);
    assert_eq!(again, DefaultKeysEffect::Begun);
    let existing = one.effect(&add("a", 5), 0);
    assert_eq!(existing, DefaultKeysEffect::Existing(key("a").key));
    assert_eq!(refused(&one, remove("a"), 0), BadDefaultKeyChange::Last);
    assert_eq!(refused(&one, remove("x"), 0), BadDefaultKeyChange::Unknown);
    let two = changed(&one, add("b", 50), 100);
    assert_eq!(rows(&two), [("b", None, true), ("a", Some(150), true)]);
    let ending = BadDefaultKeyChange::Ending("a".to_string());
    assert_eq!(refused(&two, add("a", 5), 149), ending);
    assert_eq!(
        rows(&changed(&two, remove("a"), 101)),
        [("b", None, true), ("a", Some(101), false)]
    );
    // Once its time has passed, the same secret is a new key.
    let back = DefaultKey {
        fingerprint: key("a").fingerprint,
        ..key("c")
    };
    let three = changed(&two, DefaultKeyChange::Add(back, 0), 150);
    assert_eq!(
        rows(&three),
        [
            ("c", None, true),
            ("b", Some(150), false),
            ("a", Some(150), false)
        ]
    );
    let found = three.with_fingerprint("print a").expect("known");
    assert_eq!(found.key.id, "c");
    let former = three.with_fingerprint("print b").expect("known");
    assert!(former.is_former());
    assert_eq!(three.with_fingerprint("print c"), None);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut keys = changed(
        &DefaultKeys::default(),
        DefaultKeyChange::First(key("0")),
        0,
    );
    for number in 1..100 {
        let id = number.to_string();
        keys = changed(&keys, DefaultKeyChange::Add(key(&id), 0), number);
    }
    assert_eq!(keys.kept().count(), 1);
    assert_eq!(keys.all().len(), 1 + MOST_FORMER_KEYS);
    assert_eq!(keys.all()[1].key.id, "98");
    for number in 100..109 {
        let id = number.to_string();
        keys = changed(&keys, DefaultKeyChange::Add(key(&id), 1_000), number);
    }
    let one_more = DefaultKeyChange::Add(key("x"), 1_000);
    assert_eq!(refused(&keys, one_more, 109), BadDefaultKeyChange::TooMany);
}

#[test]
fn what_cannot_be_read_stays_until_it_is_removed() {
    let unreadable = |id: &str| UnreadableDefaultKey {
        id: id.to_string(),
        fingerprint: Some(format!("print {id}")),
        why: "its kind".to_string(),
        is_former: false,
        signs_until_ms: None,
    };
    let remove = |id: &str| DefaultKeyChange::Remove(id.to_string());
    let only = DefaultKeys::default().with_unreadable(vec![unreadable("x")]);
    assert!(!only.is_empty() && only.may_have("print x") && !only.may_have("print y"));
    assert_eq!(refused(&only, remove("x"), 0), BadDefaultKeyChange::Last);
    let added = changed(&only, DefaultKeyChange::Add(key("a"), 50), 0);
    assert_eq!(added.unreadable(), only.unreadable());
    assert_eq!(
        refused(&added, remove("a"), 1),
        BadDefaultKeyChange::Last,
        "nothing that this server can read would sign"
    );
    let removed = changed(&added, remove("x"), 1);
    assert_eq!(removed, DefaultKeys::of(vec![key("a")]));
}

#[test]
fn more_keys_than_can_be_added_can_be_removed() {
    let names: Vec<String> = (0..15).map(|number| number.to_string()).collect();
    let mut keys = DefaultKeys::of(names.iter().map(|id| key(id)).collect());
    let add = || DefaultKeyChange::Add(key("x"), 1_000);
    assert_eq!(refused(&keys, add(), 0), BadDefaultKeyChange::TooMany);
    for id in &names[9..] {
        assert_eq!(refused(&keys, add(), 0), BadDefaultKeyChange::TooMany);
        keys = changed(&keys, DefaultKeyChange::Remove(id.clone()), 0);
    }
    assert_eq!(changed(&keys, add(), 0).kept().count(), 10);
    // What signs no more is not counted.
    let many = DefaultKeys::of(names.iter().map(|id| key(id)).collect());
    let added = changed(&many, DefaultKeyChange::Add(key("x"), 0), 0);
    assert_eq!(added.kept().count(), 1);
}

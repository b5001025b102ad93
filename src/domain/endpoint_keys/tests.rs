//! The rules of a rotation, by tables.

use super::*;

fn key(id: &str) -> EndpointKey {
    EndpointKey {
        id: id.to_string(),
        kind: KeyKind::Symmetric,
        sealed: "hunter2".to_string(),
        public_key: None,
        created_ms: 5,
        signs_until_ms: None,
    }
}

fn signing(keys: &EndpointKeys, now_ms: i64) -> Vec<&str> {
    let mut ids: Vec<&str> = keys.signing_at(now_ms).map(|key| key.id.as_str()).collect();
    if keys.default_signs_at(now_ms) {
        ids.push(DEFAULT_SECRET);
    }
    ids
}

#[test]
fn the_others_sign_along_until_the_overlap_ends() {
    let none = EndpointKeys::default();
    assert_eq!(signing(&none, 0), ["default"]);
    let one = none.with_added(key("a"), 100, 50).expect("added");
    assert_eq!(signing(&one, 149), ["a", "default"]);
    assert_eq!(signing(&one, 150), ["a"]);
    let two = one.with_added(key("b"), 120, 1_000).expect("added");
    // A longer overlap does not make the default secret sign longer than was said before.
    assert_eq!(signing(&two, 149), ["b", "a", "default"]);
    assert_eq!(signing(&two, 1_119), ["b", "a"]);
    assert_eq!(signing(&two, 1_120), ["b"]);
    let three = two.with_added(key("c"), 130, 10).expect("added");
    assert_eq!(signing(&three, 139), ["c", "b", "a", "default"]);
    assert_eq!(signing(&three, 140), ["c"]);
    let four = three.with_added(key("d"), 200, 10).expect("added");
    let ids: Vec<&str> = four.list().iter().map(|key| key.id.as_str()).collect();
    assert_eq!(ids, ["d", "c"], "what signs no more is removed");
    assert_eq!(four.default_until_ms(), None);
}

#[test]
fn without_an_overlap_the_others_end_at_once() {
    let keys = EndpointKeys::default();
    let keys = keys.with_added(key("a"), 100, 0).expect("added");
    assert_eq!((signing(&keys, 100), keys.list().len()), (vec!["a"], 1));
    let keys = keys.with_added(key("b"), 100, 0).expect("added");
    assert_eq!((signing(&keys, 100), keys.list().len()), (vec!["b"], 1));
}

#[test]
fn there_are_at_most_ten_that_sign() {
    let mut keys = EndpointKeys::default();
    for number in 0..MOST_KEYS {
        let id = format!("k{number}");
        keys = keys.with_added(key(&id), 0, 100).expect("added");
    }
    let eleventh = keys.with_added(key("x"), 99, 100);
    assert_eq!(eleventh, Err(BadKeyChange::TooMany));
    assert!(
        keys.with_added(key("x"), 100, 100).is_ok(),
        "nine have ended"
    );
    let given = |count: usize| EndpointKeys::of(vec![key("a"); count]);
    assert!(given(MOST_KEYS).is_ok());
    assert_eq!(given(MOST_KEYS + 1), Err(BadKeyChange::TooMany));
}

#[test]
fn the_last_one_that_signs_for_good_stays() {
    let keys = EndpointKeys::default();
    assert_eq!(keys.without("default"), Err(BadKeyChange::Unknown));
    let keys = keys.with_added(key("a"), 0, 100).expect("added");
    let keys = keys.with_added(key("b"), 0, 100).expect("added");
    assert_eq!(keys.without("b"), Err(BadKeyChange::Last));
    assert_eq!(keys.without("c"), Err(BadKeyChange::Unknown));
    assert_eq!(
        signing(&keys.without("a").expect("gone"), 0),
        ["b", "default"]
    );
    let without_default = keys.without("default").expect("gone");
    assert_eq!(signing(&without_default, 0), ["b", "a"]);
    let two = EndpointKeys::of(vec![key("a"), key("b")]).expect("two");
    assert_eq!(signing(&two.without("a").expect("gone"), 0), ["b"]);
}

#[test]
fn keys_survive_their_stored_form_and_debug_hides_what_is_sealed() {
    assert_eq!(EndpointKeys::default().to_text(), "");
    assert_eq!(EndpointKeys::from_text(""), Ok(EndpointKeys::default()));
    let asymmetric = EndpointKey {
        kind: KeyKind::Ed25519,
        public_key: Some("whpk_x".to_string()),
        ..key("b")
    };
    let keys = EndpointKeys::default();
    let keys = keys.with_added(key("a"), 0, 100).expect("added");
    let keys = keys.with_added(asymmetric, 0, 100).expect("added");
    assert_eq!(EndpointKeys::from_text(&keys.to_text()), Ok(keys.clone()));
    assert!(!format!("{keys:?}").contains("hunter2"), "{keys:?}");
    assert!(EndpointKeys::from_text("{}").is_err());
    let later = keys.to_text().replace("ed25519", "later");
    assert!(EndpointKeys::from_text(&later).is_err());
}

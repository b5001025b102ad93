use super::*;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::{LaneHold, LaneLimits};

#[test]
fn only_a_change_of_who_holds_a_lane_is_an_act() {
    let hold = |reason: &str| LaneHold {
        by: "anna".into(),
        reason: reason.into(),
        since_ms: 1,
    };
    let settings = |hold: Option<LaneHold>| LaneSettings {
        hold,
        ..LaneSettings::default()
    };
    let check = |setting: LaneSetting, before: Option<LaneHold>, expected: Option<Act>| {
        let order = LaneOrder {
            lane: Lane::from_name("endpoint:shop"),
            setting: setting.clone(),
            actor: Actor::named("anna"),
            reason: "down".to_string(),
            at_ms: 1,
        };
        let before = settings(before);
        let mut after = before.clone();
        after.apply(setting);
        let act = PersonAct::of_lane_order(&order, &before, &after);
        assert_eq!(act.as_ref().map(|act| act.act), expected);
        assert!(act.is_none_or(|act| act.reason == "down"));
    };
    let held = Some(hold("down"));
    check(LaneSetting::Hold(held.clone()), None, Some(Act::HoldLane));
    check(LaneSetting::Hold(held.clone()), held.clone(), None);
    let other = Some(hold("still down"));
    check(LaneSetting::Hold(other), held.clone(), Some(Act::HoldLane));
    check(
        LaneSetting::Hold(None),
        held.clone(),
        Some(Act::ReleaseLane),
    );
    check(LaneSetting::Hold(None), None, None);
    check(LaneSetting::Limits(LaneLimits::default()), held, None);
}

#[test]
fn long_texts_are_cut() {
    let actor = Actor::named("anna");
    let subject = ActSubject::Lane(Lane::from_name(&"ä".repeat(LONGEST_SUBJECT + 1)));
    let act = PersonAct::of(Act::HoldLane, subject, &actor, 0);
    let long = "失".repeat(LONGEST_TEXT + 1);
    let texts = act.for_reason(&long).with_detail(long.clone()).texts();
    for (text, longest) in [
        (texts.subject, LONGEST_SUBJECT),
        (texts.reason, LONGEST_TEXT),
        (texts.detail, LONGEST_TEXT),
    ] {
        assert_eq!(text.chars().count(), longest);
    }
}

#[test]
fn a_changed_endpoint_names_its_fields_and_keys() {
    let check = |differing: EndpointDifferences, act: Act, expected: &str| {
        let note = described(&differing, act).map(|note| note.to_string());
        assert_eq!(note.as_deref(), Some(expected));
    };
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_string()).collect();
    let added = EndpointDifferences {
        has_other_keys: true,
        added_keys: ids(&["a"]),
        forgotten_keys: ids(&["z"]),
        ..EndpointDifferences::default()
    };
    check(added.clone(), Act::AddEndpointKey, "added: key a");
    let removed = EndpointDifferences {
        has_other_keys: true,
        removed_keys: ids(&["b", "c"]),
        ..EndpointDifferences::default()
    };
    check(removed, Act::RemoveEndpointKey, "removed: key b, key c");
    let both = EndpointDifferences {
        settings: vec!["url", "rate"],
        ..added
    };
    check(
        both,
        Act::ChangeEndpoint,
        "changed: url, rate, keys; added: key a; removed: key z",
    );
}

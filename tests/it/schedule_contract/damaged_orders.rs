//! Redis in which something that a claim reads is damaged: an entry with a place in an order, the turns of a lane, the
//! record of the last claim, a number. Everything else goes on.

use super::damage::{Scene, lane_key, scene};
use super::fixture::*;
use super::orders::put;
use crate::support::within;
use ringback::clock::Clock as _;
use ringback::domain::order::OrderMode;
use ringback::domain::state::State;
use ringback::schedule::ScheduleLeases as _;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable as _};
use ringback::schedule::{BEHIND_MS, Entry, Lease, LeaseRequest, LeasedOne, envelope};

/// Leaves only so many bytes of an envelope.
const CUT: &str = "redis.call('HSET', KEYS[1], ARGV[1], string.sub(redis.call('HGET', KEYS[1], ARGV[1]), 1, ARGV[2]))";

/// Overwrites one byte of an envelope.
const OVERWRITE: &str = "local e = redis.call('HGET', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], string.sub(e, 1, ARGV[2]) .. '\\255' .. string.sub(e, ARGV[2] + 2))";

async fn change(scene: &Scene, script: &str, id: &str, at: usize) {
    let (key, at) = (key(id), at.to_string());
    let words = ["EVAL", script, "1", "{rb:0}:jobs", key.as_str(), &at];
    scene.command(&words).await;
}

#[tokio::test]
async fn an_entry_of_an_order_that_is_cut_short_delays_no_other() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    let whole = put(fixture, "whole", ("w", 1, OrderMode::Strict), 0).await;
    let end = envelope::HEADER_BYTES + 2 + lane_of("shop").as_str().len() + 2 + "o".len() + 8 + 1;
    assert!(envelope::encode(&whole, envelope::BodyWriting::Whole).len() > end);
    // Shorter ones are no entries: that is a loss of data, after which nothing with an order is claimed for a time.
    for length in envelope::HEADER_BYTES + 2..=end + 1 {
        let id = format!("cut-{length}");
        put(fixture, &id, ("o", 2, OrderMode::Strict), 0).await;
        change(&scene, CUT, &id, length).await;
    }
    fixture.put("shop", "plain", 0).await;
    fixture.put("other", "other", 0).await;
    let mut given = Vec::new();
    for _ in 0..2 {
        given.extend(fixture.claim_ids(99).await);
    }
    given.sort();
    assert_eq!(given, ["other", "plain", "whole"]);
}

#[tokio::test]
async fn an_entry_of_an_order_with_a_wrong_byte_delays_no_other() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    let first = envelope::HEADER_BYTES;
    let last = first + 2 + lane_of("shop").as_str().len() + 2 + "o".len() + 8;
    for at in 0..=last {
        let id = format!("wrong-{at}");
        put(fixture, &id, (&id, 2, OrderMode::Strict), 0).await;
        change(&scene, OVERWRITE, &id, at).await;
    }
    fixture.put("shop", "plain", 0).await;
    fixture.put("other", "other", 0).await;
    let mut given = Vec::new();
    for _ in 0..4 {
        given.extend(fixture.claim_ids(128).await);
    }
    assert!(given.contains(&"plain".into()) && given.contains(&"other".into()));
    // What is left of them is returned when its leases expire, and again nothing is delayed.
    fixture.turn_to(LEASE_MS + 1);
    fixture.put("other", "later", LEASE_MS + 1).await;
    assert!(fixture.claim_ids(128).await.contains(&"later".into()));
}

#[tokio::test]
async fn turns_that_cannot_be_read_are_begun_anew() {
    let lane = lane_of("shop");
    for kind in ["turns", "waits"] {
        let name = lane_key(kind, "shop");
        let foreign: [&[&str]; 4] = [
            &["SET", &name, "foreign"],
            &["LPUSH", &name, "foreign"],
            &["HSET", &name, "o", ""],
            &["HSET", &name, "o", "garbage"],
        ];
        for damage in foreign {
            let scene = scene(LIMITS).await;
            let fixture = &scene.fixture;
            for (number, id) in [(1, "1"), (2, "2"), (3, "3")] {
                put(fixture, id, ("o", number, OrderMode::Strict), 0).await;
            }
            scene.command(damage).await;
            for (step, id) in (1..).zip(["1", "2", "3"]) {
                let mut lease = fixture.claim(9).await.leases;
                if lease.is_empty() {
                    // What waited was forgotten with the key, so it goes when it is looked at again.
                    fixture.turn_to(step * BEHIND_MS);
                    lease = fixture.claim(9).await.leases;
                }
                assert_eq!(ids(&lease), [id], "{damage:?} of {lane}");
                scene.command(&["DEL", &name]).await;
                scene.command(damage).await;
                let ended = end(&lease[0], State::Delivered, 0);
                fixture.done(&lease[0], ended).await;
            }
        }
    }
}

/// The name of the key with the record of the last claim, and the number of that claim.
async fn last_claim(scene: &Scene) -> (String, u64) {
    let names: Vec<String> = scene.ask(&["KEYS", "{rb:0}:claim:*"]).await;
    let name = names.into_iter().next().expect("a claim gave something");
    let number: String = scene.ask(&["EVAL", FIRST_WORD, "1", &name]).await;
    (name, number.parse().expect("a number"))
}

const FIRST_WORD: &str = "return string.match(redis.call('GET', KEYS[1]), '^%d+')";

/// Packs what a Lua expression says into the record of a claim.
const PACK: &str = "local record = loadstring('return ' .. ARGV[2])()
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. (type(record) == 'string' and record or cmsgpack.pack(record)))";

#[tokio::test]
async fn a_record_of_a_claim_that_cannot_be_read_stops_no_claim() {
    let records = [
        "''",
        "'garbage'",
        "'\\193'",
        "{}",
        "7",
        "{expiry='x',keys={'paid/1'},classes={0}}",
        "{expiry='1800000020000000',keys={},classes={}}",
        "{expiry='1800000020000000',keys={'paid/1'}}",
        "{expiry='1800000020000000',keys={'paid/1'},classes={{}}}",
        "{expiry='1800000020000000',keys={{}},classes={0}}",
        "{expiry={},keys={'paid/1'},classes={0}}",
    ];
    for record in records {
        let scene = scene(LIMITS).await;
        let fixture = &scene.fixture;
        fixture.put("shop", "1", 0).await;
        fixture.claim_one().await;
        let (name, number) = last_claim(&scene).await;
        let next = (number + 1).to_string();
        scene
            .command(&["EVAL", PACK, "1", &name, &next, record])
            .await;
        fixture.put("shop", "2", 0).await;
        assert_eq!(fixture.claim_ids(9).await, ["2"], "{record}");
        scene.command(&["DEL", &name]).await;
        scene.command(&["LPUSH", &name, "foreign"]).await;
        fixture.put("shop", "3", 0).await;
        assert_eq!(fixture.claim_ids(9).await, ["3"], "{record}");
    }
}

#[tokio::test]
async fn a_number_of_leases_that_is_none_is_begun_anew() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    for number in ["garbage", "", "9223372036854775807"] {
        scene
            .command(&["HSET", "{rb:0}:meta", "number", number])
            .await;
        let id = format!("n{number}");
        let put: Entry = fixture.put("shop", &id, 0).await;
        let lease = fixture.claim_one().await;
        assert_eq!(lease.entry, put);
        fixture.done(&lease, end(&lease, State::Delivered, 0)).await;
    }
}

#[tokio::test]
async fn a_write_count_that_is_none_is_a_loss_that_is_found() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    fixture.put("shop", "1", 0).await;
    fixture.claim_one().await;
    let (name, _) = last_claim(&scene).await;
    let instance = name.trim_start_matches("{rb:0}:claim:").to_string();
    for field in [instance.clone(), format!("at:{instance}")] {
        let garbage = ["HSET", "{rb:0}:meta", &field, "garbage"];
        scene.command(&garbage).await;
    }
    let asked = scene.schedule.lease_one(&known("9")).await;
    assert!(asked.is_err(), "{asked:?}");
    within("the loss", scene.schedule.wait_for_loss()).await;
    let found = scene.schedule.inspect(false).await.expect("looked");
    assert_eq!(found, Inspection::ToLoad(LoadReason::Lost));
    assert!(scene.schedule.finish_loading().await.expect("heard"));
    let asked = scene.schedule.lease_one(&known("9")).await;
    assert!(asked.is_ok(), "{asked:?}");
}

/// `order.lua`, with all that scripts share in front of it.
const ORDER: &str = concat!(
    include_str!("../../../src/schedule/redis/lua/common.lua"),
    "\n",
    include_str!("../../../src/schedule/redis/lua/lanes.lua"),
    "\n",
    include_str!("../../../src/schedule/redis/lua/lane_turns.lua"),
    "\n",
    include_str!("../../../src/schedule/redis/lua/order.lua")
);

/// Runs a script as an instance does that was held up. `arguments` are those behind what all scripts have.
pub async fn run_late(scene: &Scene, script: &str, arguments: &[&str]) {
    let keys = [
        "jobs", "lanes", "leases", "changing", "dead", "ended", "meta", "epoch", "health",
        "settings",
    ];
    let keys = keys.map(|name| format!("{{rb:0}}:{name}"));
    let now = scene.fixture.clock.now_ms().to_string();
    let mut words = vec!["EVAL", script, "10"];
    words.extend(keys.iter().map(String::as_str));
    words.extend([now.as_str(), "{rb:0}:", "100 100 0", "late", "-1"]);
    words.extend(arguments);
    scene.command(&words).await;
}

/// Passes the turn of an entry after its lease was settled.
async fn pass_late(scene: &Scene, lease: &Lease, number: i64, what: &str) {
    let (lane, number) = (lane_of("shop"), format!("{number:016}"));
    let (key, expiry) = (&lease.entry.notification.key, lease.expiry().to_string());
    let passed = [lane.as_str(), key.as_str(), &expiry, "o", &number, what];
    let arguments = [&["wake"][..], &passed].concat();
    run_late(scene, ORDER, &arguments).await;
}

/// The two scripts that end a lease and pass its turn have a claim between them, which puts the entry off because a lower
/// number is in flight.
#[tokio::test]
async fn what_was_put_off_before_a_turn_was_passed_goes_when_the_one_before_has_ended() {
    for (mode, what) in [(OrderMode::Strict, "keep"), (OrderMode::Latest, "highest")] {
        let scene = scene(LIMITS).await;
        let fixture = &scene.fixture;
        put(fixture, "1", ("o", 1, mode), 0).await;
        let first = fixture.claim_one().await;
        put(fixture, "2", ("o", 2, mode), 500_000).await;
        // An attempt by hand.
        let by_hand = fixture.lease_by_hand("2").await;
        fixture.done(&by_hand, again(&by_hand, 0)).await;
        assert_eq!(fixture.claim_ids(9).await, [""; 0]);
        pass_late(&scene, &by_hand, 2, what).await;
        assert_eq!(fixture.claim_ids(9).await, [""; 0]);
        fixture.done(&first, end(&first, State::Delivered, 0)).await;
        assert_eq!(fixture.claim_ids(9).await, ["2"], "{mode:?}");
    }
}

/// What is due as it says is not among those that wait for another one.
#[tokio::test]
async fn what_was_not_put_off_since_does_not_count_as_waiting() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    put(fixture, "1", ("o", 1, OrderMode::Strict), 0).await;
    put(fixture, "2", ("o", 2, OrderMode::Strict), 0).await;
    let first = fixture.claim_one().await;
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    let waits = lane_key("waits", "shop");
    assert_eq!(scene.ask::<u64>(&["ZCARD", &waits]).await, 1);
    let by_hand = fixture.lease_by_hand("2").await;
    fixture.done(&by_hand, again(&by_hand, 500_000)).await;
    assert_eq!(scene.ask::<u64>(&["ZCARD", &waits]).await, 0);
    fixture.done(&first, end(&first, State::Delivered, 0)).await;
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
}

/// The clock was ahead when something was found missing, and is right again.
#[tokio::test]
async fn a_loss_that_was_found_by_a_clock_ahead_holds_nothing_up_for_longer_than_a_lease() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    put(fixture, "ordered", ("o", 1, OrderMode::Strict), 0).await;
    fixture.put("other", "alone", 30 * LEASE_MS).await;
    let ahead = (START_MS + 1_000 * LEASE_MS).to_string();
    scene
        .command(&["HSET", "{rb:0}:meta", "lost", &ahead])
        .await;
    // A lease may have been lost just now.
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    fixture.turn_to(LEASE_MS);
    assert_eq!(fixture.claim_ids(9).await, ["ordered"]);
    let lost: String = scene.ask(&["HGET", "{rb:0}:meta", "lost"]).await;
    assert_eq!(lost, START_MS.to_string());
    let one = fixture.ask(&LeaseRequest::new(place("alone"))).await;
    assert!(matches!(one, LeasedOne::Leased(_)), "{one:?}");
}

//! Dead letters: the list, the groups, and what is done with some of them or with all that match.

use super::{Answered, Browser, make_key, operator, signed_in};
use crate::end_to_end::{on_journaled_stores, on_stores};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::proxy::{Cut, Line, Proxy};
use crate::support::ringback::{Api, Server, Stores, registration, with_ladder};
use reqwest::Method;
use ringback::config::{JournalConfig, PostgresUrl};
use serde_json::{Value, json};

on_journaled_stores!(
    dead_letters_are_filtered_and_in_groups,
    selected_ones_are_replayed_one_by_one_and_discarded_by_operators,
    all_that_match_are_planned_and_replayed_as_a_job,
    a_plan_says_that_the_destination_is_held,
    what_can_never_be_replayed_is_not_offered,
    what_is_pending_is_planned_and_cancelled_as_a_job,
);
on_stores!(@ redis_alone RedisOnly without_a_journal_dead_letters_are_listed_and_replayed);

/// Registers these with one attempt each, which fails.
async fn let_die(api: &Api, merchant: &mut Merchant, ids: &[&str]) {
    for id in ids {
        api.register(with_ladder(id, merchant, &[])).await;
        merchant.call().await;
        api.until_state(id, "dead").await;
    }
}

/// Which of these ids a page links to.
fn linked<'a>(page: &Answered, ids: &[&'a str]) -> Vec<&'a str> {
    let is_there = |id: &&&str| page.text.contains(&format!("\"/ui/notifications/t/{id}\""));
    ids.iter().filter(is_there).copied().collect()
}

/// The id of the job to whose page an answer leads.
fn job_of(answer: &Answered) -> String {
    let location = answer.location();
    let (path, _) = location.split_once("?done=").expect("a code");
    path.strip_prefix("/ui/jobs/").expect("a job").to_string()
}

async fn until_job(api: &Api, id: &str, wish: impl Fn(&Value) -> bool) -> Value {
    crate::support::within("the job to stand as wished", async {
        loop {
            let (status, view) = api.call(Method::GET, &format!("/v1/jobs/{id}"), None).await;
            assert!(matches!(status, 200 | 503), "{status}: {view}");
            if wish(&view) {
                return view;
            }
            crate::support::short_pause().await;
        }
    })
    .await
}

async fn dead_letters_are_filtered_and_in_groups(stores: Stores) {
    let server = Server::start(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::Answer(500, "no".into())).await;
    let all = ["shop-1", "shop-2", "other", "gone"];
    let_die(&server, &mut merchant, &all[..3]).await;
    merchant.now_does(Reaction::Answer(410, "never".into()));
    // By the rules of Standard Webhooks, a 410 asks for no more calls.
    let mut gone = with_ladder("gone", &merchant, &[]);
    gone["ack"] = json!("standard-webhooks");
    server.register(gone).await;
    merchant.call().await;
    server.until_state("gone", "dead").await;
    // This one dies again.
    let replay = "/v1/dead-letters/t/other/replay";
    assert_eq!(server.call(Method::POST, replay, None).await.0, 200);
    merchant.call().await;
    server
        .until("other", |view| {
            view["state"] == "dead" && view["series"] == 2
        })
        .await;
    let mut browser = Browser::of(&server);
    let page = browser.get("/ui/dead-letters").await.is(200);
    assert_eq!(linked(&page, &all), all);
    for shown in [
        "<b>4</b>",
        "chip-fault-merchant",
        "died again after a replay, series 2",
    ] {
        assert!(page.text.contains(shown), "{shown}: {}", page.text);
    }
    // Each group leads to its cause, and shows how the last attempts ended.
    let causes = "/ui/dead-letters?cause=";
    assert!(page.text.contains(&format!("{causes}ladder_exhausted")));
    assert!(page.text.contains(&format!("{causes}refused")));
    assert!(page.text.contains("<code>500</code>") && page.text.contains("<code>410</code>"));
    async fn check(browser: &mut Browser, query: &str, expected: &[&str]) {
        let page = browser.get(&format!("/ui/dead-letters?{query}")).await;
        let all = ["shop-1", "shop-2", "other", "gone"];
        assert_eq!(linked(&page.is(200), &all), expected, "{query}");
    }
    check(&mut browser, "id_contains=hop-", &all[..2]).await;
    check(&mut browser, "id_contains=HOP-", &[]).await;
    check(
        &mut browser,
        "cause=ladder_exhausted&id_contains=o",
        &all[..3],
    )
    .await;
    check(&mut browser, "topic=t&from=1h", &all).await;
    check(&mut browser, "topic=u", &[]).await;
    check(&mut browser, "to=1h", &[]).await;
    check(&mut browser, &format!("lane={}", merchant.url("/x")), &all).await;
    for wrong in [
        "topic=a/b",
        "lane=x",
        "cause=superseded",
        "from=soon",
        "id_contains=%E5",
    ] {
        let page = browser.get(&format!("/ui/dead-letters?{wrong}")).await;
        let page = page.is(422).text;
        assert!(page.contains("class=\"problem\""), "{wrong}: {page}");
    }
    while merchant.arrived().is_some() {}
    server.stop().await;
}

/// Whoever has changed some of many must learn which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_changed_before_the_journal_went_away_is_told() {
    let mut line = None;
    let server = Server::start_as(Stores::Postgres, |config| {
        let JournalConfig::Postgres(url) = &config.journal else {
            panic!("on PostgreSQL");
        };
        let (before, url) = Proxy::before(url.expose());
        let url = PostgresUrl::parse(&url).expect("a URL");
        config.journal = JournalConfig::Postgres(url);
        line = Some(before);
    })
    .await;
    let line = line.expect("a line");
    let admin = operator(&server).await;
    let key = make_key(&admin, json!({ "name": "boss", "role": "operator" })).await;
    let mut boss = signed_in(&key).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&admin, &mut merchant, &["first", "zebra"]).await;
    let list = "/ui/dead-letters?topic=t";
    let picks = [("pick-0", "t/first"), ("pick-1", "t/zebra"), ("back", list)];
    let token = boss.get(list).await.is(200).form_token();
    let token = ("form_token", token.as_str());
    let asked = [&picks[..], &[("reason", "wrong test data"), token]].concat();
    line.cut_and_hold(Cut::To(b"zebra".to_vec()));
    let told = boss.post("/ui/dead-letters/selected/discard", &asked);
    let told = told.await.is(503);
    let rows: Vec<&str> = told.text.split("<tr>").collect();
    let row_of = |id: &str| {
        let row = rows.iter().find(|row| row.contains(id)).copied();
        row.unwrap_or_default()
    };
    assert!(
        row_of("t/first").contains("class=\"good\""),
        "{}",
        told.text
    );
    assert!(
        row_of("t/zebra").contains("class=\"problem\""),
        "{}",
        told.text
    );
    line.set(Line::Passes).await;
    server.stop().await;
}

async fn selected_ones_are_replayed_one_by_one_and_discarded_by_operators(stores: Stores) {
    let server = Server::start(stores).await;
    let admin = operator(&server).await;
    let desk = make_key(&admin, json!({ "name": "desk", "role": "support" })).await;
    let mut desk = signed_in(&desk).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&admin, &mut merchant, &["1", "2", "3", "4"]).await;
    merchant.now_does(Reaction::success());
    let list = "/ui/dead-letters?topic=t";
    let picks = [("pick-0", "t/1"), ("pick-7", "t/2"), ("back", list)];
    let plan = desk.submit(list, "/ui/dead-letters/selected", &picks).await;
    let plan = plan.is(200);
    assert_eq!(linked(&plan, &["1", "2", "3"]), ["1", "2"]);
    assert!(plan.text.contains("<b>2</b>"), "{}", plan.text);
    assert!(!plan.text.contains("selected/discard"), "{}", plan.text);
    assert_eq!(
        admin.get("1").await["state"],
        "dead",
        "a plan changes nothing"
    );
    let asked = [&picks[..], &[("reason", "工单 9")]].concat();
    let done = desk
        .submit(list, "/ui/dead-letters/selected/replay", &asked)
        .await
        .is(303);
    assert_eq!(done.location(), format!("{list}&done=letters-replayed"));
    for id in ["1", "2"] {
        let view = admin.until_state(id, "delivered").await;
        let history = view["transitions"].to_string();
        assert!(history.contains("工单 9"), "{history}");
    }
    assert_eq!(admin.get("3").await["state"], "dead");
    // What is not dead any more is not replayed, and the others are.
    let mixed = [("pick-0", "t/1"), ("pick-1", "t/3"), ("pick-2", "t/none")];
    let page = desk
        .submit(list, "/ui/dead-letters/selected/replay", &mixed)
        .await;
    assert!(matches!(page.status, 404 | 409), "{}", page.status);
    for shown in ["Not all could be done", ">replayed<", "chip-delivered"] {
        assert!(page.text.contains(shown), "{shown}: {}", page.text);
    }
    admin.until_state("3", "delivered").await;
    let none = desk.submit(list, "/ui/dead-letters/selected", &[]).await;
    assert!(none.is(422).text.contains("Nothing is selected"));
    let one = [("pick-0", "t/4"), ("back", "https://evil.example/")];
    let discard = "/ui/dead-letters/selected/discard";
    desk.submit(list, discard, &one).await.is(403);
    let mut chief = signed_in(&admin).await;
    let plan = chief.submit(list, "/ui/dead-letters/selected", &one).await;
    assert!(plan.is(200).text.contains(discard));
    let done = chief.submit(list, discard, &one).await.is(303);
    assert_eq!(done.location(), "/ui/dead-letters?done=letters-discarded");
    assert_eq!(admin.get("4").await["state"], "cancelled");
    while merchant.arrived().is_some() {}
    server.stop().await;
}

async fn all_that_match_are_planned_and_replayed_as_a_job(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut browser = Browser::of(&server);
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&server, &mut merchant, &["a1", "a2", "a3", "b"]).await;
    server.clock().advance(10);
    merchant.now_does(Reaction::success());
    let plan = "/ui/dead-letters/plan?id_contains=a&from=1h";
    let page = browser.get(plan).await.is(200);
    assert_eq!(linked(&page, &["a1", "a2", "a3", "b"]), ["a1", "a2", "a3"]);
    assert!(page.text.contains("<dd><b>3</b></dd>"), "{}", page.text);
    assert!(!page.text.contains("value=\"1h\" name"), "{}", page.text);
    let start = "/ui/dead-letters/replay";
    let form = [
        ("has_filter", "yes"),
        ("id_contains", "a"),
        ("reason", "they are back"),
    ];
    for (wrong, value) in [
        ("rate", "0"),
        ("rate", "fast"),
        ("reason", "\u{1}"),
        ("cause", "x"),
    ] {
        let asked = [&form[..], &[(wrong, value)]].concat();
        let page = browser.submit(plan, start, &asked).await;
        assert!(
            page.is(422).text.contains("class=\"notice notice-failed\""),
            "{wrong}"
        );
    }
    // A form that has lost its fields does not mean everything.
    browser.submit(plan, start, &[]).await.is(422);
    let asked = [&form[..], &[("rate", "0.001")]].concat();
    let made = browser.submit(plan, start, &asked).await.is(303);
    let id = job_of(&made);
    assert!(made.location().ends_with("job-made"), "{}", made.location());
    let again = browser.submit(plan, start, &asked).await.is(303);
    assert_eq!(again.location(), format!("/ui/jobs/{id}?done=job-runs"));
    let view = until_job(&server, &id, |view| view["done"] == 1).await;
    assert_eq!(
        (&view["matched"], &view["rate"]),
        (&json!(3), &json!(0.001))
    );
    server.until_state("a1", "delivered").await;
    let job = format!("/ui/jobs/{id}");
    let page = browser.get(&format!("{job}?done=job-made")).await.is(200);
    for shown in [
        "<progress value=\"1\" max=\"3\"",
        "they are back",
        "notice-done",
        "data-live=\"/ui/events?of=job%2F",
        "chip-in_flight",
        "chip-delivered",
    ] {
        assert!(page.text.contains(shown), "{shown}: {}", page.text);
    }
    assert_eq!(linked(&page, &["a1", "a2", "b"]), ["a1"]);
    assert!(!page.text.contains("/resume\""), "{}", page.text);
    // It replays fewer than a trial takes.
    assert!(!page.text.contains("id=\"trial\""), "{}", page.text);
    let now = "All that it replayed are now: <b>1</b> delivered";
    assert!(page.text.contains(now), "{}", page.text);
    for result in ["skipped", "failed"] {
        let list = browser.get(&format!("{job}?result={result}")).await.is(200);
        assert_eq!(linked(&list, &["a1", "a2", "b"]), [""; 0]);
        let link = format!("href=\"{job}?result={result}\" aria-current=\"page\"");
        assert!(list.text.contains(&link), "{}", list.text);
        assert!(list.text.contains("There is none yet."), "{}", list.text);
    }
    let paused = [("reason", "the shop asks for it")];
    let done = browser.submit(&job, &format!("{job}/pause"), &paused).await;
    assert_eq!(done.is(303).location(), format!("{job}?done=job-pause"));
    let page = browser.get(&job).await.is(200).text;
    assert!(
        page.contains("/resume\"") && !page.contains("/pause\""),
        "{page}"
    );
    let list = browser.get("/ui/jobs?state=paused").await.is(200).text;
    assert!(list.contains(&job) && list.contains("<progress"), "{list}");
    let list = browser.get("/ui/jobs?state=done").await.is(200).text;
    assert!(!list.contains(&job), "{list}");
    browser
        .submit(&job, &format!("{job}/resume"), &[])
        .await
        .is(303);
    browser
        .submit(&job, &format!("{job}/stop"), &[])
        .await
        .is(303);
    let list = browser.get(&format!("{job}?result=failed")).await.is(200);
    assert!(list.text.contains("There is none.<"), "{}", list.text);
    let refused = browser
        .submit(
            "/ui/dead-letters",
            &format!("{job}/resume"),
            &[("reason", "go on")],
        )
        .await;
    let refused = refused.is(409).text;
    assert!(
        refused.contains("go on") && refused.contains("class=\"problem\""),
        "{refused}"
    );
    assert_eq!(server.get("b").await["state"], "dead");
    let (_, log) = server.call(Method::GET, "/v1/audit-log", None).await;
    let pause = log["items"].as_array().expect("entries").iter();
    let pause: Vec<_> = pause.filter(|act| act["act"] == "job.pause").collect();
    assert_eq!(pause[0]["reason"], "the shop asks for it", "{log}");
    browser.get("/ui/jobs/0a").await.is(404);
    browser.get("/ui/jobs/A").await.is(404);
    server.stop().await;
}

async fn a_plan_says_that_the_destination_is_held(stores: Stores) {
    const WAITS: &str = "The destination is held, so calls begin when it is released.";
    const HOSTILE: &str = "<b>they move</b>";
    let server = Server::start(stores).await;
    let mut browser = Browser::of(&server);
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&server, &mut merchant, &["1"]).await;
    let lane: String = url::form_urlencoded::byte_serialize(merchant.url("").as_bytes()).collect();
    let plan = format!("/ui/dead-letters/plan?lane={lane}");
    let page = browser.get(&plan).await.is(200).text;
    assert!(!page.contains(WAITS), "{page}");
    let hold = format!("/v1/lanes/{lane}/hold");
    let reason = Some(json!({ "reason": HOSTILE }));
    assert_eq!(server.call(Method::POST, &hold, reason).await.0, 200);
    let page = browser.get(&plan).await.is(200).text;
    for shown in [
        WAITS,
        "api holds it since ",
        "&#60;b&#62;they move&#60;/b&#62;",
        "action=\"/ui/dead-letters/replay\"",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(!page.contains(HOSTILE), "{page}");
    // What names no destination may go to many, and a cancellation makes no calls.
    for other in ["/ui/dead-letters/plan", &format!("/ui/cancel?lane={lane}")] {
        let page = browser.get(other).await.is(200).text;
        assert!(!page.contains(WAITS), "{other}: {page}");
    }
    server.stop().await;
}

async fn what_can_never_be_replayed_is_not_offered(stores: Stores) {
    const SHOP: &str = "/v1/endpoints/shop-1";
    const CANNOT: &str = "cannot be replayed: its endpoint was made again";
    let server = Server::start(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let endpoint = json!({ "url": merchant.url("/n"), "ladder": { "intervals": [] } });
    let put = async || {
        let made = server.call(Method::PUT, SHOP, Some(endpoint.clone())).await;
        assert_eq!(made.0, 201, "{}", made.1);
    };
    put().await;
    let named = json!({ "topic": "t", "id": "named", "endpoint": "shop-1", "body": "a=1" });
    server.register(named).await;
    merchant.call().await;
    server.until_state("named", "dead").await;
    let mut browser = Browser::of(&server);
    let one = browser.get("/ui/notifications/t/named").await.is(200).text;
    assert!(one.contains("named/replay\""), "{one}");
    assert_eq!(server.call(Method::DELETE, SHOP, None).await.0, 204);
    put().await;
    let_die(&server, &mut merchant, &["fine"]).await;

    let one = browser.get("/ui/notifications/t/named").await.is(200).text;
    assert!(one.contains("it is never sent there"), "{one}");
    assert!(!one.contains("named/replay\""), "{one}");
    assert!(one.contains("named/discard\""), "{one}");
    let list = browser.get("/ui/dead-letters").await.is(200).text;
    assert_eq!(list.matches(CANNOT).count(), 1, "{list}");

    let plan = browser.get("/ui/dead-letters/plan").await.is(200).text;
    let start = "action=\"/ui/dead-letters/replay\"";
    for shown in [
        "<dd><b>2</b></dd>",
        "<b>1</b> · counts as failed",
        start,
        CANNOT,
    ] {
        assert!(plan.contains(shown), "{shown}: {plan}");
    }
    let of_one = "/ui/dead-letters/plan?id_contains=named";
    let plan = browser.get(of_one).await.is(200).text;
    assert!(plan.contains("None of them can be replayed"), "{plan}");
    assert!(!plan.contains(start), "{plan}");

    let picks = [("pick-0", "t/named"), ("pick-1", "t/fine")];
    let selected = "/ui/dead-letters/selected";
    let page = browser.submit("/ui/dead-letters", selected, &picks).await;
    let page = page.is(200).text;
    for shown in [
        "<b>1</b> can be replayed now, of so many selected: 2",
        CANNOT,
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    // It can be discarded, and only the other one is in the form that replays.
    assert_eq!(page.matches("value=\"t/named\"").count(), 1, "{page}");
    assert_eq!(page.matches("value=\"t/fine\"").count(), 2, "{page}");
    let page = browser
        .submit("/ui/dead-letters", selected, &picks[..1])
        .await;
    let page = page.is(200).text;
    assert!(!page.contains("selected/replay"), "{page}");
    assert!(page.contains("selected/discard"), "{page}");
    server.stop().await;
}

async fn what_is_pending_is_planned_and_cancelled_as_a_job(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut browser = Browser::of(&server);
    let merchant = Merchant::start().await;
    for id in ["shop-1", "shop-2", "other"] {
        let mut later = registration(id, &merchant);
        later["delay"] = json!("1h");
        server.register(later).await;
    }
    let search = browser.get("/ui/search?state=scheduled&topic=t").await;
    assert!(search.is(200).text.contains("\"/ui/cancel?topic=t\""));
    let plan = "/ui/cancel?topic=t&id_contains=shop";
    let page = browser.get(plan).await.is(200);
    assert_eq!(
        linked(&page, &["shop-1", "shop-2", "other"]),
        ["shop-1", "shop-2"]
    );
    let form = [
        ("has_filter", "yes"),
        ("topic", "t"),
        ("id_contains", "shop"),
        ("reason", "closed"),
    ];
    let made = browser.submit(plan, "/ui/cancel", &form).await.is(303);
    let id = job_of(&made);
    let done = until_job(&server, &id, |view| view["state"] == "done").await;
    assert_eq!(
        (&done["kind"], &done["done"]),
        (&json!("cancel"), &json!(2))
    );
    let page = browser.get(&format!("/ui/jobs/{id}")).await.is(200);
    assert_eq!(
        linked(&page, &["shop-1", "shop-2", "other"]),
        ["shop-1", "shop-2"]
    );
    assert!(page.text.contains("chip-cancelled") && page.text.contains("closed"));
    assert!(!page.text.contains("/stop\""), "{}", page.text);
    assert_eq!(server.get("other").await["state"], "scheduled");
    server.stop().await;
}

async fn without_a_journal_dead_letters_are_listed_and_replayed(stores: Stores) {
    let server = Server::start(stores).await;
    let mut browser = Browser::of(&server);
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&server, &mut merchant, &["1", "2"]).await;
    merchant.now_does(Reaction::success());
    let page = browser.get("/ui/dead-letters?id_contains=1").await.is(200);
    assert_eq!(linked(&page, &["1", "2"]), ["1"]);
    assert!(page.text.contains("chip-fault-unknown") && !page.text.contains("/plan"));
    let pick = [("pick-0", "t/1")];
    let replay = "/ui/dead-letters/selected/replay";
    browser
        .submit("/ui/dead-letters", replay, &pick)
        .await
        .is(303);
    merchant.call().await;
    server.until_state("1", "delivered").await;
    for jobs in ["/ui/jobs", "/ui/dead-letters/plan", "/ui/cancel"] {
        browser.get(jobs).await.is(501);
    }
    server.stop().await;
}

//! The pictures of the page in the documents. The test takes them each time, and keeps them if `RINGBACK_TEST_SCREENSHOTS`
//! names a directory: `make screenshots`.

use super::every_page::{choose, sign_in};
use super::scene::{DEAD, Scene};
use super::story::{CHINESE, ENGLISH, PHONE, Words};
use crate::support::chromium::{Chromium, DESKTOP, Setup};
use crate::support::within;
use serde_json::json;
use std::path::Path;

/// What is taken: the name of the file, the page, and the height of the picture if the page is not shorter.
type Picture = (&'static str, String, u32);

/// Where the content of the page ends.
const BOTTOM: &str =
    "return Math.ceil(document.getElementById('main').getBoundingClientRect().bottom);";
/// What the overview says as long as no server has written its counts.
const NO_FIGURES: &str = "There are no figures";
/// The largest file that is kept in the repository.
const LARGEST_BYTES: usize = 150_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pictures_of_the_page_are_taken() {
    let scene = Scene::set().await;
    let on_a_desk = [
        ("overview.png", "/ui/?hours=24".to_string(), 1_000),
        ("notification.png", Scene::path(DEAD), 1_000),
        ("dead-letters.png", "/ui/dead-letters".to_string(), 860),
    ];
    take(&scene, DESKTOP, &ENGLISH, false, &on_a_desk).await;
    let on_a_phone = [("phone.png", Scene::path(DEAD), 690)];
    take(&scene, PHONE, &CHINESE, true, &on_a_phone).await;
    scene.strike().await;
}

async fn take(scene: &Scene, setup: Setup, words: &Words, is_dark: bool, pictures: &[Picture]) {
    let height = pictures.iter().map(|picture| picture.2).max();
    let size = (setup.size.0, height.expect("some"));
    let browser = Chromium::open(Setup { size, ..setup }).await;
    browser.prefer_dark(is_dark).await;
    sign_in(&browser, scene).await;
    choose(&browser, scene, words).await;
    for (name, path, height) in pictures {
        // A server writes its counts every ten seconds.
        within("the counts of the plots", async {
            loop {
                browser.go(&scene.url(path)).await;
                browser.see("#tools button").await;
                if !browser.text("main").await.contains(NO_FIGURES) {
                    return;
                }
            }
        })
        .await;
        let bottom = browser.run(BOTTOM, json!([])).await;
        let bottom = bottom.as_u64().expect("a number");
        let height = (*height).min(u32::try_from(bottom).expect("a page"));
        let picture = browser.picture((size.0, height)).await;
        assert!(picture.starts_with(b"\x89PNG"), "{name}");
        assert!(
            picture.len() < LARGEST_BYTES,
            "{name}: {} bytes",
            picture.len()
        );
        if let Some(directory) = std::env::var_os("RINGBACK_TEST_SCREENSHOTS") {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
            std::fs::create_dir_all(&directory).expect("a directory");
            std::fs::write(directory.join(name), picture).expect("written");
        }
    }
    browser.close().await;
}

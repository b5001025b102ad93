//! Both languages.

use super::Browser;
use crate::support::ringback::{Server, Stores};

#[tokio::test]
async fn the_browser_or_a_link_decides_the_language() {
    let server = Server::start(Stores::Embedded).await;
    let page = Browser::of(&server).get("/ui/").await.is(200);
    assert!(page.text.contains("<html lang=\"en\">"), "{}", page.text);
    let mut chinese = Browser::of(&server).with("accept-language", "zh-CN,zh;q=0.9,en;q=0.8");
    let page = chinese.get("/ui/search?q=x").await.is(200);
    assert!(
        page.text.contains("<html lang=\"zh-Hans\">"),
        "{}",
        page.text
    );
    assert!(page.text.contains("未找到任何记录"), "{}", page.text);
    let link = "/ui/language?to=en&amp;back=%2Fui%2Fsearch%3Fq%3Dx";
    let escaped = link.replace("&amp;", "&#38;");
    assert!(page.text.contains(&escaped), "{}", page.text);
    let back = chinese.get(&link.replace("&amp;", "&")).await.is(303);
    assert_eq!(back.location(), "/ui/search?q=x");
    let page = chinese.get("/ui/search?q=x").await.is(200);
    assert!(page.text.contains("<html lang=\"en\">"), "{}", page.text);
    let elsewhere = chinese
        .get("/ui/language?to=zh&back=https://evil.example/")
        .await
        .is(303);
    assert_eq!(elsewhere.location(), "/ui/");
    server.stop().await;
}

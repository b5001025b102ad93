//! What tests of signing keys share: secrets, master keys, and the default keys of a server.

use super::ringback::{Server, Stores, config};
use reqwest::Method;
use ringback::config::ServeConfig;
use ringback::domain::master_key::MasterKey;
use ringback::domain::signature::SigningSecret;
use serde_json::{Value, json};
use tempfile::TempDir;
use zeroize::Zeroizing;

/// The routes of the default keys.
pub const DEFAULT_KEYS: &str = "/v1/default-keys";
/// A secret that a test gives.
pub const GIVEN: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A secret that no server has unless a test gives it.
pub fn other(byte: u8) -> SigningSecret {
    SigningSecret::from_random(&[byte; 32])
}

/// A master key, as a setting.
pub fn master_key(byte: u8) -> Option<MasterKey> {
    Some(MasterKey::from_random(Zeroizing::new([byte; 32])))
}

/// A configuration with a master key where one has to be given. Elsewhere the server makes one.
pub fn with_master_key(stores: Stores) -> (ServeConfig, TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(dir.path(), stores);
    if matches!(stores, Stores::Postgres | Stores::RedisOnly) {
        config.master_key = master_key(7);
    }
    (config, dir)
}

/// The same stores, for a server that calls itself `the-other` and keeps its files elsewhere.
pub fn beside(config: &ServeConfig) -> (ServeConfig, TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut beside = config.clone();
    beside.data_dir = dir.path().to_path_buf();
    beside.delivery.user_agent = "the-other".to_string();
    (beside, dir)
}

/// The ids of the default keys.
pub async fn listed(server: &Server) -> Vec<String> {
    let (status, list) = server.call(Method::GET, DEFAULT_KEYS, None).await;
    assert_eq!(status, 200, "{list}");
    let warning = list["warning"].as_str().expect("a text");
    assert!(warning.contains("forge"), "{warning}");
    let items = list["items"].as_array().expect("a list");
    let id = |item: &Value| item["id"].as_str().expect("an id").to_string();
    items.iter().map(id).collect()
}

/// Asks for a default key to be added.
pub async fn add(server: &Server, body: Value) -> (u16, Value) {
    server.call(Method::POST, DEFAULT_KEYS, Some(body)).await
}

/// Has a default key made. Returns its id and its secret.
pub async fn added(server: &Server, overlap: &str) -> (String, SigningSecret) {
    let (status, added) = add(server, json!({ "overlap": overlap })).await;
    assert_eq!(status, 201, "{added}");
    let made = added["secret"].as_str().expect("made here");
    let id = added["id"].as_str().expect("an id").to_string();
    (id, SigningSecret::parse(made).expect("a secret"))
}

//! What the tests share: private servers, the scripted merchant, waiting for signals.

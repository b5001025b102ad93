//! The page in a real browser: what support staff do with it, from the sign-in to the delivery.

mod desk;
mod story;
mod without_script;

//! The page in a real browser: what support staff do with it, from the sign-in to the delivery; what it keeps others from; and
//! every page against the rules of accessibility.

mod desk;
mod every_page;
mod foreign_page;
mod hidden_tab;
mod keyboard;
mod scene;
mod screenshots;
mod story;
mod without_script;

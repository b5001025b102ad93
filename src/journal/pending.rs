//! Pending notifications, in the forms in which a schedule is loaded with them.

use super::Cursor;
use crate::domain::notification::Notification;
use crate::domain::place::PlaceInLane;
use crate::domain::progress::Progress;
use std::sync::Arc;

/// A pending notification, with everything that a schedule needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// The notification. Its body is left out if the caller did not ask for bodies.
    pub notification: Arc<Notification>,
    /// The attempts so far, and when the next one is due.
    pub progress: Progress,
}

/// A page of the places of pending notifications.
#[derive(Debug, Clone, Default)]
pub struct PlacesPage {
    /// Of those of which a schedule needs nothing else, soonest due first.
    pub places: Vec<PlaceInLane>,
    /// Of those whose content a claim needs: they have a place in an order, or an attempt was requested by hand. Soonest
    /// due first.
    pub need_content: Vec<PlaceInLane>,
    /// The cursor of the next page; `None` if this is the last.
    pub next: Option<Cursor>,
}

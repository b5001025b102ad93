//! Counts what each API key holds of something that all callers share: requests in flight, streams of events. The one who
//! shares it out says how many places a key may have.

use crate::domain::api_key::ApiKeyName;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The places that API keys hold.
#[derive(Debug, Clone, Default)]
pub struct KeyPlaces {
    /// How many each key holds; keys without any are not in it. `None`: the key of the settings.
    held: Arc<Mutex<HashMap<Option<ApiKeyName>, usize>>>,
}

/// A place of an API key. Given back when it is dropped.
#[derive(Debug)]
pub struct PlaceOfKey {
    name: Option<ApiKeyName>,
    places: KeyPlaces,
}

impl KeyPlaces {
    /// Takes a place for this key, which may have `most` of them.
    ///
    /// # Errors
    /// The number of places that the key holds, if it may have no more.
    pub fn take(&self, name: Option<ApiKeyName>, most: usize) -> Result<PlaceOfKey, usize> {
        let mut held = self.lock();
        let of_key = held.get(&name).copied().unwrap_or_default();
        if of_key >= most {
            return Err(of_key);
        }
        held.insert(name.clone(), of_key + 1);
        Ok(PlaceOfKey {
            name,
            places: self.clone(),
        })
    }

    /// Whether no key holds a place.
    #[cfg(test)]
    pub(super) fn are_all_free(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<ApiKeyName>, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PlaceOfKey {
    fn drop(&mut self) {
        let mut held = self.places.lock();
        match held.get_mut(&self.name) {
            Some(of_key) if *of_key > 1 => *of_key -= 1,
            Some(_) | None => {
                held.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_places_and_gives_them_back() {
        let places = KeyPlaces::default();
        let desk = ApiKeyName::parse("desk").expect("a name");
        for name in [Some(desk), None] {
            let first = places.take(name.clone(), 2).expect("free");
            let second = places.take(name.clone(), 2).expect("free");
            assert_eq!(places.take(name.clone(), 2).err(), Some(2));
            assert!(places.take(name.clone(), 3).is_ok());
            drop(first);
            let again = places.take(name, 2);
            assert!(again.is_ok());
            drop((second, again));
            assert!(places.are_all_free());
        }
    }
}

use super::*;
use crate::delivery::http2::frames::FrameFinder;
use crate::delivery::socket::Socket;
use tokio::net::{TcpListener, TcpStream};

const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const PONG: [u8; 17] = [0, 0, 8, 6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0];

fn came(state: &ConnectionState, bytes: &[u8], now: Instant) -> Result<(), ConnectionEnd> {
    let mut result = Ok(());
    FrameFinder::after(0).read(bytes, |found| {
        if result.is_ok() {
            result = state.came(found, now);
        }
    });
    result
}

/// A connection whose receiver has sent its settings.
async fn begun(now: Instant) -> ConnectionState {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let stream = TcpStream::connect(address).await.expect("connects");
    let state = ConnectionState::new(Socket::new(stream).1, now);
    assert!(!state.takes_calls(now));
    came(&state, &SETTINGS, now).expect("settings");
    assert!(state.take_change());
    assert!(state.takes_calls(now));
    state
}

#[tokio::test]
async fn a_call_that_ran_out_of_time_puts_its_connection_in_doubt_until_an_answer_comes() {
    let now = Instant::now();
    let state = begun(now).await;
    let until = now + Duration::from_secs(60);
    let (first, second) = (state.begin_call(until, now), state.begin_call(until, now));
    state.end_call(first, true);
    assert!(!state.takes_calls(now));
    came(&state, &PING, now).expect("one ping");
    assert!(!state.takes_calls(now), "a ping of its own says nothing");
    came(&state, &PONG, now).expect("an answer");
    assert!(state.take_change());
    assert!(state.takes_calls(now));
    state.end_call(second, false);
    assert!(state.takes_calls(now));
}

#[tokio::test]
async fn a_connection_that_is_silent_during_calls_gets_no_further_ones() {
    let now = Instant::now();
    let state = begun(now).await;
    // Without calls, there is nothing to say.
    let later = now + Duration::from_secs(3_600);
    assert!(state.takes_calls(later));
    assert_eq!(state.silent_for(later), Duration::ZERO);
    let call = state.begin_call(later + Duration::from_secs(60), later);
    let millisecond = Duration::from_millis(1);
    assert!(state.takes_calls(later + SILENT_BEFORE_DOUBT - millisecond));
    let silent = later + SILENT_BEFORE_DOUBT;
    assert!(!state.takes_calls(silent));
    came(&state, &PING, silent).expect("one ping");
    assert!(state.takes_calls(silent));
    state.end_call(call, false);
}

#[tokio::test]
async fn a_connection_that_takes_no_bodies_gets_no_calls_although_it_answers_pings() {
    let now = Instant::now();
    let state = begun(now).await;
    state.wrote_body(65_535, now);
    assert!(state.takes_calls(now));
    state.ended_unsent();
    came(&state, &PONG, now).expect("an answer");
    assert!(!state.takes_calls(now));
    assert!(!state.take_change());
    let window_update = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    came(&state, &window_update, now).expect("an update");
    assert!(state.take_change());
    assert!(state.takes_calls(now));
}

#[tokio::test]
async fn what_was_not_written_or_came_after_the_last_call_was_not_processed() {
    let now = Instant::now();
    let state = begun(now).await;
    state.wrote(5);
    assert!(state.is_unprocessed(7));
    assert!(!state.is_unprocessed(5));
    came(&state, &GOAWAY, now).expect("a GOAWAY");
    assert!(state.is_leaving() && !state.takes_calls(now));
    assert!(state.is_unprocessed(5));
    assert!(!state.is_unprocessed(3));
}

#[tokio::test]
async fn a_receiver_may_widen_its_window_as_often_as_a_long_body_needs() {
    let now = Instant::now();
    let state = begun(now).await;
    let until = now + Duration::from_secs(60);
    let before = state.begin_call(until, now);
    state.end_call(before, false);
    state.begin_call(until, now);
    let widened = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 4, 0];
    for _ in 0..512 {
        state.wrote_body(16_384, now);
        for _ in 0..8 {
            came(&state, &widened, now).expect("for the body");
        }
    }
    // Those that were not needed are left.
    let most = 512 * (32 - 8) + MOST_OTHER_FRAMES + MOST_OTHER_FRAMES_OF_CALL;
    for _ in 0..most {
        came(&state, &widened, now).expect("within the bound");
    }
    let end = ConnectionEnd::too_many_frames();
    assert_eq!(came(&state, &widened, now), Err(end));
}

#[tokio::test]
async fn so_many_frames_may_come_for_each_call_and_no_more() {
    let now = Instant::now();
    let state = begun(now).await;
    let until = now + Duration::from_secs(60);
    // What earlier calls did not use does not remain.
    for _ in 0..10 {
        let call = state.begin_call(until, now);
        state.end_call(call, false);
    }
    state.begin_call(until, now);
    let most = MOST_OTHER_FRAMES + MOST_OTHER_FRAMES_OF_CALL;
    for _ in 0..most {
        came(&state, &PING, now).expect("within the bound");
    }
    let end = ConnectionEnd::too_many_frames();
    assert_eq!(came(&state, &PING, now), Err(end.clone()));
    assert_eq!(state.end(), Some(end));
}

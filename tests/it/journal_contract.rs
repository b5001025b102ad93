//! The contract of every journal, put to each implementation over a real store.
//!
//! A test takes a [`Store`]: something that journals can be opened on, one after the other. To put
//! another implementation under the contract, write its store and one more `contract!` line.

mod activity;
mod acts;
mod api_keys;
mod audit_log;
mod bulk_jobs;
mod changing;
mod days;
mod endpoints;
mod forgotten_orders;
mod job_results;
mod jobs;
mod keeping;
mod lanes;
mod later;
mod listing;
mod maintenance;
mod migrating;
mod migrating_orders;
mod older;
mod order_of_endpoints;
mod ordering;
mod partition_scene;
mod payloads;
mod pending;
mod places;
mod postgres_history_partitions;
mod postgres_later;
mod postgres_order_locks;
mod postgres_outages;
mod postgres_partitions;
mod postgres_reading;
mod postgres_sharing;
mod postgres_tls;
mod recording;
mod registering;
mod resealing;
pub mod samples;
mod searching;
mod set_back;
mod setting_aside;
mod sqlite_file;

use crate::support::postgres::{connect, fresh_database};
use async_trait::async_trait;
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::resealing::{ResealResult, Resealing};
use ringback::journal::sqlite::SqliteJournal;
use ringback::journal::{Actor, Journal, JournalError, JournalMaintenance as _};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// The name under which the journals of these tests sign.
const INSTANCE: &str = "instance-1";

/// Where a journal is kept.
#[async_trait]
trait Store: Send + Sync {
    /// Opens the journal that is kept there; the one opened before must have been dropped or
    /// closed.
    async fn open(&self) -> Arc<dyn Journal>;

    /// Encrypts everything in it again; no journal is open.
    async fn reseal(
        &self,
        resealing: &mut dyn Resealing,
        at_ms: i64,
    ) -> Result<ResealResult, JournalError>;

    /// Makes a change that no journal would make; no journal is open.
    async fn damage(&self, statement: &'static str);

    /// Leaves the rows as a server wrote them that did not know of the index of what is due later. `false` if the index
    /// follows from the other columns. No journal is open.
    async fn forget_later(&self) -> bool;
}

/// A file in a directory of its own.
struct SqliteStore {
    directory: TempDir,
}

impl SqliteStore {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("journal.db")
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn open(&self) -> Arc<dyn Journal> {
        let journal = SqliteJournal::open(&self.path(), INSTANCE).await;
        Arc::new(journal.expect("it opens"))
    }

    async fn reseal(
        &self,
        resealing: &mut dyn Resealing,
        at_ms: i64,
    ) -> Result<ResealResult, JournalError> {
        let journal = SqliteJournal::open(&self.path(), INSTANCE).await;
        let journal = journal.expect("it opens");
        let result = journal.reseal(resealing, &changer(), at_ms).await;
        journal.close().await;
        result
    }

    async fn damage(&self, statement: &'static str) {
        let options = SqliteConnectOptions::new().filename(self.path());
        let mut connection = options.connect().await.expect("a connection");
        let damaging = sqlx::query(statement).execute(&mut connection);
        damaging.await.expect("written");
    }

    async fn forget_later(&self) -> bool {
        false
    }
}

/// A database of its own on the server that all tests share.
struct PostgresStore {
    url: String,
}

impl PostgresStore {
    fn new() -> Self {
        Self {
            url: fresh_database(),
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn open(&self) -> Arc<dyn Journal> {
        let journal = PostgresJournal::open(&self.url, INSTANCE, true).await;
        Arc::new(journal.expect("it opens"))
    }

    async fn reseal(
        &self,
        resealing: &mut dyn Resealing,
        at_ms: i64,
    ) -> Result<ResealResult, JournalError> {
        let journal = PostgresJournal::open(&self.url, INSTANCE, false).await;
        let journal = journal.expect("it opens");
        let result = journal.reseal(resealing, &changer(), at_ms).await;
        journal.close().await;
        result
    }

    async fn damage(&self, statement: &'static str) {
        let mut connection = connect(&self.url).await;
        let damaging = sqlx::query(statement).execute(&mut connection);
        damaging.await.expect("written");
    }

    async fn forget_later(&self) -> bool {
        self.damage("UPDATE statuses SET later_lane = NULL").await;
        true
    }
}

/// Who changes the master key.
fn changer() -> Actor {
    Actor::named("master-key change")
}

macro_rules! contract {
    ($name:ident, $store:expr) => {
        contract!($name, $store,
            registering::a_key_is_registered_once,
            registering::the_first_of_two_in_a_batch_wins,
            registering::a_new_one_is_scheduled_and_has_one_line_of_history,
            registering::every_field_is_kept,
            registering::bodies_are_kept_byte_for_byte,
            registering::batches_of_any_size_are_kept_whole,
            registering::one_that_was_forgotten_goes_on_where_it_was,
            recording::a_failed_attempt_moves_on_and_is_kept,
            recording::a_deferred_attempt_moves_the_deadline_of_its_notification_alone,
            recording::a_delivery_ends_it,
            recording::a_recording_that_is_repeated_is_kept_once,
            recording::a_last_failure_parks_it_with_its_cause,
            recording::an_interrupted_attempt_is_kept_and_changes_nothing,
            recording::a_repeated_note_of_an_interruption_says_that_it_has_ended,
            recording::an_attempt_after_a_cancellation_is_kept_and_changes_nothing,
            recording::an_attempt_that_was_overtaken_is_kept_and_changes_nothing,
            recording::a_delivery_that_was_overtaken_counts_all_the_same,
            recording::a_delivery_of_what_died_meanwhile_counts_all_the_same,
            recording::an_attempt_of_an_earlier_series_is_kept_and_changes_nothing,
            recording::two_recordings_in_a_batch_are_applied_in_order,
            recording::a_recording_of_nothing_is_missing,
            recording::an_end_forgets_the_attempt_asked_for_by_hand,
            changing::each_change_needs_its_state,
            changing::a_change_of_nothing_is_missing,
            changing::a_replay_starts_a_new_series_and_keeps_the_history,
            changing::a_resend_starts_a_new_series_and_keeps_the_history,
            changing::what_has_no_body_any_more_is_not_sent_again,
            changing::a_move_takes_the_deadline_along_and_says_from_when_to_when,
            changing::what_was_attempted_on_its_ladder_is_not_moved,
            changing::what_is_set_aside_is_not_moved,
            changing::an_outcome_from_before_a_move_does_not_undo_it,
            changing::a_retry_brings_the_next_attempt_forward,
            changing::the_history_says_who_did_what_and_why,
            changing::a_change_whose_lease_was_lost_is_refused,
            changing::a_change_that_comes_twice_is_applied_once,
            changing::only_what_is_pending_is_fenced,
            changing::many_are_fenced_at_once,
            endpoints::an_endpoint_is_kept_and_gets_a_version_with_every_change,
            endpoints::a_change_that_is_based_on_an_older_version_is_refused,
            endpoints::a_removed_endpoint_is_still_known_and_its_versions_go_on,
            endpoints::what_has_changed_is_read_in_the_order_of_the_changes,
            endpoints::changes_made_at_once_get_different_numbers,
            endpoints::keys_are_kept_until_they_are_replaced,
            endpoints::the_first_keys_decide_the_master_key,
            api_keys::an_api_key_is_kept_as_it_was_added,
            api_keys::changes_of_api_keys_wait_for_each_other,
            api_keys::an_api_key_that_cannot_be_read_hides_no_other,
            acts::each_change_of_a_notification_is_one_act,
            acts::each_order_to_a_lane_is_one_act,
            acts::a_job_of_a_filter_is_one_act,
            acts::a_job_and_each_order_to_it_are_one_act,
            acts::each_change_of_an_endpoint_is_one_act,
            acts::each_change_of_the_default_keys_is_one_act,
            acts::each_change_of_the_api_keys_is_one_act,
            acts::a_rebuild_and_a_change_of_the_master_key_are_acts,
            audit_log::an_act_is_kept_as_it_was_given,
            audit_log::an_act_whose_entry_cannot_be_kept_is_not_done,
            audit_log::what_comes_twice_at_once_is_one_act,
            audit_log::each_filter_picks_its_acts,
            audit_log::pages_follow_on_each_other_whatever_is_done_meanwhile,
            audit_log::old_acts_are_pruned_in_steps,
            resealing::all_secrets_are_encrypted_again_in_one_transaction,
            resealing::more_endpoints_than_a_page_are_encrypted_again,
            resealing::what_neither_master_key_opens_stays_as_it_is,
            resealing::nothing_is_changed_if_one_secret_cannot_be_encrypted,
            resealing::nothing_is_changed_if_something_fails_half_way,
            resealing::nothing_is_changed_if_the_process_dies_half_way,
            resealing::a_journal_of_another_master_key_or_of_none_is_left_alone,
            listing::the_last_attempt_of_each_is_read,
            listing::each_filter_picks_its_own,
            listing::times_include_their_start_and_not_their_end,
            listing::lists_are_sorted_newest_first,
            listing::what_is_due_is_sorted_by_when_it_became_due,
            listing::pages_follow_on_each_other_whatever_is_registered_meanwhile,
            listing::an_impossible_filter_gives_an_empty_list,
            searching::an_id_is_found_in_every_topic,
            searching::a_search_is_narrowed_by_every_other_filter,
            searching::a_webhook_id_is_found_by_its_instant,
            searching::more_than_can_be_sorted_is_scanned_in_the_same_order,
            searching::pages_of_a_search_follow_on_each_other,
            searching::an_id_is_not_looked_for_in_too_many_topics,
            searching::a_part_of_a_url_is_found,
            searching::dead_letters_of_a_lane_and_of_a_cause_are_found,
            searching::a_page_reads_no_more_than_it_may,
            payloads::a_payload_is_read_as_it_was_registered_whatever_its_state,
            payloads::a_payload_that_was_pruned_is_not_made_up,
            pending::pages_are_sorted_by_due_time_and_complete,
            pending::what_has_ended_is_not_pending,
            pending::short_bodies_come_with_the_rest_and_the_fence_is_raised_on_request,
            pending::what_a_schedule_must_agree_with_is_what_a_snapshot_says,
            pending::an_attempt_by_hand_comes_forward,
            pending::large_bodies_make_pages_shorter_and_leave_nothing_out,
            pending::pages_without_bodies_are_the_same_but_for_them,
            pending::bodies_are_read_by_their_keys,
            places::places_are_those_of_the_pages_with_everything,
            places::what_a_claim_must_know_more_of_is_said_to_need_its_content,
            places::the_priority_is_that_of_the_series,
            places::what_cannot_be_read_delays_no_other_place,
            setting_aside::the_oldest_due_is_pending_and_not_set_aside,
            setting_aside::what_is_due_by_an_instant_is_counted_up_to_a_limit,
            setting_aside::what_is_set_aside_is_pending_and_put_into_no_schedule,
            setting_aside::those_set_aside_are_listed_up_to_a_bound,
            setting_aside::pages_go_on_past_what_is_set_aside,
            setting_aside::a_change_releases_it_and_the_history_says_that_it_was,
            setting_aside::what_has_ended_or_was_pruned_is_not_set_aside,
            setting_aside::no_word_of_a_reason_is_too_odd_to_be_kept,
            lanes::a_change_of_a_lane_is_numbered_and_found,
            lanes::a_lane_that_changed_twice_comes_once_with_all_its_settings,
            lanes::changes_of_lanes_come_in_pages,
            lanes::a_lane_whose_settings_cannot_be_read_is_held,
            lanes::a_hold_of_the_dispatcher_replaces_no_hold,
            lanes::numbers_of_changes_never_go_back,
            lanes::changes_of_lanes_at_once_get_a_number_each,
            later::destinations_with_something_later_are_found_in_pages,
            later::what_is_due_after_an_instant_is_counted_up_to_a_limit,
            later::what_is_due_later_follows_every_change,
            later::what_lacks_its_place_is_entered,
            forgotten_orders::the_latest_that_was_forgotten_ends_lower_ones_when_it_is_registered_again,
            forgotten_orders::a_lower_one_that_was_forgotten_is_kept_and_not_sent,
            forgotten_orders::what_was_forgotten_is_kept_whatever_its_number,
            forgotten_orders::the_highest_number_is_not_forgotten_before_a_lower_one,
            forgotten_orders::a_highest_number_goes_with_the_last_dead_letter,
            forgotten_orders::what_is_not_old_does_not_go_with_a_dead_letter,
            forgotten_orders::many_that_were_kept_for_a_dead_letter_go_with_it,
            ordering::the_highest_number_ends_the_lower_ones_of_its_key,
            ordering::a_batch_is_judged_in_its_order,
            ordering::what_was_in_flight_when_it_was_ended_counts_if_it_was_accepted,
            ordering::what_is_cancelled_by_hand_after_a_higher_number_ended_it_stays_so,
            ordering::what_a_higher_number_follows_is_not_sent_again,
            ordering::a_strict_number_waits_for_the_lowest_that_is_pending,
            ordering::a_strict_number_is_refused_when_a_higher_one_was_sent,
            ordering::numbers_registered_at_once_leave_the_highest,
            order_of_endpoints::the_latest_number_of_the_endpoint_before_does_not_count,
            order_of_endpoints::a_strict_number_of_the_endpoint_before_does_not_count,
            order_of_endpoints::the_highest_number_of_each_endpoint_is_kept_by_itself,
            order_of_endpoints::an_endpoint_that_cannot_be_read_stops_no_registration,
            jobs::a_job_is_kept_and_listed_newest_first,
            jobs::a_job_that_cannot_be_read_keeps_no_other_back,
            jobs::a_lane_has_one_job_at_a_time_and_all_have_a_bound,
            jobs::an_order_changes_a_job_until_it_has_ended,
            jobs::one_server_has_a_job_at_a_time,
            jobs::a_step_is_kept_whole_or_not_at_all,
            jobs::a_job_that_cannot_go_on_says_why,
            jobs::jobs_that_ended_long_ago_are_pruned,
            jobs::a_job_concerns_what_was_pending_and_not_due,
            set_back::a_job_whose_lease_ends_too_late_is_free,
            job_results::what_a_step_has_not_changed_is_listed_with_its_reason,
            job_results::what_waits_for_its_turn_is_kept_with_the_job,
            bulk_jobs::the_same_request_is_one_job_until_that_has_ended,
            bulk_jobs::it_is_counted_which_dead_letters_can_never_be_replayed,
            bulk_jobs::a_replay_concerns_what_was_dead_when_it_was_made,
            bulk_jobs::a_cancellation_concerns_what_was_pending_when_it_was_made,
            bulk_jobs::what_cannot_be_sent_again_counts_as_failed,
            bulk_jobs::a_series_may_have_a_priority_of_its_own,
            bulk_jobs::it_is_told_how_those_have_fared_that_a_job_has_replayed,
            activity::counters_of_all_servers_are_added_up,
            activity::counters_that_come_again_or_late_are_not_counted_twice,
            activity::counters_are_forgotten_after_three_days,
            days::a_day_has_all_that_was_registered_in_it_with_its_end,
            days::a_day_is_read_as_of_one_instant,
            days::pages_of_a_day_follow_on_each_other,
            days::a_day_of_a_topic_and_of_an_endpoint_has_those_alone,
            days::what_cannot_be_read_is_named_and_counted,
            pending::what_cannot_be_read_delays_no_other,
            days::it_is_known_up_to_when_a_day_may_lack_something,
            maintenance::many_are_looked_up_at_once_in_order,
            maintenance::changes_by_hand_are_found_by_their_time,
            maintenance::a_note_stands_in_the_history,
            maintenance::a_rebuild_stands_in_the_history_of_what_was_pending,
            maintenance::payloads_go_first_and_records_later,
            maintenance::dead_letters_stay_unless_asked_for,
            maintenance::what_is_sent_again_keeps_its_body_until_it_ends_anew,
            maintenance::pruning_goes_in_steps_and_skips_the_pending,
            maintenance::a_pruned_key_can_be_registered_again,
            maintenance::a_value_is_remembered_under_its_name,
            keeping::what_was_answered_is_there_after_an_abrupt_end,
            keeping::counts_follow_every_change,
            keeping::what_is_wrong_is_counted_and_named,
            keeping::many_tasks_can_write_at_once,
            keeping::a_caller_that_goes_away_disturbs_nobody,
            keeping::a_check_keeps_nothing,
            keeping::a_closed_journal_says_so,
        );
    };
    ($name:ident, $store:expr, $($module:ident::$test:ident),+ $(,)?) => {
        mod $name {
            use super::*;

            $(
                #[tokio::test]
                async fn $test() {
                    super::$module::$test(&$store).await;
                }
            )+
        }
    };
}

contract!(sqlite, SqliteStore::new());
contract!(postgres, PostgresStore::new());

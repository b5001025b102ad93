//! The contract of [`ringback::schedule`], put to every implementation: a test per sentence, and a
//! model that predicts what any sequence of calls does.
//!
//! An implementation takes part with a line `schedule_contract!(name, fixture, cases)`: `fixture`
//! opens a fresh schedule with the given limits, `cases` is how many sequences the model tries. In a cluster, where tests
//! cannot have a database each, they run one after another.

mod bare;
mod by_hand;
mod claiming;
mod cluster;
mod damage;
mod damaged_orders;
mod deferring;
mod early;
mod ending;
mod fair_shares;
mod fairness;
pub mod fixture;
mod foreign_types;
mod horizons;
mod lane_settings;
mod lane_status;
mod late;
mod late_by_hand;
mod leasing;
mod leaving_content;
pub mod losing;
mod lost_turns;
mod memory;
mod missing;
mod model;
mod orders;
mod outages;
mod owning;
mod partitions;
mod priorities;
mod redis;
mod registering;
mod reserving;
mod resizing;
mod restoring;
mod sentinels;
mod set_back;
mod shares;
mod skipping;
mod steps;
mod unknown_changes;
mod waking;

/// Puts the whole contract to one implementation.
macro_rules! schedule_contract {
    ($suite:ident, $open:expr, $cases:expr) => {
        mod $suite {
            use super::*;

            each_entry!($open);
            all_lanes!($open);

            #[test]
            fn any_sequence_of_calls_does_what_the_model_predicts() {
                model::holds($open, $cases);
            }
        }
    };
}

/// What holds for each entry and each lane, also where lanes lie in several partitions.
macro_rules! each_entry {
    ($open:expr) => {
        sentences!($open,
            registering {
                an_entry_is_found_as_it_was_registered,
                any_content_survives,
                registering_again_shows_what_is_there,
                of_concurrent_registrations_one_creates,
                what_was_never_registered_is_missing,
                counts_follow_every_change,
                a_working_schedule_says_so,
            }
            claiming {
                due_exactly_now_is_claimed_and_a_millisecond_later_is_not,
                within_a_lane_what_is_due_longest_comes_first_then_by_key,
                a_claim_takes_as_many_as_were_asked_for,
                everything_that_is_due_is_brought_once,
                a_claim_says_when_there_is_next_something,
                nothing_is_next_once_everything_has_ended,
                a_lane_is_never_over_its_cap,
                a_cap_below_a_visit_holds,
                a_full_lane_goes_on_when_a_lease_is_settled,
                an_expired_lease_makes_room_in_a_full_lane,
                concurrent_claims_share_nothing,
            }
            leasing {
                a_claimed_entry_belongs_to_one_lease,
                a_deferred_entry_is_due_later_and_otherwise_the_same,
                a_lease_expires_after_its_time_and_not_before,
                an_interruption_is_told_until_an_attempt_is_settled,
                an_entry_to_verify_stays_so_until_an_attempt_is_settled,
                a_renewed_lease_begins_anew,
                a_lost_lease_is_not_renewed,
                again_puts_it_back_with_new_progress,
                release_puts_it_back_as_it_was,
                recheck_puts_it_back_to_be_fenced,
                a_settlement_after_the_lease_was_returned_changes_nothing,
                a_lease_that_expired_unnoticed_still_settles,
                settling_twice_changes_nothing_the_second_time,
                a_settlement_needs_the_very_expiry,
                leases_of_one_millisecond_are_told_apart,
                of_concurrent_settlements_one_is_done,
                another_instance_can_settle,
                many_expired_leases_all_come_back,
            }
            by_hand {
                an_entry_is_leased_by_hand_due_or_not,
                a_lease_by_hand_disregards_the_cap_and_counts,
                a_leased_entry_is_nobody_elses,
                an_attempt_that_expired_is_returned_to_whoever_asks,
                of_many_that_expired_any_can_be_leased,
                a_lease_by_hand_that_expired_has_the_journal_fenced,
                an_interruption_outlasts_a_lease_by_hand_that_expires,
                a_lease_by_hand_that_expired_unnoticed_still_settles,
                a_request_made_again_gets_its_lease_again,
                a_request_made_again_too_late_finds_what_others_find,
                what_has_ended_is_leased_where_it_is_remembered,
                what_was_leased_early_waits_again_for_its_time,
                of_concurrent_requests_one_gets_the_lease,
                another_instance_can_settle_a_change,
                a_retry_makes_a_waiting_entry_due_at_once,
                a_retry_of_a_due_entry_is_the_attempt_of_its_ladder,
            }
            reserving {
                what_is_not_here_is_reserved_if_the_journal_knows_it,
                a_reserved_key_is_nobody_elses,
                a_reservation_asked_for_again_is_given_again,
                what_is_put_in_under_a_reservation_waits,
                forget_drops_what_was_put_in,
                put_replaces_what_was_put_in,
                a_reservation_that_expired_unnoticed_still_settles,
                a_reservation_is_ended_once_by_its_own_lease,
                a_request_made_again_gets_what_was_put_in,
                of_concurrent_requests_one_reserves,
                of_concurrent_a_registration_waits_or_is_leased,
                many_reservations_end_and_expire,
            }
            unknown_changes {
                what_waited_for_a_change_of_unknown_end_is_fenced,
                what_comes_after_a_change_of_unknown_end_is_fenced,
                what_is_fenced_once_is_not_fenced_again,
                a_change_of_unknown_end_is_told_to_the_next_but_one,
                after_a_change_of_known_end_none_is_unknown,
            }
            restoring {
                what_is_missing_is_put_back,
                what_stands_elsewhere_is_moved,
                what_is_moved_keeps_what_it_is_marked_with,
                what_is_leased_or_right_is_left_alone,
                any_number_is_restored,
                what_is_put_back_comes_at_its_time,
                what_is_put_back_waits_for_a_full_lane,
                what_is_held_is_told_in_order,
                a_scan_shows_everything_that_stays,
                a_cursor_that_no_scan_gave_is_refused,
                what_was_restored_rings,
            }
            ending {
                with_a_journal_an_ended_entry_is_forgotten_at_once,
                without_a_journal_an_ended_entry_is_remembered,
                an_interruption_ends_with_the_entry,
                a_delivered_or_cancelled_entry_is_forgotten_after_its_time,
                many_ended_entries_are_forgotten_in_the_end,
                a_dead_entry_is_kept_whole_until_somebody_decides,
                a_dead_entry_begins_anew,
                a_dead_entry_can_be_given_up,
                an_ended_entry_that_was_leased_is_put_back_as_it_was,
                what_is_leased_is_not_forgotten,
                dead_pages_show_the_newest_first,
                dead_pages_stay_in_place_while_entries_come_and_go,
                dead_pages_show_all_of_one_instant,
                a_cursor_that_no_page_gave_is_refused,
            }
            waking {
                a_registration_rings,
                a_registration_elsewhere_rings,
                what_becomes_claimable_again_rings,
                a_place_in_a_full_lane_rings,
                an_attempt_by_hand_rings,
                a_dead_entry_that_begins_anew_rings,
                a_lease_by_hand_rings_for_its_expiry,
                what_waited_for_a_reservation_rings,
                a_claim_does_not_ring,
            }
            fair_shares {
                a_lane_starts_small_and_grows_with_every_answer,
                a_call_without_an_answer_halves_what_a_lane_gets,
                a_lane_that_fails_is_probed_less_and_less_often,
                what_is_registered_behind_a_probe_waits_for_it,
                a_call_that_is_asked_for_does_not_wait_for_the_next_probe,
                a_lane_of_which_a_call_is_asked_for_does_not_wait_for_the_next_probe,
                a_call_that_is_asked_for_does_not_wait_for_the_failure_of_an_earlier_one,
                the_state_of_a_lane_is_known_to_every_instance,
                the_state_of_a_lane_is_forgotten_after_an_hour,
                a_call_that_was_not_made_says_nothing,
            }
            lane_settings {
                a_held_lane_gives_nothing_until_it_is_released,
                a_hold_is_obeyed_by_every_instance,
                an_attempt_by_hand_does_not_break_a_hold,
                leases_of_a_held_lane_end_as_always,
                a_lane_may_have_a_cap_of_its_own,
                a_lane_with_a_rate_gets_its_calls_at_that_rate,
                a_fast_rate_has_a_small_burst,
                a_rate_outlasts_an_empty_lane,
                a_lease_by_hand_needs_no_place_in_the_rate,
                holds_and_limits_are_changed_apart,
                a_release_rings,
                nothing_is_given_until_the_settings_are_here,
                changes_are_taken_once_and_in_order,
                any_number_of_lanes_is_configured,
            }
            orders {
                of_one_order_key_one_is_in_flight,
                a_failed_attempt_makes_way_in_latest_alone,
                the_next_goes_when_the_lease_before_has_expired,
                a_settlement_of_a_lost_lease_lets_no_two_go_together,
                a_renewed_lease_keeps_the_others_waiting,
                what_was_deferred_goes_when_the_one_before_has_ended,
                a_higher_number_makes_the_lowest_that_waits_no_later,
                what_comes_after_a_number_that_waits_is_not_claimed,
                what_waits_is_claimed_again_although_nothing_ended,
                an_end_while_the_journal_is_asked_is_not_missed,
                what_waits_for_its_order_uses_no_call_of_a_rate,
                a_lease_that_is_over_keeps_nobody_waiting,
            }
            priorities {
                higher_priorities_come_first_and_then_what_is_due_longest,
                each_priority_is_claimed_when_it_is_due,
                a_priority_stays_whatever_is_done,
                what_is_put_back_keeps_its_priority,
                what_was_requested_by_hand_goes_before_others_of_its_priority,
                what_was_requested_by_hand_stays_first_until_it_is_put_off,
            }
            deferring {
                a_claim_knows_when_a_lane_was_held,
                a_claim_knows_when_a_lane_was_probed,
                a_claim_knows_whether_a_lane_is_full_or_at_its_rate,
                a_claim_knows_since_when_a_lane_had_a_free_place,
                a_claim_knows_of_each_lane_since_when_it_had_a_free_place,
                what_is_on_time_or_was_never_kept_waiting_says_nothing_of_its_lane,
                an_entry_that_was_put_off_is_found_where_it_waits,
                an_entry_that_was_put_off_says_what_its_server_lacked,
                a_lane_keeps_how_its_last_call_ended,
            }
            skipping {
                a_skipped_lane_gets_nothing_and_is_not_next,
                an_expired_lease_of_a_skipped_lane_is_returned,
                many_skipped_lanes_hide_no_other,
            }
            lane_status {
                lanes_are_counted_by_their_state,
                a_lane_shows_what_is_in_it,
                a_lane_shows_how_it_is_doing_and_its_settings,
                pages_show_every_lane,
                a_lane_tells_apart_what_is_due_after_all_that_was_loaded,
                a_lane_that_fails_is_found_while_it_has_nothing_here,
            }
            set_back {
                a_registration_in_a_lane_with_a_rate_waits_for_an_interval_at_most,
                what_waits_in_a_lane_with_a_rate_waits_for_an_interval_at_most,
                a_registration_in_a_probed_lane_is_sent_within_the_wait_of_a_probe,
                what_waits_in_a_probed_lane_is_sent_within_the_wait_of_a_probe,
                a_lane_that_was_served_before_is_served_at_once,
                a_clock_that_is_set_back_a_little_changes_no_turn,
                many_lanes_are_served_as_if_the_clock_had_not_been_ahead,
            }
            outages {
                an_outage_that_has_ended_is_known_until_it_was_dealt_with,
                two_outages_that_nobody_dealt_with_are_one,
                an_outage_is_remembered_while_something_waits,
                an_outage_of_an_endpoint_without_entries_is_remembered,
            }
        );
    };
}

/// What holds between lanes, as long as they lie in one partition; and a registration that is late, which a
/// directory refuses.
macro_rules! all_lanes {
    ($open:expr) => {
        sentences!($open,
            registering {
                a_registration_that_comes_late_has_the_journal_asked,
            }
            claiming {
                the_lane_that_is_due_longest_comes_first,
            }
            fairness {
                claims_of_one_go_round,
                a_claim_goes_round_while_there_is_room,
                a_huge_backlog_costs_another_lane_one_visit,
                a_hundred_backlogs_cost_another_lane_one_visit_each,
                a_full_lane_holds_nobody_up,
                a_lane_that_was_full_comes_behind_those_that_wait,
                a_lane_with_nothing_due_takes_no_turn,
            }
            skipping {
                a_skipped_lane_keeps_its_turn,
            }
            fair_shares {
                destinations_that_answer_come_first,
                a_part_is_kept_for_idle_lanes,
                a_part_is_kept_for_doubtful_and_probing_lanes,
                doubtful_and_probing_lanes_get_their_part,
            }
        );
    };
}

/// One test per sentence. A sentence that is left out here is reported as dead code.
macro_rules! sentences {
    ($open:expr, $($chapter:ident { $($sentence:ident),+ $(,)? })+) => {
        $($(
            #[tokio::test]
            async fn $sentence() {
                $chapter::$sentence($open).await;
            }
        )+)+
    };
}

schedule_contract!(in_memory, memory::open, 256);
schedule_contract!(in_redis, redis::open, 48);

mod in_partitions {
    use super::*;
    each_entry!(partitions::with_a_journal);
}

mod with_a_directory {
    use super::*;
    each_entry!(partitions::with_a_directory);
}

schedule_contract!(behind_sentinels, sentinels::open, 8);

mod in_a_cluster {
    use super::*;
    each_entry!(cluster::with_a_journal);
}

mod in_one_partition_of_a_cluster {
    use super::*;
    all_lanes!(cluster::in_one_partition);

    #[test]
    fn any_sequence_of_calls_does_what_the_model_predicts() {
        model::holds(cluster::in_one_partition, 8);
    }
}

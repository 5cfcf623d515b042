//! NATS, held to everything a bus promises, on a server that is really there.

use live_tests::{NatsWorld, Shape};
use mesh_bus::conformance;

macro_rules! claims {
    ($shape:expr => $($claim:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $claim() -> anyhow::Result<()> {
            if let Some(world) = NatsWorld::start($shape).await? {
                conformance::$claim(&world).await?;
            }
            Ok(())
        }
    )*};
}

// The seven claims and the one about announcements.
claims! { Shape::Derived =>
    a_report_is_heard_recorded_and_leaves_the_queue
    a_report_the_store_cannot_take_is_held_with_a_delay_and_stays_with_the_broker
    a_held_report_is_recorded_when_the_store_returns
    a_report_about_a_superseded_declaration_is_settled_without_being_acted_on
    a_report_the_store_never_takes_is_let_go_once_the_bound_passes
    a_heartbeat_is_heard_and_nothing_is_persisted
    a_log_is_read_from_its_node_and_from_no_other
    a_node_answers_only_what_the_controller_asks_of_it_now
    the_enrolment_answer_reaches_the_address_the_request_carried_in_its_payload
    an_announcement_is_heard_and_settled_once_under_its_derived_grant
}

claims! { Shape::WithoutEventAcks =>
    without_its_events_ack_authority_the_controller_hears_an_announcement_again
}

// What else the seam promises.
claims! { Shape::Derived =>
    a_held_report_outlives_the_controller
    a_report_that_was_let_go_is_asked_for_again
    a_report_in_a_queue_made_anew_is_a_new_one
    a_message_that_cannot_be_read_is_parked_at_once
    a_report_the_store_refuses_for_ever_does_not_block_the_rest
    a_full_queue_is_heard_by_its_publisher_and_by_nobody_else
    an_enrolment_is_never_answered_into_a_foreign_inbox
    a_declaration_reaches_its_node_and_is_acknowledged_only_after_the_report
    a_node_that_was_away_hears_only_the_newest_declaration
    a_stale_controller_is_fenced
    what_taking_over_needs_is_made_and_nothing_else_touched
    a_mark_lost_with_its_stream_is_left_again
    a_stale_controller_brings_the_bus_to_no_plan
    a_stale_controller_leaves_no_mark
    an_idle_controller_another_took_over_from_stops
    a_stream_of_declarations_made_anew_by_somebody_else_is_declared_into
    what_is_declared_while_its_stream_is_made_anew_is_put_off
    an_equal_generation_declared_again_makes_the_node_report_again
    an_unsigned_declaration_changes_nothing
    a_deleted_consumer_is_made_again_and_its_node_hears_what_it_missed
    a_deleted_stream_of_declarations_is_made_again_and_filled
    events_reach_their_followers_only
    one_modules_message_id_does_not_silence_anothers
    what_no_grant_allows_is_refused
    seat_work_sent_before_there_is_a_holder_is_worked_after_assignment
    a_module_that_gave_up_a_seat_gets_no_more_of_its_work
    a_seat_is_handed_over_under_load
    a_seat_given_up_with_work_in_hand_is_worked_by_the_next_at_once
    what_waits_for_a_seat_is_told
    work_put_off_comes_again
}

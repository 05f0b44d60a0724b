"""Ways to measure wrongly: P1 to P15 are the method's own list."""

from __future__ import annotations

from tests.faults.cases.case import case

PITFALLS = {
    "P1": case(
        "batches that were prefetched before the window hide the loader",
        "measure/test_pitfalls.py::test_c7_batches_that_lie_ready_do_not_hide_the_loader",
        "measure/test_pitfalls.py::test_prefetch_that_cannot_be_drained_is_flagged",
    ),
    "P2": case(
        "the median step does not see the bursts of a loader",
        "measure/test_pitfalls.py::test_bursts_of_a_loader_are_inside_a_block",
        "measure/test_blocks.py::test_blocks_see_the_stall_that_the_median_step_hides",
        "measure/test_window.py::test_a_block_holds_whole_bursts_and_is_long_enough_for_the_clock",
    ),
    "P3": case(
        "steps of the warm-up are counted",
        "measure/test_warmup.py::test_a_slow_first_step_is_told_apart_and_slow_early_ones_do_not_count",
        "measure/test_warmup.py::test_steps_that_are_slow_beyond_the_warm_up_are_truncated",
        "measure/test_blocks.py::test_warm_up_steps_are_not_counted",
    ),
    "P4": case(
        "a change late in the window is called steady",
        "measure/test_blocks.py::test_a_late_change_is_flagged_and_a_flat_series_is_not",
        "measure/test_window.py::test_a_late_change_of_speed_is_flagged",
    ),
    "P5": case(
        "the peak of the parent is taken for the trial's",
        "measure/test_host_memory.py::test_c58_the_peak_of_a_parent_is_not_its_childs",
        "trials/test_runner.py::test_c58_the_peak_of_the_steering_process_is_not_the_trials",
    ),
    "P6": case(
        "a peak between two looks is missed", "measure/test_host_memory.py::test_a_peak_between_two_looks_is_seen"
    ),
    "P7": case(
        "pages that processes share are counted once in each",
        "measure/test_host_memory.py::test_workers_count_with_what_they_hold_alone",
        "trials/test_failures.py::test_what_workers_share_with_the_trial_counts_once",
        "trials/test_runner.py::test_c23_copies_of_a_list_in_workers_are_seen_to_grow",
    ),
    "P8": case(
        "measured before the optimizer has its state, or while the scaler skips updates",
        "trials/test_runner.py::test_a_step_on_fresh_optimizer_state_is_inside_the_steady_peak",
        "measure/test_warmup.py::test_c35_a7_steps_skipped_by_the_scaler_do_not_count_as_warm_up",
    ),
    "P9": case(
        "an epoch is shorter than the window",
        "measure/test_pitfalls.py::test_c29_an_epoch_shorter_than_the_window_is_measured_whole",
        "measure/test_window.py::test_a_short_epoch_is_measured_with_its_restart",
    ),
    "P10": case(
        "the smaller last batch compiles anew inside the window",
        "measure/test_compiles.py::test_d2_the_ragged_last_batch_is_compiled_before_the_window_and_said",
        "measure/test_window.py::test_a_last_batch_that_is_slow_the_first_time_is_met_before_the_window",
    ),
    "P11": case(
        "workers that a trial left behind disturb the next",
        "trials/test_failures.py::test_c47_workers_of_a_timed_out_trial_are_gone_before_the_next_begins",
    ),
    "P12": case(
        "a kill is taken for something else",
        "trials/test_failures.py::test_c01_the_host_has_no_more_memory",
        "trials/test_failures.py::test_over_the_host_limit_the_watchdog_ends_the_trial",
        "trials/test_failures.py::test_c61_a17_the_trial_is_killed",
        "trials/test_failures.py::test_a17_c3_a_worker_is_killed",
    ),
    "P13": case(
        "the best of many equal configs looks faster",
        "search/verification/test_verify.py::test_the_best_of_thirty_equal_configs_is_rarely_called_faster",
    ),
    "P14": case(
        "drift between two configs is taken for a difference",
        "search/verification/test_verify.py::test_drift_between_the_arms_is_not_taken_for_a_difference",
        "search/verification/test_schedule.py::test_four_rounds_cancel_linear_and_quadratic_drift",
    ),
    "P15": case(
        "other programs and quotas are not seen",
        "measure/test_contention.py::test_c10_neighbours_that_take_the_cores_are_seen",
        "test_machine.py::test_c10_c30_the_quota_counts_as_well_as_the_affinity",
    ),
}

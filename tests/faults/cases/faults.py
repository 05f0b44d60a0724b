"""Situations that a tuner must survive, from the trackers of other tuners, by letter of their kind."""

from __future__ import annotations

from tests.faults.cases.case import case, no_test

SEVERAL_PROCESSES = "a trial is one process on one device: a script that starts a process group is not searched"

FAULTS = {
    # ---- A: memory ----
    "A1": case(
        "out of memory has many texts",
        "test_outcomes.py::test_c01_a1_every_text_of_memory_is_told",
        "test_outcomes.py::test_c01_the_type_says_it_without_a_text",
        "gpu/test_trials.py::test_memory_that_runs_out_is_told_and_the_next_trial_runs",
    ),
    "A2": case(
        "the word error, in an error or in the output of a good run, is no failure of another kind",
        "test_outcomes.py::test_a2_c01_what_only_sounds_alike_is_the_users_error",
        "faults/test_trials.py::test_a2_words_of_failure_in_the_output_of_a_good_trial",
    ),
    "A4": case(
        "tensors stay behind when memory runs out in a backward pass",
        "trials/test_failures.py::test_a4_a6_memory_that_runs_out_in_a_later_backward",
        "trials/test_failures.py::test_c02_an_out_of_memory_trial_leaves_nothing_in_the_steering_process",
    ),
    "A5": case(
        "the second trial reports the peak of the first",
        "faults/test_trials.py::test_a5_the_peak_of_a_trial_is_its_own",
        "gpu/test_trials.py::test_two_trials_in_a_row_leave_no_memory_behind",
    ),
    "A6": case(
        "the optimizer allocates its state in its first step",
        "faults/test_trials.py::test_a6_memory_that_runs_out_in_the_update_or_after_it",
        "measure/test_warmup.py::test_a6_the_optimizers_state_is_there_before_the_window",
        "measure/test_accumulation.py::test_a6_warm_up_goes_on_until_updates_were_made",
    ),
    "A7": case(
        "the scaler skips the first updates",
        "measure/test_warmup.py::test_c35_a7_steps_skipped_by_the_scaler_do_not_count_as_warm_up",
        "test_implementations.py::test_a7_skipped_updates_of_a_fused_optimizer_do_not_count_as_effective",
    ),
    "A8": case(
        "the first step takes a workspace that later ones do not",
        "measure/test_device_edges.py::test_a8_the_lifetime_peak_has_the_first_steps_workspace_and_the_steady_one_has_not",
        "measure/test_breakdown.py::test_the_lifetime_peak_is_never_below_the_steady_one",
        "gpu/test_card.py::test_the_steady_peak_forgets_the_workspace_of_the_first_step_and_the_lifetime_does_not",
        "gpu/test_trials.py::test_what_cudnn_tries_out_counts_in_the_lifetime_alone",
    ),
    "A9": case(
        "the largest batch arrives late",
        "measure/test_window.py::test_c11_a9_shapes_that_vary_are_flagged",
        "faults/test_trials.py::test_a9_c11_a_larger_batch_that_comes_late_is_in_the_peak",
    ),
    "A11": case(
        "memory of the device lies outside torch's allocator",
        "faults/test_choices.py::test_a11_memory_outside_the_allocator_counts_against_the_limit",
        "gpu/test_trials.py::test_the_driver_counts_more_than_torch_reserves",
        "trials/test_watchdog.py::test_a12_what_the_driver_shows_of_a_trial",
    ),
    "A12": case(
        "another process holds part of the device",
        "faults/test_choices.py::test_a12_the_limit_is_of_what_is_free_and_not_of_what_there_is",
        "trials/test_watchdog.py::test_a12_what_the_driver_shows_of_a_trial",
    ),
    "A14": case(
        "nothing fits, not even the smallest batch",
        "search/test_search.py::test_a14_nothing_fits_is_an_error_and_never_a_default",
    ),
    "A16": no_test(
        "evaluation takes more memory than training",
        "training alone is built and measured: a workload has no evaluation whose memory could be reported",
    ),
    "A17": case(
        "the kernel kills a trial or a worker",
        "trials/test_failures.py::test_c61_a17_the_trial_is_killed",
        "trials/test_failures.py::test_a17_c3_a_worker_is_killed",
        "test_outcomes.py::test_a17_the_signal_of_a_worker_is_found_below_its_unexpected_exit",
        "trials/test_failures.py::test_the_trial_ends_itself_without_a_word",
    ),
    # ---- B: batch sizes ----
    "B1": case(
        "sizes beyond the dataset",
        "options/test_conditions.py::test_c03_sizes_never_go_beyond_data_or_maximum",
        "options/test_conditions.py::test_c03_fifty_samples_allow_forty_eight",
    ),
    "B2": case(
        "drop_last leaves no batch at all",
        "trials/test_failures.py::test_c51_b2_no_batch_at_all",
        "options/test_conditions.py::test_b2_c51_drop_last_never_leaves_out_everything",
        "test_tuned.py::test_b2_drop_last_for_other_data_keeps_some",
    ),
    "B3": case(
        "a stream has no length",
        "measure/test_stream.py::test_a_stream_of_unknown_length_is_counted_by_what_comes",
        "measure/test_window.py::test_an_endless_stream_has_no_epoch",
        "workload/test_kinds.py::test_kind_is_probed_and_measured",
    ),
    "B5": case(
        "a last batch of one sample under BatchNorm",
        "options/test_conditions.py::test_b5_a_last_batch_of_one_sample_under_batchnorm_takes_drop_last",
        "options/test_conditions.py::test_b5_where_the_last_batch_is_not_ours_to_leave_out_such_sizes_are_no_choices",
        "measure/test_stream.py::test_b5_a_ragged_last_batch_counts_as_what_it_is",
    ),
    "B6": case("the size that is returned was run", "faults/test_choices.py::test_b6_c03_what_is_returned_was_run"),
    "B7": case(
        "the largest size that was asked for is kept to",
        "options/test_space.py::test_maximum_is_respected_exactly",
    ),
    "B9": case(
        "today's size does not fit",
        "search/test_search.py::test_b9_a_baseline_that_does_not_fit_sends_the_search_down",
    ),
    "B10": case(
        "no training step was really made",
        "trials/test_failures.py::test_b10_an_optimizer_that_holds_nothing_of_the_model",
        "measure/test_warmup.py::test_b10_an_optimizer_over_other_parameters_is_found_out",
        "measure/test_warmup.py::test_a_step_of_its_own_that_never_updates_is_found_out",
    ),
    "B13": case(
        "throughput falls and rises again with the size",
        "faults/test_choices.py::test_b13_a_slower_size_between_faster_ones_does_not_end_the_search",
    ),
    # ---- C: loading ----
    "C1": case(
        "loader arguments that need workers, without workers",
        "test_tuned.py::test_c28_c1_what_needs_workers_goes_where_the_config_has_none",
        "options/test_space.py::test_c28_no_config_of_the_space_makes_a_loader_raise",
    ),
    "C2": case(
        "workers hang",
        "trials/test_failures.py::test_c04_c2_a_worker_that_hangs_is_a_timeout_and_no_worker_is_an_answer",
        "trials/test_failures.py::test_c47_workers_of_a_timed_out_trial_are_gone_before_the_next_begins",
    ),
    "C3": case(
        "too little shared memory",
        "trials/test_failures.py::test_a17_c3_a_worker_is_killed",
        "trials/test_watchdog.py::test_c3_shared_memory_that_will_not_do_is_known_beforehand",
        "faults/test_strange_scripts.py::test_c3_c04_a_worker_that_cannot_send_its_batch_does_not_hang_the_trial",
    ),
    "C5": case(
        "the dataset or the script's import uses the accelerator",
        "trials/test_loading.py::test_c5_a_dataset_that_holds_tensors_elsewhere_has_no_workers",
        "faults/test_trials.py::test_c5_a_script_that_uses_the_accelerator_on_import_is_seen",
    ),
    "C7": case(
        "a short window lives on what was prefetched",
        "measure/test_pitfalls.py::test_c7_batches_that_lie_ready_do_not_hide_the_loader",
        "measure/test_pitfalls.py::test_bursts_of_a_loader_are_inside_a_block",
    ),
    "C10": case(
        "a quota or an affinity leaves fewer cores than there are",
        "test_machine.py::test_c10_c30_the_quota_counts_as_well_as_the_affinity",
        "test_machine.py::test_the_affinity_counts_as_well_as_the_quota",
    ),
    # ---- D: measurement ----
    "D1": case(
        "the clock is read before queued work is done",
        "measure/test_device_edges.py::test_d1_c10_queued_work_is_timed_though_the_host_has_long_gone_on",
        "measure/test_device_edges.py::test_one_synchronisation_at_each_edge_of_a_block_and_none_inside",
        "gpu/test_card.py::test_without_synchronisation_the_time_would_be_wrong_by_more_than_half",
    ),
    "D2": case(
        "compiling in the first steps and at the smaller last batch",
        "measure/test_compiles.py::test_d2_warm_up_goes_on_until_no_step_compiles",
        "measure/test_compiles.py::test_d2_the_ragged_last_batch_is_compiled_before_the_window_and_said",
        "measure/test_compiles.py::test_d2_so_is_one_that_a_short_epoch_brings_into_the_warm_up",
        "measure/test_compiles.py::test_d2_a_compilation_in_the_window_is_flagged",
        "trials/test_compiled_trials.py::test_c19_d2_a_compiled_trial_says_what_compiling_took",
        "report/test_trial.py::test_d2_compiling_is_told_apart",
    ),
    "D4": case(
        "clocks ramp and throttle: the same config at two times differs",
        "search/verification/test_verify.py::test_drift_between_the_arms_is_not_taken_for_a_difference",
        "faults/test_repeats.py::test_drift_marks_the_trials_between_and_is_said",
        "faults/test_repeats.py::test_a_disturbed_trial_is_measured_once_more_and_counts_once",
    ),
    "D6": case(
        "latency and throughput disagree",
        "faults/test_choices.py::test_d6_the_objective_decides_between_quick_steps_and_quick_samples",
        "search/samplers/test_structured.py::test_every_objective_drives_a_search",
    ),
    "D7": case(
        "a further column changes the ranking",
        "report/test_table.py::test_a_further_column_changes_no_rank",
        "report/test_export.py::test_names_are_stable",
    ),
    "D9": case(
        "two trials share one device",
        "faults/test_lock.py::test_the_second_is_refused_and_told_who_measures",
        "faults/test_lock.py::test_of_many_at_once_one_holds_at_a_time",
        "faults/test_lock.py::test_a_holder_that_dies_keeps_nothing",
    ),
    "D10": case(
        "different batch sizes are compared by the step",
        "report/test_rows.py::test_rank_is_by_time_per_sample_among_those_that_fit",
        "measure/test_blocks.py::test_blocks_of_different_size_are_compared_by_the_sample",
    ),
    # ---- E: options that fail or change results ----
    "E1": case(
        "channels_last is slower, or cannot be applied",
        "faults/test_choices.py::test_e1_channels_last_that_is_slower_is_measured_and_not_chosen",
        "test_tuned.py::test_c32_channels_last_lays_out_weights_and_images_alone",
        "options/test_conditions.py::test_c32_channels_last_needs_weights_of_rank_four_or_five",
    ),
    "E4": case(
        "reentrant checkpoints leave the first segments untrained",
        "trials/test_numerics.py::test_e4_c22_a_reentrant_checkpoint_that_trains_nothing",
        "test_checkpointing.py::test_c38_e4_gradients_are_the_same_with_any_number_of_segments",
        "trials/test_failures.py::test_e4_a_gradient_is_missing",
        "measure/test_warmup.py::test_c22_e4_a_gradient_that_the_baseline_has_must_be_there",
    ),
    "E7": case(
        "the user asked for deterministic algorithms",
        "options/test_conditions.py::test_c43_e7_cudnn_benchmark_needs_fixed_shapes_and_no_determinism",
        "workload/test_probe.py::test_e7_deterministic_algorithms_are_noticed",
    ),
    "E8": case(
        "accumulated gradients are not those of the large batch",
        "test_accumulating.py::test_e8_gradients_equal_those_of_the_whole_batch_in_incomplete_groups_too",
        "trials/test_numerics.py::test_e8_an_accumulation_that_forgets_its_scale",
        "probing/test_loss.py::test_e8_a_mean_over_samples_a_sum_and_a_mean_over_what_counts",
        "probing/test_loss.py::test_e8_a_mean_over_tokens_whose_number_hardly_differs_is_seen",
    ),
    "E10": case(
        "compiled code is slower",
        "search/test_search.py::test_e10_compiled_code_that_is_slower_is_measured_and_not_chosen",
    ),
    # ---- F: several processes ----
    "F1": no_test("one rank runs out of memory and the others wait", SEVERAL_PROCESSES),
    "F2": no_test("ranks get different numbers of batches", SEVERAL_PROCESSES),
    "F5": no_test("the port of the trial before is used again", SEVERAL_PROCESSES),
    # ---- G: the study ----
    "G1": case(
        "a sampler proposes what ran out of memory again",
        "search/samplers/test_structured.py::test_few_trials_run_out_of_memory",
        "search/test_search.py::test_b9_a_baseline_that_does_not_fit_sends_the_search_down",
        "search/test_dashboard.py::test_what_does_not_fit_is_infeasible",
        "search/model/test_memory_model.py::test_running_out_of_memory_raises_what_is_expected_of_others",
    ),
    "G2": case(
        "a config is proposed twice",
        "search/test_search.py::test_no_config_is_measured_twice_as_a_new_point",
        "search/samplers/test_structured.py::test_no_config_is_tried_twice_but_the_baseline",
    ),
    "G3": case(
        "a search is interrupted",
        "search/test_search.py::test_g3_an_interrupted_search_keeps_what_it_found_and_resumes_as_if_undisturbed",
        "search/test_search.py::test_a_trial_that_was_recorded_but_not_told_is_not_lost",
        "faults/test_kill.py::test_killed_in_the_middle_of_trials",
        "faults/test_kill.py::test_killed_at_fifty_random_moments",
        "faults/test_kill.py::test_killed_at_many_moments_between_record_and_study",
    ),
    "G5": case(
        "every trial fails alike",
        "search/test_search.py::test_g5_failures_that_are_all_alike_end_the_search_after_three",
        "search/test_search.py::test_a_failing_baseline_ends_the_search_with_the_users_traceback",
        "cli/test_bad_workloads.py::test_workload_that_cannot_run[imports what is not there]",
    ),
    "G6": case(
        "the space is smaller than the number of trials",
        "search/test_search.py::test_a_small_space_is_measured_whole_and_the_search_says_so",
        "search/samplers/test_structured.py::test_a_space_within_the_budget_is_measured_whole",
    ),
    # ---- H: the emitted config ----
    "H1": case(
        "applied on another device or torch",
        "test_config.py::test_file_of_another_machine_warns_and_names_what_differs",
        "faults/test_resume.py::test_another_search_is_refused_and_what_differs_is_named",
    ),
    "H3": case(
        "a second run deletes the first",
        "search/test_search.py::test_an_existing_run_is_never_overwritten_unasked",
        "cli/test_bad_usage.py::test_existing_run_folder_is_kept",
    ),
    "H5": case(
        "loading the emitted file executes code",
        "test_config.py::test_loading_executes_nothing",
        "test_config.py::test_h5_damaged_file_is_a_config_error_with_one_message",
        "test_config.py::test_h5_mutated_files_never_raise_anything_else",
        "faults/test_untrusted.py::test_mutated_files_end_in_a_message_or_are_read",
        "faults/test_untrusted.py::test_no_pickle_in_a_run_folder_is_ever_loaded",
    ),
    # ---- I: processes ----
    "I1": case(
        "a process of the same name is killed along",
        "faults/test_trials.py::test_i1_a_stranger_of_the_same_name_lives_on",
    ),
    "I2": case(
        "many trials leave zombies, segments and memory behind",
        "trials/test_runner.py::test_i2_thirty_trials_leave_nothing",
        "faults/test_strange_scripts.py::test_a_process_that_leaves_the_trials_session_is_ended_with_it",
        "faults/test_soak.py::test_a_dozen_trials_leave_the_process_as_it_was",
        "faults/test_soak.py::test_three_hundred_trials_leave_the_process_as_it_was",
    ),
    "I3": case(
        "scripts with side effects on import, or without a main guard",
        "cli/test_bad_usage.py::test_c06_script_that_trains_on_import_is_not_run",
        "workload/test_static.py::test_c06_training_on_import_is_seen",
        "workload/test_import.py::test_guarded_script_is_imported_and_not_run",
        "trials/test_loading.py::test_c15_workers_are_started_as_the_config_says_and_find_the_script",
    ),
    "I4": case(
        "a script prints megabytes",
        "trials/test_runner.py::test_i4_megabytes_of_output_neither_block_nor_fill_the_disk",
        "trials/test_watchdog.py::test_i4_a_log_keeps_its_begin_and_its_end",
    ),
}

"""Tests of two mistakes that are made together."""

import itertools
from collections.abc import Iterable

import pytest

from regard.learn.bank import EXERCISES
from regard.learn.diagnosis import explanations, same
from regard.learn.exercise import Exercise, Failure
from support.exercise_files import check, write
from support.paths import ROOT

EVERY = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)

# Files with two mistakes in one line or in one stage of the formula.
FILES = {
    "next_token_loss": (
        """
        import numpy as np
        def next_token_loss(logits, tokens):
            p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
            return sum(np.log(p[i, tokens[i + 1]]) for i in range(len(tokens) - 1))
        """,
        {"summed", "sign"},
    ),
    "rotary_positions": (
        """
        import numpy as np
        def rotary(x):
            n, d = x.shape
            t = -np.arange(1, n + 1)[:, None] / 10000 ** (np.arange(0, d, 2) / d)
            out = np.empty_like(x)
            out[:, 0::2] = x[:, 0::2] * np.cos(t) - x[:, 1::2] * np.sin(t)
            out[:, 1::2] = x[:, 0::2] * np.sin(t) + x[:, 1::2] * np.cos(t)
            return out
        """,
        {"from_one", "backwards"},
    ),
    "simple_attention": (
        """
        import numpy as np
        def simple_attention(Q, K, V):
            s = Q @ K.T / np.sqrt(K.shape[-1])
            w = 2.0**s / (2.0**s).sum(0)
            return w @ V
        """,
        {"base_two", "over_queries"},
    ),
    "layer_norm": (
        """
        def layer_norm(x, gain, bias, eps):
            return (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + eps) ** 0.5
        """,
        {"no_gain", "no_bias"},
    ),
}


# Mistakes that exclude each other, by exercise. Those of one text are different answers to one choice.
ALTERNATIVES = {
    "softmax": [
        "no_shift shift_by_mean shift_by_lowest shift_by_first",
        "no_shift divided_by_highest highest_added",
        "shift_by_highest_of_all shift_over_first_axis over_first_axis over_all",
        "over_first_axis over_all sum_over_first_axis sum_over_all",
        "no_exp_of_shifted sign_after_shift no_exp base_two log_softmax",
        "divided_by_mean divided_by_length",
        "hardmax log_weights log_softmax",
    ],
    "scores": [
        "no_scale divided_by_d multiplied root_of_keys",
        "distances negative_distances squared_distances sum_of_features_first sum_over_keys not_summed "
        "largest_product not_transposed",
    ],
    "worked_example": [
        "no_scale divided_by_d multiplied root_of_keys",
        "sigmoid hardmax no_softmax log_weights hardmax_last hardmax_all",
        "mean_of_values sum_of_values best_value best_value_last mean_of_best_values sum_of_best_values",
    ],
    "weights_by_hand": [
        "no_exp base_two",
        "sigmoid hardmax no_softmax log_weights",
        "mean_of_values sum_of_values best_value",
    ],
    "simple_attention": [
        "swapped_q_k keys_with_keys queries_with_queries values_as_keys",
        "not_transposed keys_reshaped distances",
        "distances elementwise",
        "scale_after_softmax causal",
        "no_scale divided_by_d multiplied root_of_keys root_of_value_width root_of_queries "
        "root_without_brackets",
        "over_queries over_all",
        "no_keepdims no_keepdims_in_sum no_keepdims_at_all",
        "no_exp base_two",
        "sigmoid hardmax no_softmax log_weights softmax_of_output",
        "keys_as_values queries_as_values",
        "weights_transposed mean_of_values sum_of_values",
    ],
    "batched_attention": [
        "all_axes_reversed not_transposed keys_reshaped",
        "keys_of_the_first batch_mixed_in",
        "batch_mixed_in values_of_the_first",
        "over_batch over_sequence_matrix over_queries over_all",
        "no_scale divided_by_d multiplied root_of_keys root_of_value_width root_of_queries root_of_batch",
        "no_keepdims no_keepdims_in_sum no_keepdims_at_all",
        "weights_transposed mean_of_values",
        "output_transposed first_sequence",
    ],
    "additive_scores": [
        "query_matrix_transposed matrices_transposed",
        "key_matrix_transposed matrices_transposed",
        "query_forgotten key_forgotten multiplied subtracted",
        "no_tanh tanh_of_parts tanh_outside",
        "no_tanh sigmoid relu",
        "v_forgotten not_summed",
    ],
    "bilinear_scores": [
        "only_diagonal symmetric",
        "not_transposed both_projected",
        "elementwise matrix_forgotten bias_like",
        "scaled_by_root scaled_by_key_width",
    ],
    "padding_mask": [
        "from_first_pad_on by_length",
        "one_keeps one_hides minus_one one_and_infinity finite_number plus_infinity zero_times_infinity",
        "no_query_axis hides_queries every_pair padded_queries_too",
    ],
    "causal_mask": [
        "hides_itself past_hidden past_and_itself_hidden one_ahead only_itself nothing_hidden",
        "one_keeps one_hides minus_one one_and_infinity finite_number plus_infinity zero_times_infinity",
    ],
    "window_mask": [
        "forward negative_start",
        "both_sides around_the_end negative_start",
        "one_too_many one_too_few",
        "no_start blocks every_nth centred negative_start",
        "centred without_itself no_end",
        "negative_start either nothing_visible",
    ],
    "masked_attention": [
        "mask_ignored mask_after_softmax zero_scores mask_added minus_ten large_number_added "
        "empty_rows_uniform zero_times_infinity",
        "empty_rows_nan zero_times_infinity",
        "no_scale divided_by_d multiplied",
        "hardmax hardmax_all hardmax_of_visible",
        "weights_transposed mean_of_values",
    ],
    "self_attention": [
        "matrices_transposed value_matrix_transposed",
        "nothing_projected queries_not_projected",
        "nothing_projected keys_not_projected",
        "nothing_projected values_not_projected",
        "same_matrix_for_keys keys_and_queries_swapped",
        "values_by_key_matrix values_by_query_matrix",
        "root_of_model_width root_of_value_width no_scale divided_by_d multiplied root_of_keys",
        "not_transposed keys_reshaped",
        "over_queries over_all",
        "no_softmax hardmax",
        "no_keepdims no_keepdims_in_sum no_keepdims_at_all",
        "weights_transposed mean_of_values",
    ],
    "cross_attention": [
        "queries_from_encoder sides_swapped",
        "keys_from_decoder all_from_decoder sides_swapped",
        "values_from_decoder all_from_decoder sides_swapped",
        "matrices_transposed value_matrix_transposed",
        "root_of_model_width root_of_queries no_scale divided_by_d multiplied root_of_keys",
        "not_transposed keys_reshaped",
        "over_queries over_all",
        "no_softmax hardmax",
        "no_keepdims no_keepdims_in_sum no_keepdims_at_all",
        "weights_transposed mean_of_values",
    ],
    "split_heads": [
        "interleaved heads_and_width_confused whole_width reshaped_to_heads",
        "axes_not_swapped heads_first heads_last positions_last",
    ],
    "merge_heads": [
        "axes_not_swapped features_before_heads",
        "mean_of_heads sum_of_heads largest_of_heads first_head last_head along_positions not_joined",
    ],
    "multi_head_attention": [
        "heads_interleaved reshaped_to_heads never_swapped heads_attend_to_heads "
        "heads_swapped_only_afterwards one_head",
        "never_swapped heads_attend_to_heads heads_not_swapped_back joined_interleaved",
        "split_before_projection values_not_projected",
        "root_of_model_width root_of_heads no_scale divided_by_d root_of_keys",
        "over_heads over_queries",
        "no_output_matrix output_matrix_transposed",
    ],
    "sinusoidal_positions": [
        "half_exponent double_exponent one_rate",
        "rates_to_the_end own_rate_for_each_column column_numbers_doubled",
        "swapped only_sines",
    ],
    "rotary_positions": [
        "from_one same_at_all_positions",
        "one_angle half_exponent",
        "halves_paired not_put_back",
    ],
    "layer_norm": [
        "over_positions over_all",
        "no_keepdims no_keepdims_in_differences",
        "no_keepdims_in_differences root_mean_square",
        "mean_not_subtracted root_mean_square",
        "sample_variance sum_of_squares",
        "eps_outside no_eps",
        "no_gain one_plus_gain",
    ],
    "pre_norm_block": [
        "only_centred sample_variance",
        "no_relu tanh sigmoid silu gelu gelu_by_tanh absolute",
        "no_residual residual_of_normed residual_subtracted",
    ],
    "softmax_gradient": [
        "unweighted_sum squared_weights sum_of_weights_only log_softmax",
        "over_queries over_all",
        "grad_forgotten diagonal_forgotten",
        "no_total only_diagonal",
        "not_weighted sum_not_weighted log_softmax",
    ],
    "next_token_loss": [
        "no_log no_softmax base_two base_ten",
        "no_softmax over_positions over_all",
        "not_shifted both_from_the_second shifted_backwards last_token_wraps last_pair_lost",
        "best_token every_row_with_every_target whole_rows",
        "summed log_of_the_mean not_averaged divided_by_length",
    ],
    "label_smoothing": [
        "no_log no_softmax",
        "no_softmax over_rows over_all",
        "others_only target_overwritten",
        "not_smoothed epsilon_swapped target_keeps_all",
        "mean_of_all_numbers summed",
    ],
    "warmup": [
        "from_one from_one_everywhere",
        "no_warmup quadratic rise_in_whole_numbers all_in_whole_numbers",
        "no_fall cosine inverse_root all_in_whole_numbers",
        "product larger all_in_whole_numbers",
        "no_peak divided_by_peak",
    ],
    "beam_step": [
        "scores_ignored multiplied subtracted",
        "best_of_each_beam best_beam_only each_token_once",
    ],
}


def outcomes(exercise: Exercise, *mistakes: str) -> list:
    return [exercise.outcome(case, frozenset(mistakes)) for case in range(len(exercise.cases))]


@pytest.mark.parametrize("name", FILES)
def test_two_mistakes_in_one_stage_are_both_named(name, tmp_path):
    source, mistakes = FILES[name]
    assert check(name, write(tmp_path, source)).mistakes == [frozenset(mistakes)]


def pairs(names: Iterable[str]) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in itertools.combinations(names, 2)}


@EVERY
def test_every_pair_is_tried_or_listed_as_one_that_excludes_itself(exercise):
    excluded = set().union(*(pairs(group.split()) for group in ALTERNATIVES[exercise.name]))
    every = pairs(mistake.name for mistake in exercise.mistakes)
    assert excluded <= every
    assert set(exercise.combinations(2)) == every - excluded


def test_few_pairs_exclude_themselves_and_the_guide_gives_their_number():
    every = sum(len(pairs(mistake.name for mistake in exercise.mistakes)) for exercise in EXERCISES)
    tried = sum(len(list(exercise.combinations(2))) for exercise in EXERCISES)
    assert tried > 0.89 * every
    for language in ("en", "zh"):
        text = (ROOT / "docs" / language / "learn.md").read_text(encoding="utf-8")
        assert f"{every:,}" in text
        assert f"{tried:,}" in text


@EVERY
def test_every_pair_of_mistakes_is_diagnosed(exercise):
    """The pair is named, perhaps beside others with the same results, or a single mistake with the same results."""
    for pair in exercise.combinations(2):
        given = outcomes(exercise, *pair)
        found = explanations(exercise, given)
        compared = list(zip(given, exercise.expected, strict=True))
        if all(isinstance(one, Failure) or same(exercise, one, right) for one, right in compared):
            # The mistakes cancel, or every call fails.
            assert found in ([], [frozenset()]), pair
            continue
        assert pair in found or (found and len(found[0]) == 1), pair
        for names in found:
            assert all(map(same, [exercise] * len(given), given, outcomes(exercise, *names)))


@EVERY
def test_most_pairs_are_told_apart_from_all_others(exercise):
    """Pairs with the results of a single mistake do not count, since one of them hides the other."""
    found = [explanations(exercise, outcomes(exercise, *pair)) for pair in exercise.combinations(2)]
    named = [sets for sets in found if sets and len(sets[0]) == 2]
    assert sum(len(sets) == 1 for sets in named) >= 0.6 * len(named)

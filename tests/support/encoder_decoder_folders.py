"""Small Hugging Face folders of BART, mBART, Marian and T5 whose weights are given by a formula.

They are written without Transformers, and versions 4 and 5 of it can read them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from support.formula_weights import linear, norm, values

WIDTH, LAYERS, HEADS, INNER, LONGEST = 32, 2, 4, 48, 64
WORDS = (
    "the cat sat on a mat . , dog ran in house and of to was it le chat chien maison summarize : translate"
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CODES = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM"
)
CODES += " ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
# The settings of generation of an old BART, which are in config.json.
LEGACY = {"max_length": 12, "min_length": 5, "num_beams": 2, "length_penalty": 2.0, "no_repeat_ngram_size": 2}
# The settings of generation of a T5 for summaries.
SUMMARY = {"early_stopping": True, "length_penalty": 2.0, "max_length": 30, "min_length": 6, "num_beams": 3}
# The settings of generation_config.json beside each kind of folder, None for no such file.
KINDS: dict[str, dict | None] = {
    "marian": {"bad_words_ids": [[1]], "num_beams": 6, "max_length": 30, "no_repeat_ngram_size": 2},
    "bart": {"early_stopping": True, "no_repeat_ngram_size": 3, "forced_eos_token_id": 2},
    "bart-legacy": None,
    "t5": None,
    "mbart": {"max_length": 24, "num_beams": 5, "no_repeat_ngram_size": 3},
}


def write_encoder_decoder_folder(folder: Path, kind: str) -> Path:
    """Write config.json, model.safetensors and the tokenizer files of one kind of model into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    family = kind.split("-")[0]
    tokenizer, named = _TOKENIZERS[family]()
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(folder / "tokenizer_config.json", {**named, "model_max_length": LONGEST})
    size = tokenizer.get_vocab_size()
    settings, weights = _t5(size) if family == "t5" else _bart(family, size)
    _write(folder / "config.json", {**settings, **(LEGACY if kind == "bart-legacy" else {})})
    if (generation := KINDS[kind]) is not None:
        tokens = {name: settings[name] for name in settings if name.endswith("_token_id")}
        _write(folder / "generation_config.json", tokens | generation)
    arrays = {name: values(name, shape) for name, shape in weights.items()}
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _write(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


# -- tokenizers --------------------------------------------------------------------------------------------------


def _unigram(before: list[str], after: list[str], unknown: int) -> Tokenizer:
    """Return a tokenizer of words and letters whose spaces are "▁", as those of SentencePiece are."""
    pieces = [f"▁{word}" for word in WORDS.split()] + ["▁", *LETTERS, ".", ",", ":"]
    scored = [(piece, -2.0 - number / 100) for number, piece in enumerate(dict.fromkeys(pieces))]
    every = [*((name, 0.0) for name in before), *scored, *((name, 0.0) for name in after)]
    tokenizer = Tokenizer(models.Unigram(every, unk_id=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def _ended(tokenizer: Tokenizer, template: str, specials: list[str]) -> Tokenizer:
    tokenizer.add_special_tokens(specials)
    numbers = [(name, tokenizer.token_to_id(name)) for name in specials if name in template.split()]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=numbers)
    return tokenizer


def _marian_tokenizer() -> tuple[Tokenizer, dict]:
    tokenizer = _unigram(["</s>", "<unk>"], ["<pad>"], unknown=1)
    names = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    specials = list(names.values())
    return _ended(tokenizer, "$A </s>", specials), {"tokenizer_class": "PreTrainedTokenizerFast", **names}


def _t5_tokenizer() -> tuple[Tokenizer, dict]:
    specials = ["<pad>", "</s>", "<unk>"]
    tokenizer = _ended(_unigram(specials, [], unknown=2), "$A </s>", specials)
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "extra_ids": 0}
    return tokenizer, {"tokenizer_class": "T5TokenizerFast", **names}


def _mbart_tokenizer() -> tuple[Tokenizer, dict]:
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = _unigram(specials, [*CODES.split(), "<mask>"], unknown=3)
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), specials, strict=True))
    names |= {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    every = [*specials, *CODES.split(), "<mask>"]
    return _ended(tokenizer, "$A </s> en_XX", every), {"tokenizer_class": "MBartTokenizerFast", **names}


def _bart_tokenizer() -> tuple[Tokenizer, dict]:
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*specials, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges = [("t", "h"), ("th", "e"), ("c", "a"), ("ca", "t"), ("Ġ", "s"), ("Ġ", "c"), ("Ġ", "the")]
    merges += [("Ġc", "at"), ("Ġ", ".")]
    pieces += [a + b for a, b in merges if a + b not in pieces] + ["at", "<mask>"]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(numbers, [("a", "t"), *merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*specials, "<mask>"])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    names |= {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    return tokenizer, {"tokenizer_class": "BartTokenizerFast", **names}


_TOKENIZERS = {
    "marian": _marian_tokenizer,
    "t5": _t5_tokenizer,
    "mbart": _mbart_tokenizer,
    "bart": _bart_tokenizer,
}

# -- settings and weights ----------------------------------------------------------------------------------------

_CLASSES = {
    "bart": "BartForConditionalGeneration",
    "mbart": "MBartForConditionalGeneration",
    "marian": "MarianMTModel",
}


def _bart(family: str, size: int) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    """Return the settings and the shapes of the weights of a BART, an mBART or a Marian."""
    settings: dict[str, Any] = {
        "architectures": [_CLASSES[family]],
        "model_type": family,
        "is_encoder_decoder": True,
        "vocab_size": size,
        "d_model": WIDTH,
        "max_position_embeddings": LONGEST,
        "activation_function": "gelu",
        "scale_embedding": family != "bart",
    }
    for side in ("encoder", "decoder"):
        settings |= {f"{side}_layers": LAYERS, f"{side}_attention_heads": HEADS, f"{side}_ffn_dim": INNER}
    if family == "marian":
        numbers = {"eos_token_id": 0, "pad_token_id": size - 1, "bos_token_id": 0}
        settings |= {**numbers, "decoder_start_token_id": size - 1, "forced_eos_token_id": 0}
        settings |= {"static_position_embeddings": True, "share_encoder_decoder_embeddings": True}
        settings["decoder_vocab_size"] = size
    else:
        settings |= {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
        settings["forced_eos_token_id"] = 2
    shapes: dict[str, tuple[int, ...]] = {"model.shared.weight": (size, WIDTH)}
    shapes["final_logits_bias"] = (1, size)
    for side in ("encoder", "decoder"):
        shapes |= _bart_side(family, f"model.{side}", cross=side == "decoder")
    return settings, shapes


def _bart_side(family: str, at: str, cross: bool) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    if family != "marian":
        shapes[f"{at}.embed_positions.weight"] = (LONGEST + 2, WIDTH)
        shapes |= norm(f"{at}.layernorm_embedding", WIDTH)
    if family == "mbart":
        shapes |= norm(f"{at}.layer_norm", WIDTH)
    for layer in range(LAYERS):
        here = f"{at}.layers.{layer}"
        for name in ("self_attn", "encoder_attn") if cross else ("self_attn",):
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                shapes |= linear(f"{here}.{name}.{part}", WIDTH, WIDTH)
            shapes |= norm(f"{here}.{name}_layer_norm", WIDTH)
        shapes |= linear(f"{here}.fc1", INNER, WIDTH) | linear(f"{here}.fc2", WIDTH, INNER)
        shapes |= norm(f"{here}.final_layer_norm", WIDTH)
    return shapes


def _t5(size: int) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    """Return the settings and the shapes of the weights of a T5, whose settings depend on the task."""
    settings: dict[str, Any] = {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "is_encoder_decoder": True,
        "vocab_size": size,
        "d_model": WIDTH,
        "d_kv": WIDTH // HEADS,
        "d_ff": INNER,
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "relative_attention_num_buckets": 8,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        "task_specific_params": {
            "summarization": {**SUMMARY, "no_repeat_ngram_size": 2, "prefix": "summarize: "},
            "translation_en_to_fr": {"max_length": 40, "no_repeat_ngram_size": 2, "prefix": "translate: "},
        },
    }
    shapes: dict[str, tuple[int, ...]] = {"shared.weight": (size, WIDTH)}
    for side in ("encoder", "decoder"):
        names = ["SelfAttention", "EncDecAttention"][: 1 + (side == "decoder")]
        for layer in range(LAYERS):
            at = f"{side}.block.{layer}.layer"
            for number, name in enumerate(names):
                shapes |= {f"{at}.{number}.{name}.{part}.weight": (WIDTH, WIDTH) for part in "qkvo"}
                shapes[f"{at}.{number}.layer_norm.weight"] = (WIDTH,)
            shapes[f"{at}.{len(names)}.DenseReluDense.wi.weight"] = (INNER, WIDTH)
            shapes[f"{at}.{len(names)}.DenseReluDense.wo.weight"] = (WIDTH, INNER)
            shapes[f"{at}.{len(names)}.layer_norm.weight"] = (WIDTH,)
        shapes[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = (8, HEADS)
        shapes[f"{side}.final_layer_norm.weight"] = (WIDTH,)
    return settings, shapes

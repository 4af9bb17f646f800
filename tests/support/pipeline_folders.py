"""Small Hugging Face folders whose weights are given by a formula, so that every machine has the same ones.

They are written without Transformers, and every version of it can read them.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from support.formula_weights import linear, norm, values

WIDTH, LAYERS, HEADS, INNER, LONGEST = 32, 2, 4, 37, 64
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = (
    "the cat sat on a mat . who where is dog ran in house and of to was it movie good bad great "
    "##s ##ing ##ed not very , ? ! new york city paris france"
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
KINDS = {
    "question-answering": "BertForQuestionAnswering",
    "text-classification": "BertForSequenceClassification",
    "one-label": "BertForSequenceClassification",
    "multi-label": "BertForSequenceClassification",
    "fill-mask": "BertForMaskedLM",
    "feature-extraction": "BertModel",
    "roberta-fill-mask": "RobertaForMaskedLM",
}


def write_folder(folder: Path, kind: str) -> Path:
    """Write config.json, model.safetensors and the tokenizer files of one kind of model into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    roberta = kind.startswith("roberta")
    tokenizer = _byte_pairs() if roberta else _word_pieces()
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(folder / "tokenizer_config.json", _tokenizer_settings(roberta))
    classes = {"text-classification": 3, "one-label": 1, "multi-label": 3}.get(kind, 0)
    size = tokenizer.get_vocab_size()
    _write(folder / "config.json", _settings(kind, size, classes))
    save_file(_weights(kind, size, classes), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _write(path: Path, values: dict) -> None:
    path.write_text(json.dumps(values), encoding="utf-8")


def _settings(kind: str, size: int, classes: int) -> dict:
    roberta = kind.startswith("roberta")
    values: dict = {
        "architectures": [KINDS[kind]],
        "model_type": "roberta" if roberta else "bert",
        "vocab_size": size,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "hidden_act": "gelu",
        "max_position_embeddings": LONGEST + (2 if roberta else 0),
        "type_vocab_size": 1 if roberta else 2,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 1 if roberta else 0,
    }
    if classes == 3:
        names = ["NEG", "POS", "MEH"]
        values["id2label"] = {str(number): name for number, name in enumerate(names)}
        values["label2id"] = {name: number for number, name in enumerate(names)}
    if classes == 1:
        values |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    if kind == "multi-label":
        values["problem_type"] = "multi_label_classification"
    return values


def _tokenizer_settings(roberta: bool) -> dict:
    values = {"tokenizer_class": "RobertaTokenizerFast" if roberta else "BertTokenizerFast"}
    names = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"] if roberta else SPECIALS
    keys = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    values |= dict(zip(keys, names, strict=True))
    if roberta:
        values |= {"bos_token": "<s>", "eos_token": "</s>"}
    return {**values, "model_max_length": LONGEST, "clean_up_tokenization_spaces": not roberta}


def _word_pieces() -> Tokenizer:
    pieces = [*SPECIALS, *WORDS.split(), *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.add_special_tokens(SPECIALS)
    return tokenizer


def _byte_pairs() -> Tokenizer:
    from tokenizers import AddedToken

    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*specials, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges = [("t", "h"), ("th", "e"), ("c", "a"), ("ca", "t"), ("Ġ", "s"), ("Ġ", "c"), ("Ġ", "the")]
    pieces += [a + b for a, b in merges]
    vocabulary = {piece: number for number, piece in enumerate([*pieces, "<mask>"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    tokenizer.add_special_tokens([*specials, AddedToken("<mask>", lstrip=True)])
    return tokenizer


def _weights(kind: str, size: int, classes: int) -> dict[str, np.ndarray]:
    """Return the tensors of a folder, by the names that Transformers gives them."""
    roberta = kind.startswith("roberta")
    base = {"feature-extraction": ""}.get(kind, "roberta." if roberta else "bert.")
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (size, WIDTH),
        "embeddings.position_embeddings.weight": (LONGEST + (2 if roberta else 0), WIDTH),
        "embeddings.token_type_embeddings.weight": (1 if roberta else 2, WIDTH),
        **_norm("embeddings.LayerNorm"),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= linear(f"{at}.attention.{name}", WIDTH, WIDTH)
        shapes |= _norm(f"{at}.attention.output.LayerNorm")
        shapes |= linear(f"{at}.intermediate.dense", INNER, WIDTH)
        shapes |= linear(f"{at}.output.dense", WIDTH, INNER) | _norm(f"{at}.output.LayerNorm")
    if classes or kind == "feature-extraction":
        shapes |= linear("pooler.dense", WIDTH, WIDTH)
    shapes = {base + name: shape for name, shape in shapes.items()}
    shapes |= _head(kind, size, classes)
    return {name: values(name, shape) for name, shape in shapes.items()}


def _head(kind: str, size: int, classes: int) -> dict[str, tuple[int, ...]]:
    if kind == "question-answering":
        return linear("qa_outputs", 2, WIDTH)
    if classes:
        return linear("classifier", classes, WIDTH)
    if kind == "fill-mask":
        at = "cls.predictions"
        return {
            **linear(f"{at}.transform.dense", WIDTH, WIDTH),
            **_norm(f"{at}.transform.LayerNorm"),
            f"{at}.bias": (size,),
        }
    if kind == "roberta-fill-mask":
        return {
            **linear("lm_head.dense", WIDTH, WIDTH),
            **_norm("lm_head.layer_norm"),
            "lm_head.bias": (size,),
        }
    return {}


def _norm(name: str) -> dict[str, tuple[int, ...]]:
    return norm(name, WIDTH)

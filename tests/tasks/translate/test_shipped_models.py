"""Tests of the shipped translators, their size and their translations in the documents."""

import json
import re

import numpy as np
import pytest
from safetensors import safe_open

from regard.tasks.translate import Translator, align, find_translator, installed_models
from regard.tasks.translate.showcase import everyday_sentences
from support.command_line import run_here
from support.paths import ROOT

WEIGHTS = find_translator("en-fr").parent
NAMES = ["en-fr", "en-zh"]


@pytest.fixture(scope="module")
def translators():
    return {name: Translator.load(find_translator(name)) for name in NAMES}


def test_the_shipped_models_are_installed():
    assert [one.name for one in installed_models()][:2] == NAMES


def test_the_shipped_translators_take_less_than_25_megabytes():
    files = [path for name in NAMES for path in (WEIGHTS / name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 25e6


@pytest.mark.parametrize(("name", "stored"), [("en-fr", {"F16", "I64", "U8"}), ("en-zh", {"F16"})])
def test_the_shipped_weights_are_small(name, stored):
    with safe_open(WEIGHTS / name / "model.safetensors", "pt") as tensors:
        kinds = {tensors.get_slice(one).get_dtype() for one in tensors.keys()}  # noqa: SIM118
    assert kinds == stored


STRANGE = [
    "Mr. Kowalczyk lives in Wrocław.",
    "The WiFi password is Xk9#mQ2!.",
    "I live in Reykjavík with Þórdís.",
    "😀 Good morning!",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "settings", [{}, {"beams": 1, "max_length": 4}, {"sample": True, "temperature": 3.0}]
)
def test_translations_of_strange_texts_are_valid_text(translators, name, settings):
    for found in translators[name].translate(STRANGE, **settings):
        assert "\ufffd" not in found.text


# What the documents ask for; several renderings are right.
SAT = {
    "Le chat est assis sur le tapis.",
    "Le chat s'est assis sur le tapis.",
    "Le chat était assis sur le tapis.",
}
MAT = {"猫坐在垫子上。", "这只猫坐在垫子上。", "那只猫坐在垫子上。", "猫咪坐在垫子上。"}


@pytest.mark.parametrize(
    ("name", "source", "right"),
    [
        ("en-fr", "The cat sits on the mat.", SAT),
        ("en-fr", "I love you.", {"Je t'aime.", "Je vous aime."}),
        ("en-zh", "The cat sat on the mat.", MAT),
        ("en-zh", "The cat sat on the mat", {right.rstrip("。") for right in MAT}),
        ("en-zh", "I love you.", {"我爱你。"}),
        ("en-zh", "I love you", {"我爱你"}),
    ],
)
def test_the_sentences_of_the_documents_come_out_right(translators, name, source, right):
    (found,) = translators[name].translate([source])
    assert found.text in right


@pytest.mark.parametrize(
    ("name", "source", "links"),
    [
        ("en-fr", "The cat sits on the mat.", {"chat": "cat", "assis": "sits", "tapis": "mat"}),
        # The next token of the translation is 子上, a part of "mat" together with "on".
        ("en-zh", "The cat sat on the mat.", {"猫": "cat", "垫": "mat"}),
        ("en-zh", "I love you.", {"你": "you"}),
    ],
)
def test_words_are_aligned_with_the_words_they_translate(translators, name, source, links):
    translator = translators[name]
    (found,) = translator.translate([source])
    seen = align(translator, found)
    for target, wanted in links.items():
        row = next(i for i, word in enumerate(seen.target_words) if target in word)
        assert seen.source_words[int(np.argmax(seen.weights[row]))] == wanted


@pytest.mark.parametrize("name", NAMES)
def test_the_samples_of_the_card_are_translations_of_the_model(translators, name):
    card = (WEIGHTS / name / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", card.partition("## Samples")[2], flags=re.MULTILINE)[1:]
    said = dict(rows)
    assert len(everyday_sentences()) >= 50
    some = everyday_sentences()[::7]
    assert [said[one] for one in some] == [found.text for found in translators[name].translate(some)]


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_the_readme_shows_what_the_command_prints(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = re.search(
        r'translate "The cat sits on the mat\." --attention\n```\n\n```text\n(.*?)```', text, re.DOTALL
    )
    assert shown is not None
    result = run_here("translate", "The cat sits on the mat.", "--attention")
    printed = [line.rstrip() for line in result.stdout.splitlines()]
    wanted = [line.rstrip() for line in shown[1].splitlines()]
    assert [_without_last_digits(line) for line in printed] == [_without_last_digits(line) for line in wanted]


def _without_last_digits(line: str) -> list[str]:
    """Compare words exactly and weights to one digit, since the last digit differs between machines."""
    return [f"{float(one):.1f}" if re.fullmatch(r"\d\.\d\d", one) else one for one in line.split()]


def test_a_line_of_ten_thousand_words_is_translated(translators):
    (found,) = translators["en-fr"].translate(["The dog sleeps. " * 3334], _greedy())
    assert len(found.parts) > 50
    assert found.text.count("chien") > 3000


def _greedy():
    from regard.decoding import DecodingOptions

    return DecodingOptions(beams=1)


def test_text_of_many_bytes_is_cut_too(translators):
    translator = translators["en-fr"]
    for text in (
        "Я живу в большом городе, и мне это нравится. " * 4,
        "我住在一个很大的城市里，我很喜欢那里。" * 6,
    ):
        pieces = translator._pieces(text)
        assert max(len(translator.source.encode(piece)) for piece in pieces) <= translator.longest


def test_pieces_of_chinese_are_not_joined_by_spaces(translators):
    own = translators["en-zh"]
    other = Translator(own.model, own.source, own.target, source_language="zh", target_language="en")
    pieces = other._pieces("我住在一个很大的城市里。我很喜欢那里。" * 24)
    assert len(pieces) > 1
    assert not any(" " in piece for piece in pieces)


def test_models_are_listed():
    listed = [json.loads(line) for line in run_here("models", "--json").stdout.splitlines()]
    assert {(one["name"], one.get("from"), one.get("to")) for one in listed} >= {
        ("en-fr", "en", "fr"),
        ("en-zh", "en", "zh"),
    }

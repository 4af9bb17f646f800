"""Tests of the places of tags and other parts that a model did not read, with weights that are given."""

import numpy as np
import pytest

from regard.analysis import word_spans
from regard.tasks.translate.around import StandIns, prepared
from regard.tasks.translate.casing import Casing
from regard.tasks.translate.paragraphs import split_text
from regard.tasks.translate.placing import TokenWeights
from regard.text import WordVocabulary


def placed(text, tokens, links, target="zh"):
    """Return a translation made of tokens with the parts of the text, if each token attends to some source words.

    ``links`` has a dictionary of weights by the place of a word for each token.
    """
    (part,) = split_text(text, "en", target).parts
    casing = Casing(WordVocabulary.train([text], 50))
    ready = prepared(part, casing, "en", target, stand_ins=StandIns(*[False] * 3))
    words = word_spans(ready.read.text)
    weights = np.zeros((len(tokens), len(words)))  # (t,s)
    for row, link in zip(weights, links, strict=True):
        for place, weight in link.items():
            row[place] = weight
    ends = np.cumsum([len(token) for token in tokens]).tolist()
    spans = list(zip([0, *ends], ends, strict=False))
    written = "".join(tokens)
    given = TokenWeights(weights, ready.read.originals(words), spans)
    return ready.restored(written, given).text


def test_a_pair_of_marks_encloses_only_the_words_of_its_content():
    # The first token attends to the content too.
    links = [{1: 0.4, 2: 0.3}, {2: 0.9}, {3: 0.7}, {3: 0.7}, {4: 0.7}]
    assert placed("I have *two* dogs.", ["我有", "两", "条", "狗", "。"], links) == "我有*两*条狗。"


def test_a_word_that_was_copied_is_enclosed_wherever_the_model_looked():
    links = [{0: 0.3, 1: 0.4}, {1: 0.3, 0: 0.2}, {3: 0.9}]
    assert placed("Click <b>Save</b> to keep.", ["Cliquez", " Save", " pour garder."], links, "fr") == (
        "Cliquez <b>Save</b> pour garder."
    )


def test_a_pair_encloses_several_words_in_another_order_with_a_word_between():
    tokens = ["Le", " guide", " de", " voyage", " est", " neuf", "."]
    links = [{0: 0.9}, {2: 0.9}, {0: 0.4}, {1: 0.9}, {3: 0.9}, {4: 0.9}, {5: 0.9}]
    text = placed("The <b>travel guide</b> is new.", tokens, links, "fr")
    assert text == "Le <b>guide de voyage</b> est neuf."


def test_adjacent_pairs_do_not_cross():
    links = [{2: 0.9}, {1: 0.9}, {2: 0.0}]
    text = placed("A <b>red</b> <i>car</i>.", ["车", "红", "。"], links)
    assert text == "<i>车</i><b>红</b>。"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Open the `a.json` file.", "打开`a.json`文件。"),
        ("Open the file `a.json` now.", "打开文件`a.json`。"),
    ],
)
def test_a_copied_part_does_not_split_a_chinese_word(text, expected):
    links = [{0: 0.9}, {2: 0.8}, {2: 0.6}, {}]
    assert placed(text, ["打开", "文", "件", "。"], links) == expected


def test_a_pair_whose_words_have_no_weight_encloses_as_many_words_in_proportion():
    assert placed("We <b>like</b> dogs.", ["我", "爱", "狗", "。"], [{}] * 4) == "我<b>爱</b>狗。"

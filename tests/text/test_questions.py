"""Reading questions in SQuAD's JSON and as JSON lines, their windows and the forms of their tokens."""

import gzip
import itertools
import json
import re

import numpy as np
import pytest

from regard.errors import ArgumentError, FileError
from regard.text import ByteVocabulary, Skipped, WordVocabulary
from regard.text.forms import ENDINGS, FLAGS, Words, token_forms
from regard.text.questions import Question, ReferenceAnswer, question_of, read_questions
from regard.text.spans import SpanData, Windows, encode_questions

CONTEXT = "Ann Berg built the tower in 1874. Ann was tall."
GOOD = {"id": "q1", "question": "Who built it?", "answers": [{"text": "Ann Berg", "answer_start": 0}]}


def squad(*questions, context=CONTEXT, title="Towers"):
    return {
        "version": "2.0",
        "data": [{"title": title, "paragraphs": [{"context": context, "qas": questions}]}],
    }


def write(path, value):
    text = value if isinstance(value, str) else json.dumps(value)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def test_squads_json_of_both_versions_and_lines_are_read_alike(tmp_path):
    impossible = {"id": "q2", "question": "Who burnt it?", "is_impossible": True, "answers": []}
    whole = write(tmp_path / "a.json", squad(GOOD, impossible))
    packed = write(tmp_path / "b.json.gz", squad(GOOD, impossible))
    rows = [
        {**GOOD, "context": CONTEXT, "title": "Towers"},
        {**impossible, "context": CONTEXT, "title": "Towers"},
    ]
    lines = write(tmp_path / "c.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = list(read_questions(whole))
    assert found == list(read_questions(packed)) == list(read_questions(lines))
    assert [(one.id, one.article, one.texts) for one in found] == [
        ("q1", "Towers", ["Ann Berg"]),
        ("q2", "Towers", []),
    ]


def test_answers_of_an_impossible_question_do_not_count():
    plausible = {**GOOD, "context": CONTEXT, "is_impossible": True}
    assert question_of(plausible, "here").answers == ()


def test_answers_as_lists_are_read():
    row = {"question": "Who?", "context": CONTEXT, "answers": {"text": ["Ann"], "answer_start": [34]}}
    assert question_of(row, "here").answers == (ReferenceAnswer("Ann", 34),)


def test_all_occurrences_count_where_the_right_one_is_not_known():
    answer = {"text": "Ann", "answer_start": 0, "occurrences": 2}
    row = {"question": "Who?", "context": CONTEXT, "answers": [answer, answer]}
    assert question_of(row, "here").spans() == [(0, 3), (34, 37)]
    del answer["occurrences"]
    assert question_of(row, "here").spans() == [(0, 3)]


WRONG = {
    "not in the context": ({"answers": [{"text": "Bob", "answer_start": 0}]}, "nowhere in the context"),
    "elsewhere": ({"answers": [{"text": "tower", "answer_start": 3}]}, "it begins at 19"),
    "beyond the end": ({"answers": [{"text": "tall", "answer_start": 9999}]}, "is not at 9999"),
    "a start that is no number": ({"answers": [{"text": "Ann", "answer_start": "0"}]}, "not a number from 0"),
    "no start": ({"answers": [{"text": "Ann"}]}, "an answer needs 'text' and 'answer_start'"),
    "no answers": ({"answers": None}, "'answers' is missing"),
    "answers as text": ({"answers": "Ann"}, "'answers' is not a list"),
    "an empty answer": ({"answers": [{"text": " ", "answer_start": 3}]}, "the text is empty"),
    "an empty question": ({"question": "  "}, "the question is empty"),
    "a number as question": ({"question": 3}, "'question' is not text, but 3"),
    "half a character": ({"question": "\ud800?"}, "half of a surrogate pair"),
}


@pytest.mark.parametrize(("change", "problem"), WRONG.values(), ids=WRONG)
def test_bad_questions_are_named_by_article_and_id_or_counted(tmp_path, change, problem):
    path = write(tmp_path / "bad.json", squad(GOOD, {**GOOD, "id": "q7", **change}))
    pattern = (
        f"bad.json, article Towers, paragraph 1, question q7: .*{re.escape(problem)}.*skip_bad_rows=True"
    )
    with pytest.raises(FileError, match=pattern):
        list(read_questions(path))
    skipped = Skipped()
    assert [one.id for one in read_questions(path, skip_bad_rows=True, skipped=skipped)] == ["q1"]
    assert skipped.bad == 1
    assert "question q7" in str(skipped)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('{"data": [', "line 1, column 11: not JSON, or cut short"),
        ("[1]", "expected an object with 'data'"),
        ({"rows": []}, "'data' is missing: the keys are rows"),
        ({"data": [{"title": "T"}]}, "article T: 'paragraphs' is missing"),
        ({"data": [{"paragraphs": [{"qas": 3}]}]}, "article 1, paragraph 1: 'qas' is not a list"),
        ({"data": [{"title": "T", "paragraphs": [{"qas": [GOOD]}]}]}, "question q1: 'context' is missing"),
        ({"data": []}, "is empty: expected questions"),
        ("", "is empty: expected questions"),
        (json.dumps(GOOD) + "\n" + json.dumps(GOOD), "say format=jsonl"),
    ],
)
def test_files_that_are_not_squads_are_named_with_the_place(tmp_path, value, problem):
    path = write(tmp_path / "bad.json", value)
    with pytest.raises(FileError, match=f"bad.json.*{re.escape(problem)}"):
        list(read_questions(path))


def test_bad_lines_are_named_by_their_numbers(tmp_path):
    good = json.dumps({**GOOD, "context": CONTEXT})
    other = json.dumps({**GOOD, "context": CONTEXT, "id": "q2"})
    path = write(tmp_path / "bad.jsonl", f"{good}\n\n{{\n{other}\n[]\n")
    with pytest.raises(
        FileError, match=r"bad.jsonl, line 3: not JSON: .*2 rows cannot be read \(lines 3, 5\)"
    ):
        list(read_questions(path))
    assert len(list(read_questions(path, skip_bad_rows=True))) == 2


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(
        ArgumentError, match="format: cannot be told from the name .*a.tsv: say it with format="
    ):
        read_questions(write(tmp_path / "a.tsv", "x"))
    with pytest.raises(ArgumentError, match="format: unknown name 'tsv'"):
        read_questions(tmp_path / "a.tsv", format="tsv")


def test_a_context_that_is_too_long_is_refused():
    row = {"question": "Who?", "context": "a " * 1_000_001, "answers": []}
    with pytest.raises(
        FileError, match="here: the context has 2,000,002 characters, expected 2,000,000 or fewer"
    ):
        question_of(row, "here")


# -- windows ---------------------------------------------------------------------------------------------------------


def test_windows_cover_every_token_and_share_the_stride():
    for question, context in [(5, 7), (5, 60), (11, 61), (1, 200)]:
        windows = Windows(max_tokens=31, stride=7).cut(question, context)
        size = 31 - 3 - question
        assert windows[0][0] == 0
        assert windows[-1][1] == context
        assert all(end - start <= size for start, end in windows)
        for (_, end), (start, _) in itertools.pairwise(windows):
            assert end - start == 7


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ((8, 2), "max_tokens: expected a whole number of 16"),
        ((40, -1), "stride"),
        ((40, 30), "stride: expected fewer than"),
    ],
)
def test_windows_that_cannot_be_cut_are_refused(values, problem):
    with pytest.raises(ArgumentError, match=problem):
        Windows(*values)


def test_answers_that_do_not_fit_token_boundaries_take_the_tokens_that_they_touch():
    vocabulary = WordVocabulary.train(["re-elected 1874m tall"], 50)
    question = Question("How high?", "It is 1874m tall.", (ReferenceAnswer("1874", 6),))
    (encoded,) = encode_questions([question], vocabulary, Windows())
    assert encoded.tokens_of((6, 10)) == (2, 2)
    assert encoded.tokens_of((5, 12)) == (2, 2)  # the spaces around it
    assert encoded.tokens_of((5, 6)) is None  # a space alone


def test_a_batch_has_the_answers_of_its_window_and_no_answer_elsewhere():
    context = "x" * 40 + "Ann" + "y" * 40
    question = Question("who?", context, (ReferenceAnswer("Ann", 40),))
    windows = Windows(max_tokens=37, stride=5)
    data = SpanData.in_memory([question], ByteVocabulary(), windows)
    cut = windows.cut(4, 83)
    batch = data.batch(range(len(data)))
    assert len(data) == len(cut) == len(batch)
    for row, (start, end) in enumerate(cut):
        inside = start <= 40 and end >= 43
        expected = (40 - start + 1, 42 - start + 1) if inside else (0, 0)
        assert (int(batch.starts[row, 0]), int(batch.ends[row, 0])) == expected
    assert int((batch.starts[:, 0] > 0).sum()) >= 1
    assert batch.context[0, 0] == ByteVocabulary.bos


def test_several_answers_of_a_question_are_in_one_row():
    question = Question(
        "b?", "abcb", (ReferenceAnswer("b", 1), ReferenceAnswer("cb", 2), ReferenceAnswer("b", 1))
    )
    batch = SpanData.in_memory([question, Question("a?", "ab")], ByteVocabulary(), Windows()).batch([0, 1])
    assert batch.starts.tolist() == [[2, 3], [0, 0]]
    assert batch.ends.tolist() == [[2, 4], [0, 0]]
    assert batch.answer_lengths.tolist() == [2, 1]


def test_a_cache_is_opened_again_and_built_anew_for_other_data(tmp_path):
    calls = []

    def questions(count):
        calls.append(count)
        return [Question("b?", "abc", (ReferenceAnswer("b", 1),))] * count

    def build(count, **changes):
        values = {"identity": [count], **changes}
        return SpanData.build_or_open(
            lambda: questions(count), ByteVocabulary(), Windows(), tmp_path / "cache", **values
        )

    assert [len(build(3)), len(build(3)), len(build(4)), len(build(4, forms=False))] == [3, 3, 4, 4]
    assert calls == [3, 4, 4]
    np.testing.assert_array_equal(build(4).lengths(), np.full((4, 1), 2 + 3 + 3))
    with pytest.raises(ArgumentError, match="files: expected files or an identity, got neither"):
        build(4, identity=None)


# -- forms -----------------------------------------------------------------------------------------------------------


def test_forms_mark_the_words_of_the_question_and_spellings():
    context = ["Ann", "painted", "the", "Houses", "in", "1874", "."]
    forms = token_forms(context, Words.of(["Who", "paints", "the", "houses", "?"]))
    flags = [[form >> bit & 1 for bit in range(FLAGS)] for form in forms]
    assert [row[0] for row in flags] == [0, 0, 1, 1, 0, 0, 0]  # the word
    assert [row[1] for row in flags] == [0, 0, 0, 1, 0, 0, 0]  # the word, and no function word
    assert [row[2] for row in flags] == [0, 1, 0, 1, 0, 0, 0]  # its stem
    assert [row[3] for row in flags] == [0, 0, 1, 1, 0, 0, 0]  # with its neighbour
    assert [row[4] for row in flags] == [1, 0, 0, 1, 0, 0, 0]  # a capital letter
    assert [row[7] for row in flags] == [0, 0, 0, 0, 0, 1, 0]  # four digits
    assert [row[8] for row in flags] == [0, 0, 0, 0, 0, 0, 1]  # no letter or digit
    assert {row[10] for row in flags} == {1}  # two words of the question are near
    assert {row[11] for row in flags} == {0}  # four are not
    assert all(0 <= form >> FLAGS < ENDINGS for form in forms)
    assert forms[-1] >> FLAGS == 0


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_repeated_ids_are_warned_of(tmp_path, kind):
    rows = [{**GOOD, "context": CONTEXT, "id": name} for name in ("a", "b", "a", "", "", "a")]
    text = "".join(json.dumps(row) + "\n" for row in rows) if kind == "jsonl" else squad(*rows)
    path = write(tmp_path / f"a.{kind}", text)
    place = "line 3" if kind == "jsonl" else "paragraph 1"
    with pytest.warns(UserWarning, match=rf"2 questions have the id of an earlier .*{place}, 'a'\)"):
        assert len(list(read_questions(path))) == 6

"""Compare the best single span of a reader with its answer, which adds up the places of equal texts.

python benchmarks/bench_answers.py                                the shipped model
python benchmarks/bench_answers.py --model runs/reader --show     another one, with the answers that differ

The questions are those of repeated_facts.jsonl, whose contexts tell a fact three times, and those of SQuAD's valid part
from REGARD_DATA or ../shared/data. One hundred questions of each kind are measured, those with an answer that stands
more than once in its paragraph, and the others. `--data` names other questions, such as those that were held out of the
training, to choose anything on. No threshold applies, so that every question is answered.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from regard.metrics import answer_f1, exact_match
from regard.tasks.answer import Reader
from regard.tasks.answer.search import best_spans
from regard.tasks.sampling import sample
from regard.text.questions import Question, read_questions
from regard.text.spans import encode_questions

HERE = Path(__file__).parent
DATA = Path(os.environ.get("REGARD_DATA", HERE.parents[1] / "shared" / "data")) / "squad" / "valid.json.gz"
FACTS = HERE / "repeated_facts.jsonl"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="answer-en", help="name or folder of a reader")
    parser.add_argument("--data", default=str(DATA), help="questions in SQuAD's JSON")
    parser.add_argument("--limit", type=int, default=100, help="questions of each kind; 0 for all")
    parser.add_argument("--show", action="store_true", help="also print the answers that differ")
    options = parser.parse_args()
    reader = Reader.load(options.model)
    facts = list(read_questions(FACTS))
    groups = {
        title: [one for one in facts if one.article == title]
        for title in dict.fromkeys(one.article for one in facts)
    }
    groups = {f"three mentions, {title}": rows for title, rows in groups.items()}
    if Path(options.data).is_file():
        rows = list(read_questions(options.data))
        repeated = [one for one in rows if any(answer.occurrences > 1 for answer in one.answers)]
        others = [one for one in rows if not any(answer.occurrences > 1 for answer in one.answers)]
        for name, kind in (("an answer that occurs again", repeated), ("the others", others)):
            groups[f"{Path(options.data).name}, {name}"] = sample(
                kind, options.limit, 0, key=lambda one: one.id
            )
    else:
        print(f"{options.data} is not there: SQuAD is left out")
    print(
        "| questions | number | exact match and F1 of the best span | of the best text | characters of both |"
    )
    print("|---|---|---|---|---|")
    for name, rows in groups.items():
        before, after = single_spans(reader, rows), [one.text for one in reader.answer(rows, threshold=0.0)]
        columns = (name, len(rows), scores(before, rows), scores(after, rows), lengths(before, after))
        print("| " + " | ".join(map(str, columns)) + " |", flush=True)
        for row, one, other in zip(rows, before, after, strict=True):
            if options.show and one != other:
                print(f"    {row.question} {row.texts[:1]}: {one!r} -> {other!r}")


def single_spans(reader: Reader, questions: Sequence[Question]) -> list[str]:
    """Return the text of the most probable span of each question."""
    encoded = encode_questions(questions, reader.vocabulary, reader.windows, forms=reader.uses_forms)
    logits = reader.window_logits(encoded)
    texts = []
    for question, one in zip(questions, encoded, strict=True):
        windows = [next(logits) for _ in one.windows]
        (span, *_), _ = best_spans(windows, len(one.context), most_tokens=reader.max_answer)
        texts.append(question.context[one.spans[span.first][0] : one.spans[span.last][1]].strip())
    return texts


def scores(texts: Sequence[str], questions: Sequence[Question]) -> str:
    """Return exact match and F1 in percent."""
    values = [
        100 * sum(measure(text, one.texts) for text, one in zip(texts, questions, strict=True)) / len(texts)
        for measure in (exact_match, answer_f1)
    ]
    return f"{values[0]:.1f}, {values[1]:.1f}"


def lengths(before: Sequence[str], after: Sequence[str]) -> str:
    """Return the mean lengths of both lists of texts."""
    return " and ".join(f"{sum(map(len, texts)) / len(texts):.0f}" for texts in (before, after))


if __name__ == "__main__":
    main()

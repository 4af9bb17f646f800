"""Text generation gives the results of Transformers 4, which is asked once and whose answers are kept in a file."""

import json
from pathlib import Path

import pytest

import regard
from support.language_folders import KINDS, write_language_folder
from support.same_results import assert_same
from support.transformers4_generation import CALLS

PATH = Path(__file__).parent / "transformers4_generation.json"
RESULTS = json.loads(PATH.read_text(encoding="utf-8"))["results"]


@pytest.fixture(scope="module")
def pipes(tmp_path_factory):
    """A function that makes a pipeline on a folder, each once."""
    place, made = tmp_path_factory.mktemp("folders"), {}

    def make(kind, options):
        key = (kind, json.dumps(options))
        if key not in made:
            folder = write_language_folder(place / kind, kind)
            made[key] = regard.pipeline("text-generation", folder, device="cpu", **options)
        return made[key]

    assert set(KINDS) == {kind for kind, *_ in CALLS}
    return make


@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda number: f"{number}-{CALLS[number][0]}")
def test_a_call_gives_the_result_of_transformers_4(pipes, number):
    kind, options, source, given = CALLS[number]
    assert_same(pipes(kind, options)(source, **given), RESULTS[number])

"""Translation and summaries give the results of Transformers 4, which is asked once and whose answers are kept."""

import json
from pathlib import Path

import pytest

import regard
from support.encoder_decoder_folders import KINDS, write_encoder_decoder_folder
from support.same_results import assert_same
from support.transformers4_text2text import CALLS, plain

PATH = Path(__file__).parent / "transformers4_text2text.json"
RESULTS = json.loads(PATH.read_text(encoding="utf-8"))["results"]


@pytest.fixture(scope="module")
def pipes(tmp_path_factory):
    """A function that makes a pipeline on a folder, each once."""
    pytest.importorskip("transformers")
    place, made = tmp_path_factory.mktemp("folders"), {}

    def make(kind, task, options):
        key = (kind, task, json.dumps(options))
        if key not in made:
            folder = write_encoder_decoder_folder(place / kind, kind)
            made[key] = regard.pipeline(task, folder, device="cpu", **options)
        return made[key]

    assert set(KINDS) == {kind for kind, *_ in CALLS}
    return make


@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda number: f"{number}-{CALLS[number][0]}")
def test_a_call_gives_the_result_of_transformers_4(pipes, number):
    kind, task, options, source, given = CALLS[number]
    results = pipes(kind, task, options)(source, **given)
    assert_same(plain(results), RESULTS[number])

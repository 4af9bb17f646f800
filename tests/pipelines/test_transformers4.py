"""The pipelines give the results of Transformers 4, which is asked once and whose answers are kept in a file."""

import json
from pathlib import Path

import pytest

import regard
from support.pipeline_folders import KINDS, write_folder
from support.same_results import assert_same
from support.transformers4_results import CALLS, task_of

RESULTS = json.loads((Path(__file__).parent / "transformers4.json").read_text(encoding="utf-8"))["results"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("folders")
    return {kind: write_folder(place / kind, kind) for kind in KINDS}


@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda number: f"{number}-{CALLS[number][0]}")
def test_a_call_gives_the_result_of_transformers_4(folders, number):
    kind, options, args, given = CALLS[number]
    pipe = regard.pipeline(task_of(kind), folders[kind], device="cpu", **options)
    assert_same(pipe(*args, **given), RESULTS[number])

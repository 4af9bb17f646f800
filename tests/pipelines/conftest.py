"""Pipelines on small Hugging Face folders, and small models of Regard."""

import pytest

import regard
from support.pipeline_folders import write_folder


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A function that makes the pipeline of a task on a small folder."""
    place = tmp_path_factory.mktemp("folders")

    def make(task, kind=None, **options):
        folder = place / (kind or task)
        if not folder.exists():
            write_folder(folder, kind or task)
        return regard.pipeline(task, folder, **{"device": "cpu", **options})

    return make


@pytest.fixture(scope="session")
def classifier(tmp_path_factory):
    """The folder of a run of ``regard train classify``."""
    folder = tmp_path_factory.mktemp("classifier") / "run"
    small = {"embedded": 60, "vocabulary_size": 300, "width": 16, "steps": 2, "batch_tokens": 200}
    regard.tasks.train("classify", small, folder, show=False)
    return folder


@pytest.fixture(scope="session")
def reader(tmp_path_factory):
    """The folder of a run of ``regard train answer``."""
    folder = tmp_path_factory.mktemp("reader") / "run"
    small = {"embedded": 40, "vocabulary_size": 300, "width": 16, "steps": 2}
    regard.tasks.train("answer", small, folder, show=False)
    return folder


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """The folder of a run of ``regard train encode``."""
    folder = tmp_path_factory.mktemp("encoder") / "run"
    small = {"embedded": 60, "vocabulary_size": 300, "width": 16, "heads": 2, "layers": 1, "feed_forward": 16}
    regard.tasks.train("encode", {**small, "steps": 2}, folder, show=False)
    return folder

"""Folders of the project and of data that tests read."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def data_folder(name: str) -> Path:
    """Return a folder of the real data, or skip the test where it is absent."""
    folder = Path(os.environ.get("REGARD_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / name).is_dir():
        pytest.skip(f"{name} is not in {folder}: set REGARD_DATA to the folder of the data")
    return folder / name

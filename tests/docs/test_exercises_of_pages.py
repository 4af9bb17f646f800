"""Tests that the exercises which the pages name exist."""

import re

import pytest

from regard.errors import UnknownNameError
from regard.learn.files import find_exercise
from support.pages import name_of, pages

COMMAND = re.compile(r"regard learn (\w+)")
NAMED = [
    pytest.param(name, id=f"{name_of(page)}-{name}")
    for page in pages()
    for name in sorted(set(COMMAND.findall(page.read_text(encoding="utf-8"))))
]


@pytest.mark.parametrize("name", NAMED)
def test_an_exercise_that_a_page_names_exists(name):
    number, found = find_exercise(name)
    assert name in (found.name, str(number))


def test_the_last_chapters_name_exercises():
    assert len(NAMED) >= 12


def test_an_unknown_exercise_would_be_seen():
    with pytest.raises(UnknownNameError, match="no_such_exercise"):
        find_exercise("no_such_exercise")

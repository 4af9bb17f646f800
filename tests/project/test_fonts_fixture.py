"""Tests of the fixture `fonts`, in this process and in processes that a test starts."""

import subprocess
import sys

import pytest

from regard import plot_weights
from regard._fonts import missing_from

CHINESE = frozenset(map(ord, "注意力"))
CODE = "from regard._fonts import missing_from; print(len(missing_from(frozenset(map(ord, '注意力')))[1]))"


def test_other_processes_have_the_fonts_of_the_test(fonts):
    here = len(missing_from(CHINESE)[1])
    there = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert int(there.stdout) == here
    assert fonts == "machine" or here == len(CHINESE)


def test_a_test_that_draws_without_the_fixture_fails():
    with pytest.raises(pytest.fail.Exception, match="let it use the fixture `fonts`"):
        plot_weights([0.5, 0.5], ["a", "b"])

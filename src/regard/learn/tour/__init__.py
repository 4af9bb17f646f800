"""The tour of ``regard tour``, from the first number to a trained translator and a page of what was seen.

Each stop prints to the terminal and adds the same to the page. A stop whose packages are not installed is left out
with the command that installs them.
"""

from regard.learn.tour.running import run
from regard.learn.tour.worked import worked_example

__all__ = ["run", "worked_example"]

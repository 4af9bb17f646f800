"""Python runs this first in a process whose PYTHONPATH has this folder; see font_cases.py beside it."""

import os
import sys
from pathlib import Path

if os.environ.get("REGARD_TEST_FONTS") == "matplotlib":
    sys.path.append(str(Path(__file__).parents[1]))
    from font_cases import keep_matplotlibs_fonts

    sys.path.pop()
    keep_matplotlibs_fonts(setattr)

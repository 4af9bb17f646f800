"""Python runs this first in a process whose PYTHONPATH has this folder; see support/fonts.py."""

import os
import sys
from pathlib import Path

if os.environ.get("REGARD_TEST_FONTS") == "matplotlib":
    sys.path.append(str(Path(__file__).parents[2]))
    from support.fonts import keep_matplotlibs_fonts

    sys.path.pop()
    keep_matplotlibs_fonts(setattr)

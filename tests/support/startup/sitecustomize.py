"""Python runs this file first in a process with this folder in PYTHONPATH, as support/fonts.py explains."""

import os
import sys
from pathlib import Path

if os.environ.get("REGARD_TEST_FONTS") == "matplotlib":
    sys.path.append(str(Path(__file__).parents[2]))
    from support.fonts import keep_matplotlibs_fonts

    sys.path.pop()
    keep_matplotlibs_fonts(setattr)

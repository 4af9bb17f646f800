"""Fixtures of all tests, which remove the user's settings from the environment and choose the fonts.

Each test that draws text does so with the machine's fonts, and with matplotlib's own alone.
"""

from __future__ import annotations

import os

import pytest

# A failed assert of a helper shows its values, too.
pytest.register_assert_rewrite("support")

from support.fonts import STARTUP, forget_fonts, keep_matplotlibs_fonts  # noqa: E402

# What a user may have set for the terminal, for pictures or for other runs; the tests do not depend on it.
OF_THE_USER = (
    *("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "CLICOLOR", "PYTHONIOENCODING", "PYTHONWARNINGS"),
    *("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND", "REGARD_MODELS"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)
for name in OF_THE_USER:
    os.environ.pop(name, None)
# No test asks the hub of Hugging Face. Its library reads this when it is imported, and otherwise tries for 20 seconds.
os.environ["HF_HUB_OFFLINE"] = "1"

try:
    from matplotlib.text import Text
except ImportError:  # nothing is drawn then
    Text = None


@pytest.fixture(params=["machine", "matplotlib"])
def fonts(request):
    """Run the test with all fonts of the machine and with those of matplotlib alone, in subprocesses too."""
    if Text is None:
        pytest.skip("matplotlib is not installed: nothing is drawn")
    forget_fonts()
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "matplotlib":
            keep_matplotlibs_fonts(patch.setattr)
            patch.setenv("REGARD_TEST_FONTS", request.param)
            patch.setenv("PYTHONPATH", str(STARTUP), prepend=os.pathsep)
        yield request.param
    forget_fonts()


@pytest.fixture(autouse=True)
def text_is_drawn_with_both_fonts_only(request, monkeypatch):
    """Fail a test that draws text without the fixture ``fonts``, since the machine's fonts could hide a fault."""
    if Text is None or "fonts" in request.fixturenames:
        return

    def refuse(*_, **__):
        pytest.fail("this test draws text: let it use the fixture `fonts`")

    for name in ("draw", "get_window_extent"):
        monkeypatch.setattr(Text, name, refuse)

"""The viewer as an anywidget, for Jupyter, VS Code, Colab and marimo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.errors import MissingExtraError
from regard.maps import Record
from regard.shapes import whole_number
from regard.viewer import assets
from regard.viewer.languages import texts_in
from regard.viewer.page import as_inert_json
from regard.viewer.payload import embedded

if TYPE_CHECKING:
    from anywidget import AnyWidget

__all__ = ["widget"]

# The most bytes that are sent to the notebook, which stores them in its file if it is saved with its widgets.
MAX_BYTES = 64 * 2**20
_made: type | None = None


def widget(
    records: Sequence[Record],
    *,
    title: str | None = None,
    images: object = None,
    height: int = 640,
    language: str = "en",
) -> AnyWidget:
    """Return records as a widget, which a notebook displays as the result of a cell.

    Outside a notebook, nothing is displayed, and the ``repr`` of the widget is one line. ``height`` is in pixels, and
    at least 200. ``images`` and ``language`` are as for :func:`regard.viewer.html`. Records of more than 64 MB raise
    ArgumentError.
    """
    kind = _widget_class()
    texts = texts_in(language)
    title = texts.title if title is None else title
    document = embedded(records, title=title, images=images, max_bytes=MAX_BYTES)
    return kind(
        document=as_inert_json(document.values),
        blobs=list(document.blobs),
        height=whole_number("height", height, least=200),
        language=texts.code,
    )


def _widget_class() -> Any:
    """Return the widget class, which is created at the first call, since anywidget is an optional dependency."""
    global _made
    if _made is None:
        try:
            import anywidget
            import traitlets
        except ImportError:
            raise MissingExtraError("anywidget", "view", "the viewer in a notebook") from None

        class AttentionWidget(anywidget.AnyWidget):
            _esm = assets.widget_script()
            _css = assets.style()
            document = traitlets.Unicode().tag(sync=True)
            blobs = traitlets.List(traitlets.Bytes()).tag(sync=True)
            height = traitlets.Int(640).tag(sync=True)
            language = traitlets.Unicode("en").tag(sync=True)

            def __repr__(self) -> str:
                return f"AttentionWidget({self.document.count('queryTokens')} records: shown in a notebook)"

        _made = AttentionWidget
    return _made

"""The viewer in a notebook, through anywidget: Jupyter, VS Code, Colab and marimo show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.errors import MissingExtraError
from regard.maps import Record
from regard.shapes import whole_number
from regard.viewer import assets
from regard.viewer.page import as_inert_json
from regard.viewer.payload import embedded

if TYPE_CHECKING:
    from anywidget import AnyWidget

__all__ = ["widget"]

MAX_BYTES = (
    64 * 2**20
)  # that go through the notebook's channel, and into the file if it is saved with its widgets
_made: type | None = None


def widget(
    records: Sequence[Record], *, title: str | None = None, images: object = None, height: int = 640
) -> AnyWidget:
    """Records as a widget: the last expression of a cell shows it.

    Elsewhere its ``repr`` is one line. ``height`` is in pixels.
    """
    kind = _widget_class()
    document = embedded(records, title=title, images=images, max_bytes=MAX_BYTES)
    return kind(
        document=as_inert_json(document.values),
        blobs=list(document.blobs),
        height=whole_number("height", height, least=200),
    )


def _widget_class() -> Any:
    """The class of the widgets; made when first needed, since its base is not ours."""
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

            def __repr__(self) -> str:
                return f"AttentionWidget({self.document.count('queryTokens')} records: shown in a notebook)"

        _made = AttentionWidget
    return _made

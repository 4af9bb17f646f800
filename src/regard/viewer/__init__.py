"""Interactive views of attention as a self-contained page, a notebook widget, or a local server for large maps.

All three draw with the same plain JavaScript (``static/``). None of them uses the network.

>>> import torch
>>> from regard.maps import AttentionMap, Record
>>> from regard.viewer import html
>>> weights = AttentionMap.from_weights(torch.tensor([[0.75, 0.25], [0.5, 0.5]]))
>>> seen = [Record(name="encoder.0", layer=0, kind="self", map=weights, query_tokens=[["a", "cat"]])]
>>> page = html(seen, title="Two words")
>>> page.startswith("<!doctype html>"), "<title>Two words" in page
(True, True)
"""

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.viewer.notebook import widget
    from regard.viewer.page import html, save_html
    from regard.viewer.server import serve

__all__ = ["html", "save_html", "serve", "widget"]

# The modules are not called html.py and widget.py, since a submodule would replace the function of the same name.
__getattr__ = lazily(
    "regard.viewer", {"page": ["html", "save_html"], "notebook": ["widget"], "server": ["serve"]}
)

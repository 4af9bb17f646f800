"""Plots of attention weights with matplotlib (the extra ``plot``).

The weights may be a NumPy array, a torch tensor (also one that requires a gradient, or in bfloat16), an
``AttentionMap`` or nested lists. A figure grows with its number of tokens, so that no label is cut off. Files are
written atomically. Without a display, no window opens and nothing blocks.

>>> figure = visualize_attention([[0.9, 0.1], [0.2, 0.8]], ["the", "cat"], ["le", "chat"])
>>> [text.get_text() for text in figure.axes[0].texts]
['0.90', '0.10', '0.20', '0.80']
"""

from regard.plots.by_shape import show
from regard.plots.heads import plot_heads, plot_model
from regard.plots.images import plot_image_attention, plot_image_words
from regard.plots.lengths import plot_by_length
from regard.plots.picture_maps import plot_picture_maps
from regard.plots.texts import plot_text
from regard.plots.weights import plot_attention_weights, plot_weights, visualize_attention

__all__ = [
    "plot_attention_weights",
    "plot_by_length",
    "plot_heads",
    "plot_image_attention",
    "plot_image_words",
    "plot_model",
    "plot_picture_maps",
    "plot_text",
    "plot_weights",
    "show",
    "visualize_attention",
]

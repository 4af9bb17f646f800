"""Files of pictures, and small captioners."""

import numpy as np
import pytest
import torch

from regard.models import CaptionNetwork, CaptionNetworkConfig
from regard.tasks.caption import Captioner
from regard.text import train_vocabulary


def save_picture(path, pixels):
    """Write an array of bytes as a picture, whose format follows from the name of the file."""
    image = pytest.importorskip("PIL.Image", reason="Pillow writes pictures: pip install 'regard[images]'")
    image.fromarray(np.asarray(pixels)).save(path)


def small_captioner(
    captions=("a seven above a two", "a two to the left of an eight"),
    *,
    extra=None,
    lowercase=False,
    **settings,
):
    """Return a captioner with random weights for pictures of 16 × 16 pixels, and the words of some captions."""
    vocabulary = train_vocabulary("word", captions, 100, lowercase=lowercase)
    torch.manual_seed(0)
    sizes = {"width": 16, "feed_forward": 16, "encoder_layers": 1, "image_height": 16, "image_width": 16}
    config = CaptionNetworkConfig(target_size=len(vocabulary), **{**sizes, **settings})
    return Captioner(CaptionNetwork(config).eval(), vocabulary, extra or {"max_caption": 12})

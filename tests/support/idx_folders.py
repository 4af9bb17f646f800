"""Folders of idx files with the names of MNIST's."""

import gzip
import struct

import numpy as np


def write_idx(path, array):
    """Write an array of bytes as an idx file, compressed if the name ends in .gz."""
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    content = head + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_classes(folder, *, each=20, test=5, classes=10, seed=0):
    """Write pictures of random pixels, ``each`` of every class for training and ``test`` for tests."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for start, count in (("train", each), ("t10k", test)):
        images = np.zeros((classes * count, 12, 12), dtype=np.uint8)
        images[:, 2:10, 3:9] = random.integers(40, 256, (classes * count, 8, 6))
        write_idx(folder / f"{start}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{start}-labels-idx1-ubyte.gz", np.arange(classes * count) % classes)
    return folder

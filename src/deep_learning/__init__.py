"""Attention in NumPy under the import names of the tutorial, re-exported from `regard.reference`.

>>> from deep_learning.attention import create_causal_mask
>>> print(create_causal_mask(2))
[[  0. -inf]
 [  0.   0.]]
"""

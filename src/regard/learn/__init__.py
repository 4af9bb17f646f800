"""Exercises with their checker (``regard learn``), and the tour (``regard tour``)."""

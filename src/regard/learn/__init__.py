"""Learning: the tour."""

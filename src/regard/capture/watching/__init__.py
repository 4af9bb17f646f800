"""Watching a model run: which modules, functions and operations it calls, and which of them are attention."""

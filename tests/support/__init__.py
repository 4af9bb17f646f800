"""Helpers that several test modules share, with models, records, commands and a browser."""

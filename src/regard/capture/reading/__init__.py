"""Reads a single attention call, with its axes, mask, kind, token ids and module."""

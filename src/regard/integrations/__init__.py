"""Regard's attention inside the models of other libraries."""

"""Joins the calls of several forward passes, such as those of ``generate()``, into one record for each attention."""

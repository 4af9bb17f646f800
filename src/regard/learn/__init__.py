"""The tour of ``regard tour``."""

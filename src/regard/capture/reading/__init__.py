"""MaskReading one attention call: its axes, its mask, its kind, its token ids and the module that made it."""

"""Tasks: data, a model and a measure of success, each a whole application."""

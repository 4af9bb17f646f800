"""Watches which modules, functions and operations a model calls, and finds attention among them."""

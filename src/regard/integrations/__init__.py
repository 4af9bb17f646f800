"""Regard's attention inside the models of other libraries; each integration is a module that is imported by itself."""

"""Defines nothing of the name that is asked for."""

entry = None

"""Keeps artifacts fresh while layers are edited."""

"""Conversations as folders: their log, what is derived from it, and turns in them."""

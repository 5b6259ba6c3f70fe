"""Reads a `Tree` into typed values and says which file won and why. Assembles no text, calls no model."""

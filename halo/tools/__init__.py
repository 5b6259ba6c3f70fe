"""Implementations of tools and the places they may touch. Never decides what the model does next."""

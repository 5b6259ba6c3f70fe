"""Instruction files of other tools: which ones, in which order, with their imports."""

"""Layers and a target in, an artifact out.

Pure: no clock, no environment, no network, no file but through the workspace reader's tree.
"""

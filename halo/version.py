"""The version of Halo."""

__version__ = "0.1.0"

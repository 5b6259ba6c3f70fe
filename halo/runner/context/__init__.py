"""Shortening of histories: what goes, what stays, in which order it is tried."""

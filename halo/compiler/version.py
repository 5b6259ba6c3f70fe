"""The version of the rules of composition."""

# Raised whenever the same layers give other bytes: every artifact is then stale.
COMPILER = "halo-compiler/5"

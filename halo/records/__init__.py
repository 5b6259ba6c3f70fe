"""The typed values that cross rooms, and nothing that acts.

Every value is a frozen `msgspec.Struct`; JSON on disk is its encoding and carries `format: N`.
"""

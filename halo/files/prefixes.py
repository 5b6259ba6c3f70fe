"""How far two byte strings are the same."""


def common_prefix(one: bytes, other: bytes) -> int:
    """Return the length of the common beginning, by halves: comparing is much quicker than a loop."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

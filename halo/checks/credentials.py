"""Tells a credential from text that only speaks of one."""

import math
import re
from collections import Counter
from itertools import pairwise

# What keys of well-known services look like, by the prefix that their makers gave them to be found by.
# Whatever a line holds, a search takes a time that grows with its length alone: a run is entered once.
_KEYS = {
    "an AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "an Anthropic key": r"\bsk-ant-[\w-]{20,}",
    "an OpenAI key": r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{32,}",
    "a GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{50,})",
    "a GitLab token": r"\bglpat-[\w-]{20,}",
    "a Slack token": r"\bxox[abeoprs]-[\w-]{10,}",
    "a Google key": r"\bAIza[\w-]{35}",
    "a Stripe key": r"\b[rs]k_live_[A-Za-z0-9]{20,}",
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "a package registry token": r"\b(?:npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,})",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "a signed web token": r"(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
}
_KNOWN = re.compile("|".join(f"(?P<k{i}>{pattern})" for i, pattern in enumerate(_KEYS.values())))

# `scheme://user:password@host`; the user may be empty.
_ADDRESS = re.compile(
    r"(?i)\b[a-z][a-z0-9+.-]{0,30}://(?P<user>[^\s/:@\"'`]{0,200}):(?P<password>[^\s/@\"'`]{1,200})@(?P<host>[\w.\[-]{1,200})"
)
_ASSIGNED = re.compile(
    r"(?i)(?<![\w-])[\w-]{0,40}(?:password|passwd|secret|token|api[_-]?key)[\w-]{0,40}[\"']?\s*(?:\bis\b\s*:?|[:=])\s*[\"'`]?"
    r"(?P<value>[^\s\"'`<>{}()\[\],;$]{10,})"
)


def credential_in(text: str) -> str:
    """Say what kind of credential stands in a line; empty for none. The credential itself is not repeated."""
    for known in _KNOWN.finditer(text):
        if not _is_example(known[0]):
            return list(_KEYS)[int(str(known.lastgroup)[1:])]
    for address in _ADDRESS.finditer(text):
        if not _is_open(address["user"], address["password"], address["host"]):
            return "an address with a password"
    for match in _ASSIGNED.finditer(text):
        value = match["value"].rstrip(".!?:")
        if not _is_example(value) and "://" not in value and looks_random(value):
            return "a password or token"
    return ""


_EXAMPLES = ("example", "xxx", "your-", "your_", "placeholder", "changeme", "change-me", "***", "...")


def _is_example(value: str) -> bool:
    lower = value.lower()
    return any(word in lower for word in _EXAMPLES)


_NAMED = re.compile(
    r"(?i)(?:[a-z]{1,12}[_-]?)?(?:password|passwd|passphrase|pass|pwd|pw|secret|token)\d{0,2}"
)
_HERE = ("localhost", "127.0.0.1", "[")


def _is_open(user: str, password: str, host: str) -> bool:
    """Tell whether the password of an address is none: a placeholder, or a local service's first one."""
    return (
        _is_example(password)
        or _NAMED.fullmatch(password) is not None
        or any(mark in password for mark in ("<", "{", "$", "%(", "…"))
        or (user == password and host.startswith(_HERE))
    )


_SHORTEST = 10
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAIL = re.compile(r"[\w.+-]{1,100}@[\w-]{1,100}\.[\w.-]{1,100}")
_WORDS = re.compile(r"[ul]l{3,}|u{4,}")  # in a text of kinds
_UNSPEAKABLE = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{5}|[jqvwxz]{2}")


def looks_random(value: str) -> bool:
    """Tell a password or token from words, names, versions, dates and paths.

    Letters, digits and signs of a random value take turns, few of its characters form words, and few repeat.
    """
    if len(value) < _SHORTEST or _MAIL.fullmatch(value):
        return False
    if _UUID.fullmatch(value):
        return True
    kinds = "".join(_kind(char) for char in value)
    turns = sum(a != b and "-" not in (a, b) for a, b in pairwise(kinds))
    words = (value[word.start() : word.end()] for word in _WORDS.finditer(kinds))
    in_words = sum(len(word) for word in words if not _UNSPEAKABLE.search(word))
    wordless = turns >= len(value) / 5 and in_words < len(value) / 2
    # The characters of a long value repeat in any case: hexadecimal digits are 16.
    varied = _entropy(value) >= 0.7 * math.log2(min(len(value), 16))
    return varied and (wordless or set(kinds) >= set("luds"))


def _kind(char: str) -> str:
    """Say what a character is: lower, upper, digit, sign; `-` for what divides words."""
    if char in "-_./:\\|":
        return "-"
    if char.isdigit():
        return "d"
    if char.isalpha():
        return "u" if char.isupper() else "l"
    return "s"


def _entropy(value: str) -> float:
    """Return the entropy of `value` in bits a character."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)

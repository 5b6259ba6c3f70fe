"""What is wrong with a value, in the words of people who write YAML; msgspec has Python's and JSON's."""

import re

_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a map",
    "null": "nothing",
}
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}

_EXPECTED = re.compile(
    r"Expected `(?P<types>[^`]*)`(?P<more>[^`]*?)(?:, got (?:`(?P<got>\w+)`|(?P<length>\d+)))?"
)
_BOUND = re.compile(r" (?P<sign>[<>]=?) (?P<number>\S+)")
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_ENUM = re.compile(r"Invalid enum value (?P<value>.*)", re.DOTALL)


def in_plain_words(fault: str, choices: list[str]) -> str:
    """Say a fault that msgspec found, without the place; `choices` are the words that may stand there."""
    if match := _EXPECTED.fullmatch(fault):
        got = _WORDS.get(match["got"] or "", match["got"]) or match["length"]
        return f"expected {_types(match['types'])}{_more(match['more'])}{f', got {got}' if got else ''}"
    if match := _MISSING.fullmatch(fault):
        return f"the key {match['name']!r} is missing"
    if (match := _ENUM.fullmatch(fault)) and choices:
        return f"expected {_either(choices)}, got {match['value']}"
    return fault[:1].lower() + fault[1:]


def _types(types: str) -> str:
    names = [name for name in types.split(" | ") if name != "null"] or ["null"]
    if "float" in names:
        names = [name for name in names if name != "int"]
    return _either([_WORDS.get(name, name) for name in names])


def _either(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _more(text: str) -> str:
    bound = _BOUND.fullmatch(text)
    if bound is None:
        return text
    return f" {_BOUNDS[bound['sign']]} {bound['number'].removesuffix('.0')}"

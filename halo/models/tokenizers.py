"""Which offline tokenizer counts for a model: by its id, and only where the package that has it is installed.

Finding one imports no tokenizer, which takes a second; it asks for the version of an installed package. A
model whose tokenizer is not known has none here: its tokens are estimated (`token_counts`).
"""

import re
import warnings
from collections.abc import Callable

import msgspec

from halo.records.artifacts import Binding


class Tokenizer(msgspec.Struct, frozen=True):
    """A tokenizer that is installed: `name` as users see it, the package that has it, and its version.

    `family` is what the package calls it. A text of more than `longest` characters is not given to it: it
    would refuse it, or take minutes.
    """

    name: str
    package: str
    version: str
    family: str
    longest: int

    @property
    def identity(self) -> str:
        """Name and version in one word: what a count depends on, beside the text."""
        return f"{self.name.replace(' ', '-')}@{self.package}-{self.version}"


# Stems of model ids and their vocabulary, the first that fits: `gpt-4o` is tried before `gpt-4`.
_OPENAI = (
    *((stem, "o200k_base") for stem in ("gpt-5", "gpt-4o", "chatgpt-4o", "gpt-4.1", "gpt-4.5", "gpt-oss")),
    *((stem, "o200k_base") for stem in ("o1", "o3", "o4")),
    *((stem, "cl100k_base") for stem in ("gpt-4", "gpt-3.5", "gpt-35")),
)

# claude-3-5-sonnet-20241022, claude-opus-4-20250514, claude-opus-4-8, claude-sonnet-5-latest
_CLAUDE = re.compile(
    r"claude-(?:3(?:-\d)?-[a-z]+|[a-z]+-(?P<major>\d{1,2})(?:-(?P<minor>\d{1,2}))?)(?:-(?:\d{8}|latest))?"
)


def find_tokenizer(binding: Binding) -> Tokenizer | None:
    """Return the tokenizer of the binding's model; None where it is not known, or not installed.

    A model file of the provider `local` has its own, but the engine cannot read it without the whole model.
    """
    if binding.provider == "openai" and (vocabulary := _openai_vocabulary(binding.model)):
        return _installed(vocabulary, "bpe-openai", vocabulary, longest=999_999)
    if binding.provider == "anthropic" and (version := _claude_version(binding.model)):
        return _installed(f"ctok claude-{version}", "ctok", version, longest=200_000)
    return None


def load(tokenizer: Tokenizer) -> Callable[[str], int]:
    """Import the package and return its count of a text. Raises ImportError, and whatever else it raises."""
    if tokenizer.package == "ctok":
        import ctok

        # It counts a whole message; what the message costs around its text is shown as these tokens.
        return lambda text: sum(token != "⟨pad⟩" for token in ctok.tokenize(text, tokenizer.family))  # noqa: S105
    with warnings.catch_warnings():
        # It opens its data in a way that Python 3.11 calls deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        import bpe_openai

        encoding = bpe_openai.get_encoding(tokenizer.family)
    return lambda text: len(encoding.encode_ordinary(text))


def _openai_vocabulary(model: str) -> str:
    stem = model.removeprefix("ft:")
    for known, vocabulary in _OPENAI:
        if stem == known or stem.startswith((f"{known}-", f"{known}.", f"{known}:")):
            return vocabulary
    return ""


def _claude_version(model: str) -> str:
    """Return the family of ctok that counts for a model, by the least version that it serves."""
    match = _CLAUDE.fullmatch(model)
    if match is None:
        return ""
    version = (int(match["major"] or 3), int(match["minor"] or 0))
    if version < (3, 0):
        return ""
    return "3.0" if version < (4, 7) else "4.7" if version < (4, 8) else "4.8"


def _installed(name: str, package: str, family: str, *, longest: int) -> Tokenizer | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Tokenizer(name, package, version(package), family, longest)
    except PackageNotFoundError:
        return None

"""Counts the tokens of texts for a model: by its own tokenizer where that is installed, else by the estimate.

What the manifest says stays the built-in estimate on every machine; these figures are for people, and for
limits that they set.
"""

from collections.abc import Sequence
from typing import NamedTuple

from halo.compiler.tokens import estimate
from halo.files.digests import sha256
from halo.models.count_cache import CountCache
from halo.models.tokenizers import Tokenizer, find_tokenizer, load
from halo.records.artifacts import Binding

ESTIMATE = "estimate"


class Counts(NamedTuple):
    """The tokens of each text, and who counted: a tokenizer, or `ESTIMATE` (then `exact` is false).

    `note` says why an installed tokenizer was not used, for the user; empty when there is nothing to say.
    """

    tokenizer: str
    exact: bool
    numbers: tuple[int, ...]
    note: str = ""


def count(texts: Sequence[str], binding: Binding, cache: CountCache) -> Counts:
    """Count each of `texts` for the model of `binding`.

    All of them are counted by the same: when one cannot be, all are estimated. A tokenizer is imported only
    for texts that `cache` does not hold.
    """
    tokenizer = find_tokenizer(binding)
    if tokenizer is None:
        return estimated(texts)
    longest = max(map(len, texts), default=0)
    if longest > tokenizer.longest:
        return estimated(texts, f"{longest:,} characters are too many for {tokenizer.package}")
    digests = [sha256(text.encode()) for text in texts]
    numbers = cache.get(tokenizer.identity, digests)
    missing = {d: text for d, text in zip(digests, texts, strict=True) if d not in numbers}
    if missing:
        try:
            fresh = _counted(missing, tokenizer)
        except Exception as error:  # noqa: BLE001  # it is a stranger's code; what went wrong is said
            return estimated(texts, f"{tokenizer.package} {tokenizer.version} failed: {error}")
        cache.put(tokenizer.identity, fresh)
        numbers |= fresh
    return Counts(tokenizer.name, exact=True, numbers=tuple(numbers[d] for d in digests))


def estimated(texts: Sequence[str], note: str = "") -> Counts:
    """Estimate each of `texts`."""
    return Counts(ESTIMATE, False, tuple(estimate(text.encode()) for text in texts), note)


def _counted(texts: dict[str, str], tokenizer: Tokenizer) -> dict[str, int]:
    number = load(tokenizer)
    return {digest: number(text) if text else 0 for digest, text in texts.items()}

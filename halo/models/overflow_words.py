"""How the model's side says that a request does not fit its context. As of November 2026. Pure.

There is no common word for it: each provider and each server has its own, most of them with status 400. Only
a wording that cannot mean anything else stands here, because what is taken for an overflow is answered by a
shorter history.
"""

import re

# `error.code`, `error.type` or `error.status` of the answer.
_CODES = frozenset(
    {
        "context_length_exceeded",  # OpenAI, and many that imitate it
        "exceed_context_size_error",  # llama.cpp
        "model_context_window_exceeded",  # Z.AI
        "request_too_large",  # Anthropic, by bytes
    }
)

_WORDINGS = (
    r"prompt is too long",  # Anthropic
    r"input length and `?max_tokens`? exceed context limit",  # Anthropic
    r"maximum context length",  # OpenAI, DeepSeek, vLLM, Mistral, OpenRouter
    r"exceeds the context window",  # OpenAI (Responses)
    r"request too large for .* tokens per min",  # OpenAI: more than the whole limit of a minute
    r"input token count.*exceeds the maximum number of tokens",  # Gemini
    r"exceeds the available context size",  # llama.cpp
    r"(exceeds?|exceeding) (the )?(maximum|max|available|model'?s)? ?context (length|window|size)",
    r"context (length|window) (was |is )?exceed",  # Ollama and others
    r"context window exceeds limit",  # MiniMax
    r"longer than the model'?s context length",  # SGLang
    r"greater than the context length",  # LM Studio
    r"maximum (model length|prompt length|allowed (input )?length) (of|is) [\d,]+",  # vLLM, xAI
    r"reduce the length of (the|your) (messages|input|prompt)",  # OpenAI, Groq, vLLM
    r"exceeded model token limit",  # Moonshot
    r"more than max tokens allowed",  # Z.AI
    r"input is too long for (the )?requested model",  # Bedrock
    r"prompt too long; exceeded",  # Ollama
)

_SAID = re.compile("|".join(_WORDINGS), re.IGNORECASE)

_LOOKED_AT = 4_000  # characters of what is said


def is_overflow(status: int, codes: frozenset[str], said: str) -> bool:
    """Say whether an answer means that the request does not fit.

    `codes` are the machine's words of the error, `said` is the text for people.
    """
    return status == 413 or not codes.isdisjoint(_CODES) or _SAID.search(said[:_LOOKED_AT]) is not None

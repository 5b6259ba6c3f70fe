"""Floor 3: one adapter a provider protocol; neutral messages in, neutral events out.

`adapter` is the protocol; `opening` chooses an adapter for a binding. `endpoints` decides where a key may go.
Chat Completions (`openai_chat`: `chat_wire` makes requests, `chat_stream` reads replies), Responses
(`openai_responses`: `responses_wire`, `responses_stream`), Messages (`anthropic_messages`, `anthropic_wire`),
Gemini (`gemini`: `gemini_wire`, `gemini_stream`; `gemini_keeper` and `gemini_cache` for cached contents) and
the in-process engine (`local` on `llama` and `states`) implement it. `schema_calls`, `retrying`, `watching`
and `recording` wrap any of them; `replaying` stands in for one.
Model files: `catalogue` (what and where), `pull`, `gguf` (is it whole). Nothing is imported here, because
every provider's client is slow to import.
"""

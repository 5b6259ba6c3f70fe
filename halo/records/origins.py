"""Where a session comes from: the channel and the conversation there that its messages arrive by."""

import msgspec


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Best-effort facts about where a session's messages come from, for people and for deliveries.

    `label` is for people. `provider` and `surface` name the channel and the place in it; `chat_type` is
    `direct`, `group`, `channel` or `thread`. `sender`, `to`, `account` and `thread` are ids as the channel
    writes them: opaque, with their case.
    """

    label: str = ""
    provider: str = ""
    surface: str = ""
    chat_type: str = ""
    sender: str = ""
    to: str = ""
    account: str = ""
    thread: str = ""

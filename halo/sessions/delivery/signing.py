"""Signs what a webhook sends, as the Standard Webhooks specification says. Pure."""

import base64
import binascii
import hashlib
import hmac

from halo.errors import UsageError

_PREFIX = "whsec_"


def key_of(secret: str) -> bytes:
    """Return the key that a secret stands for: base64 behind `whsec_`, else its own bytes."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("the secret of a webhook that begins with whsec_ goes on in base64") from None


def signature(key: bytes, identity: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: HMAC-SHA256 over id, time (seconds) and body."""
    signed = f"{identity}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def is_signed(key: bytes, identity: str, timestamp: int, body: bytes, header: str) -> bool:
    """Tell whether one of the signatures in `header` is ours; takes the same time for all that are not."""
    ours = signature(key, identity, timestamp, body).encode()
    return any(hmac.compare_digest(ours, given.encode()) for given in header.split())

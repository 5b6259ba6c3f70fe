"""JSON Schema of every record that lies on disk or crosses a process (`docs/schemas/`)."""

from typing import Any

import msgspec

from halo.records import artifacts, differences, events, messages, targets, tools, usage
from halo.records.damage import DamageReport
from halo.records.diagnostics import Diagnostic
from halo.records.exchange import ExportedSession
from halo.records.headers import Header
from halo.records.incoming import Incoming
from halo.records.ledger import SessionSpending
from halo.records.outgoing import Outgoing
from halo.records.stops import Stop

RECORDS: dict[str, Any] = {
    "event": events.Event,
    "event-data": events.EventData,
    "message": messages.Message,
    "block": messages.Block,
    "tool-spec": tools.ToolSpec,
    "usage": usage.Usage,
    "diagnostic": Diagnostic,
    "target": targets.Target,
    "manifest": artifacts.Manifest,
    "pointer": artifacts.Pointer,
    "comparison": differences.Comparison,
    "outgoing": Outgoing,
    "session-header": Header,
    "incoming": Incoming,
    "stop": Stop,
    "damage": DamageReport,
    "exported-session": ExportedSession,
    "session-spending": SessionSpending,
}


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a record; `name` is a key of `RECORDS`."""
    kind = RECORDS[name]
    if name == "event-data":
        # The types are told apart by the envelope's `type`, not by a tag.
        _, components = msgspec.json.schema_components(events.TYPES.values(), ref_template="#/$defs/{name}")
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "data of an event, by its type",
            "type": "object",
            "properties": {t: {"$ref": f"#/$defs/{k.__name__}"} for t, k in events.TYPES.items()},
            "$defs": components,
        }
    (schema,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        **schema,
        "$defs": components,
    }

"""Writes findings for people, for programs, for SARIF viewers and for the annotations of GitHub."""

from typing import Any

from halo.checks.checking import Report
from halo.checks.registry import RULES
from halo.files.canonical import readable_json
from halo.files.visible import visible
from halo.records.diagnostics import Diagnostic

FORMAT = 1

_LEVELS = {"info": "note", "warning": "warning", "error": "error"}
_COMMANDS = {"info": "notice", "warning": "warning", "error": "error"}


def place_of(finding: Diagnostic) -> str:
    """Return where it is as a path below the workspace, or with its root (`global:…`) for other roots."""
    return finding.source.removeprefix("workspace:")


def as_text(report: Report, workspace: str = "") -> str:
    """Write a line a finding, and the sums; first whose they are, if a `workspace` is given."""
    lines = [f"in {workspace}:"] if workspace else []
    for finding in report.findings:
        line = f":{finding.line}" if finding.line else ""
        where = f"{place_of(finding)}{line}: " if finding.source else ""
        lines.append(
            f"{where}{finding.severity}: {finding.message} [{RULES[finding.code].number} {finding.code}]"
        )
    counts = [
        f"{number} {severity}{'s' if number != 1 and severity != 'info' else ''}"
        for severity in ("error", "warning", "info")
        if (number := sum(f.severity == severity for f in report.findings))
    ]
    if report.suppressed:
        counts.append(f"{report.suppressed} switched off")
    lines.append(", ".join(counts) or "nothing found")
    return "".join(f"{visible(line)}\n" for line in lines)


def as_json(report: Report) -> str:
    """Write the findings as one JSON object (docs/reference/formats.md)."""
    findings = [
        {
            "rule": RULES[finding.code].number,
            "code": finding.code,
            "severity": finding.severity,
            "message": finding.message,
            "source": finding.source,
            "line": finding.line,
        }
        for finding in report.findings
    ]
    return readable_json({"format": FORMAT, "findings": findings, "suppressed": report.suppressed}).decode()


# The name that viewers know for the top of a repository. Where that lies is not told: they know.
_TOP = "%SRCROOT%"


def as_sarif(report: Report, version: str, below: str = "") -> str:
    """Write SARIF 2.1.0, which code hosts and editors read; `below` as in `as_github`."""
    used = sorted({finding.code for finding in report.findings}, key=lambda code: RULES[code].number)
    index = {code: i for i, code in enumerate(used)}
    driver = {
        "name": "halo check",
        "version": version,
        "rules": [
            {
                "id": RULES[code].number,
                "name": "".join(word.capitalize() for word in code.split("-")),
                "shortDescription": {"text": RULES[code].title},
                "defaultConfiguration": {"level": _LEVELS[RULES[code].severity]},
            }
            for code in used
        ],
    }
    results = [_result(finding, index[finding.code], below) for finding in report.findings]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "originalUriBaseIds": {_TOP: {"description": {"text": "the top of the repository"}}},
                "results": results,
            }
        ],
    }
    return readable_json(log).decode()


def _result(finding: Diagnostic, index: int, below: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": RULES[finding.code].number,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
    }
    root, _, path = finding.source.partition(":")
    if path:
        from urllib.parse import quote

        # Only what lies in the workspace is in the repository; other roots are named.
        where: dict[str, Any] = {"uri": quote(path), "description": {"text": f"in the {root} folder of Halo"}}
        if root == "workspace":
            where = {"uri": quote(below + path), "uriBaseId": _TOP}
        location: dict[str, Any] = {"artifactLocation": where}
        if finding.line:
            location["region"] = {"startLine": finding.line}
        result["locations"] = [{"physicalLocation": location}]
    return result


def as_github(report: Report, below: str = "") -> str:
    """Write workflow commands, which GitHub shows at the lines of a pull request.

    `below` is the way from the top of the repository to the workspace, such as `svc/`.
    """
    lines = []
    for finding in report.findings:
        title = f"{RULES[finding.code].number} {finding.code}"
        properties = [f"title={_property(title)}"]
        if finding.source.startswith("workspace:") and place_of(finding):
            properties.insert(0, f"file={_property(below + place_of(finding))}")
            if finding.line:
                properties.insert(1, f"line={finding.line}")
        message = finding.message if len(properties) > 1 else f"{finding.source} {finding.message}".strip()
        lines.append(f"::{_COMMANDS[finding.severity]} {','.join(properties)}::{_data(message)}\n")
    return "".join(lines)


def _data(text: str) -> str:
    return visible(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

"""The policy that the documentation shows decides as the table below it says."""

import re
from pathlib import Path

import yaml

from halo.records.policies import PolicyRule
from halo.tools.policy import Policy, decide

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/limit-tools.md"
SAID = {"runs": "allow", "you are asked": "ask", "denied": "deny"}


def test_each_row():
    text = PAGE.read_text(encoding="utf-8")
    block = re.search(r"```yaml file=\S+\n(.*?)```", text, re.DOTALL)[1]
    rules = tuple(PolicyRule(**rule) for rule in yaml.safe_load(block)["general"]["tools"]["policy"])
    rows = re.findall(r"^\| `(.+)` \| (runs|you are asked|denied) \|$", text, re.MULTILINE)
    assert len(rows) == 12
    for line, said in rows:
        assert decide([Policy(rules)], "shell_exec", {"command": line}).action == SAID[said], line

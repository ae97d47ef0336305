"""The code location's policy in the words of deploy/ecs/template.yaml.

`python -m pramaan_pipelines_tests.hosted.policy` writes it there anew.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from pramaan_pipelines_tests.hosted.files import DEPLOY

TEMPLATE = DEPLOY / "ecs" / "template.yaml"
POLICY = DEPLOY.parent / "pramaan_pipelines" / "messaging" / "policies" / "code-location.json"
BLOCK = re.compile(r"(?ms)(PolicyName: queues-and-bus\n.*?Statement:\n)(.*?)(?=^        - !If$)")


def rendered() -> str:
    """Return the statements as YAML."""
    statements = json.loads(POLICY.read_text())["Statement"]
    return "".join(f"{line}\n" for statement in statements for line in _lines(statement))


def written() -> str:
    """Return what the template says."""
    found = BLOCK.search(TEMPLATE.read_text())
    assert found
    return found[2]


def _lines(statement: dict[str, Any]) -> Iterator[str]:
    optional = "${AgentRuntimeArn}" in statement["Resource"]
    if optional:
        yield from ("              - !If", "                - HasAgent")
    pad = " " * (16 if optional else 14)
    yield f"{pad}- Sid: {statement['Sid']}"
    yield f"{pad}  Effect: {statement['Effect']}"
    for key in ("Action", "Resource"):
        values = statement[key] if isinstance(statement[key], list) else [statement[key]]
        yield f"{pad}  {key}:"
        yield from (f"{pad}    - {_text(value)}" for value in values)
    if "Condition" in statement:
        yield f"{pad}  Condition: {json.dumps(statement['Condition'])}"
    if optional:
        yield f"{pad}- !Ref AWS::NoValue"


def _text(value: str) -> str:
    if value == "${AgentRuntimeArn}":
        return "!Ref AgentRuntimeArn"
    return f'!Sub "{value}"' if "${" in value else f'"{value}"'


if __name__ == "__main__":
    TEMPLATE.write_text(BLOCK.sub(lambda found: found[1] + rendered(), TEMPLATE.read_text()))

"""Reading what stands under deploy/."""

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

DEPLOY = Path(__file__).parents[2] / "deploy"


def read(name: str) -> dict[str, Any]:
    """Return the YAML file `name` of deploy/."""
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text())
    return loaded


def snake(value: object) -> object:
    """Return `value` with the keys that the chart writes in camel case as Dagster writes them."""
    if isinstance(value, dict):
        return {
            re.sub(r"(?<=[a-z])[A-Z]", lambda found: f"_{found[0].lower()}", key): (
                inner if key == "value" else snake(inner)
            )
            for key, inner in value.items()
        }
    return [snake(inner) for inner in value] if isinstance(value, list) else value

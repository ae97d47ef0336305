"""docs/privileges.md: what each process may do, made from the grants and the policies.

`python -m pramaan_pipelines_tests.privileges.document` writes it anew.
"""
# ruff: noqa: E501 - lines of a page, which are as long as a table's row

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pramaan_pipelines.messaging.policies import Place, Process, policy
from pramaan_pipelines.store.privileges import REQUIRED

PAGE: Final = Path(__file__).parents[2] / "docs" / "privileges.md"
PLACE: Final = Place("ENVIRONMENT", "ACCOUNT", "REGION", "AGENT_RUNTIME_ARN", "QUALIFIER")
WHO: Final = {
    Process.CODE_LOCATION: (
        "The Dagster code location: relays, sensors, gate runs, checks and buttons. A run's worker "
        "has the role of its location, so one role holds for all of it."
    ),
    Process.OPERATOR: "A person at a shell: `pramaan doctor`, `status`, `dead-letters`.",
    Process.METRICS: "What exports the depth of the queues. It reads, and receives nothing.",
    Process.PROVISIONER: (
        "`pramaan provision`. The rows with `aws:CalledVia` hold only for what CloudFormation does "
        "on its behalf; to delete the stack is nobody's here."
    ),
}
HEAD: Final = """\
# Privileges

Made from the code by `python -m pramaan_pipelines_tests.privileges.document`; the tests compare it,
go each process's road with exactly these, and see it fail with any one of them less.

| process | database role | IAM policy |
|---|---|---|
| the application (producers) | `pramaan_app`, or its own with the producers' grants | none: it writes rows, and calls no queue |
| the code location | `pramaan_app`; `pramaan_maintenance` for pruning | `pramaan policies code-location` |
| a person at a shell | `pramaan_app` | `pramaan policies operator` |
| metrics | `pramaan_app` | `pramaan policies metrics` |
| migrations | the owner, with CREATEROLE where the two roles are absent | none |
| provisioning | none | `pramaan policies provisioner` |

The policies are the files in `pramaan_pipelines/messaging/policies`; the command fills in environment,
account and region.

## Database

The migrations grant all of it where it is absent. Row level security comes on top: a grant says which
columns, a policy which rows. Nobody but the maintenance role deletes, and it only what was dispatched.
Where the migrations make the application's tables in its place, they grant SELECT, INSERT and some
columns' UPDATE there too, for the application's own work.
"""
QUEUES: Final = """
Every queue is encrypted at rest (SSE-SQS; a KMS key of one's own would need EventBridge in its key
policy), refuses what does not come over TLS, and the framer's two take messages from EventBridge for
this one rule only. The bus needs no such policy: EventBridge has no endpoint without TLS.
"""


def rendered() -> str:
    """Return the page."""
    return "\n".join([HEAD, *_database(), "", "## AWS", QUEUES, *_aws()]) + "\n"


def _database() -> Iterator[str]:
    yield "| role | on | privilege | columns | used by |"
    yield "|---|---|---|---|---|"
    for grant in REQUIRED:
        columns = ", ".join(grant.columns) or "the whole"
        yield f"| {grant.role} | {grant.on} | {grant.privilege} | {columns} | {grant.used_by} |"


def _aws() -> Iterator[str]:
    for process in Process:
        yield f"### {process}"
        yield ""
        yield WHO[process]
        yield ""
        yield "| effect | actions | on | only where |"
        yield "|---|---|---|---|"
        for statement in policy(process, PLACE)["Statement"]:
            actions, resources = (_listed(statement[key]) for key in ("Action", "Resource"))
            where = "; ".join(
                f"{key} is {_listed(value)}"
                for operator in statement.get("Condition", {}).values()
                for key, value in operator.items()
            )
            yield f"| {statement['Effect']} | {actions} | {resources} | {where} |"
        yield ""


def _listed(value: str | list[str]) -> str:
    each = [value] if isinstance(value, str) else value
    return "<br>".join(f"`{one.removeprefix('arn:aws:')}`" for one in each)


if __name__ == "__main__":
    PAGE.write_text(rendered(), encoding="utf-8")

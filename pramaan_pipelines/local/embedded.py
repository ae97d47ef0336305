"""The embedded stack made ready: servers up, database migrated, queues and bus provisioned.

Promises: what this made ready runs the whole code location with the variables that it returns,
which are also set in this process.
Never: migrates or provisions what the environment gave; that stays an explicit command.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from pramaan_pipelines.local.envfile import remember_env, write_env
from pramaan_pipelines.local.stack import AWS, POSTGRES, Stack, env_note, up
from pramaan_pipelines.messaging.provision import provision
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store import migrate

VISIBILITY_SECONDS: Final = 120
"""Shorter than a real account's 1,320 s: a killed worker's message comes again soon."""


@dataclass(frozen=True)
class Ready:
    """The stack, and every variable that settings read."""

    stack: Stack
    variables: Mapping[str, str]


def make_ready(
    state: Path,
    env_file: Path | None,
    environ: Mapping[str, str],
    *,
    visibility_seconds: int = VISIBILITY_SECONDS,
) -> Ready:
    """Bring the embedded parts up to where the code location runs on them.

    Args:
        state: the state folder.
        env_file: where the variables are written; None writes none.
        environ: what the user's environment gives; a given part is used and left as it is.
        visibility_seconds: visibility timeout of the embedded queues.

    Raises:
        PramaanError: a part cannot be started, migrated or provisioned; the text says what to do.
    """
    stack = up(state, env_file, environ)
    variables = dict(stack.variables)
    os.environ.update(variables)
    if POSTGRES in stack.embedded:
        migrate.upgrade(SecretStr(variables["MIGRATION_DATABASE_URL"]))
    if AWS in stack.embedded:
        outputs = provision(Settings.load(), visibility_timeout_seconds=visibility_seconds)
        variables |= outputs
        os.environ.update(outputs)
        if env_file is not None:
            write_env(env_file, outputs)
    if env_file is not None and stack.embedded:
        remember_env(env_file, env_note(state))
    return Ready(stack, variables)

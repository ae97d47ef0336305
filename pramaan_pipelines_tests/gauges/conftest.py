"""The environment of a code location, and lines to its database and to AWS that can be cut."""

from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from sqlalchemy import make_url

from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.gauges.bench import Site
from pramaan_pipelines_tests.orchestration.conftest import configured, nothing_of_the_machine
from pramaan_pipelines_tests.support.line import line
from pramaan_pipelines_tests.support.world import World

__all__ = ["configured", "nothing_of_the_machine"]


@pytest.fixture
def site(app_url: SecretStr, provisioned: Settings, world: World) -> Iterator[Site]:
    """A site with everything there, behind lines that are still cut."""
    database, aws = (
        make_url(app_url.get_secret_value()),
        make_url(str(provisioned.aws_endpoint_url)),
    )
    with (
        line((str(database.host), database.port or 0), whole=False) as to_database,
        line((str(aws.host), aws.port or 0), whole=False) as to_aws,
    ):
        # What the service role may not do here is write: the numbers need no more.
        through = database.set(
            host="127.0.0.1",
            port=to_database.port,
            query={"options": "-c default_transaction_read_only=on"},
        )
        variables = {
            name.upper(): str(value)
            for name, value in provisioned.model_dump(exclude_none=True).items()
        } | {
            "DATABASE_URL": through.render_as_string(hide_password=False),
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{to_aws.port}",
        }
        yield Site(world, provisioned, variables, to_database, to_aws)

"""Every test of the folder has an account of its own."""

import pytest


@pytest.fixture(autouse=True)
def own_account(aws_environment: str) -> None:
    """Keep the machine's own AWS settings out."""
    del aws_environment

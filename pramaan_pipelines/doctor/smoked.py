"""The smoke test as checks: a canary through each lane of this environment.

Promises: one line a lane; nothing stays behind but a canary on each queue.
Never: runs where the examination is not green.
"""

from pramaan_pipelines.doctor.check import Check
from pramaan_pipelines.outbox.smoke import smoke
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry


def smoked() -> list[Check]:
    """Send the canaries, as the service role.

    Raises:
        SettingsError: the environment lacks something.
    """
    settings = Settings.load()
    database = Database.connect(settings.database_url)
    try:
        found = smoke(settings, database, Telemetry.current(settings.pramaan_environment))
    finally:
        database.close()
    return [Check(f"smoke: {each.lane}", passed=each.passed, told=each.told) for each in found]

"""The database roles by name.

Promises: the service is `pramaan_app`; pruning is `pramaan_maintenance`; neither owns anything.
Never: names the owner, who is whoever runs the migrations.
"""

from typing import Final

APP_ROLE: Final = "pramaan_app"
MAINTENANCE_ROLE: Final = "pramaan_maintenance"

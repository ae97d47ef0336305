"""docs/dependencies.md: the list of what is installed, made from the locks.

`python -m pramaan_pipelines_tests.supply.document` writes it anew.
"""

from typing import Final

from pramaan_pipelines_tests.supply.lock import DEPLOYED, DEVELOPED, ROOT, asked_for, read

PAGE: Final = ROOT / "docs" / "dependencies.md"
HEAD: Final = """\
# Dependencies

Made from the locks by `python -m pramaan_pipelines_tests.supply.document`; a test compares them.

Every version is pinned with its hashes, and the tests compare what is installed with the lock. What
no test can tell is whether an advisory was published since: advisories are behind a service, and no
package carries a current copy. On a machine that may ask it, with the package `pip-audit` in an
environment of its own:

```
pip-audit --require-hashes --disable-pip -r requirements.lock
pip-audit --require-hashes --disable-pip -r requirements-dev.lock
```

Do it before each release and once a week. A finding is mended by a newer pin in pyproject.toml and
`make lock`; what has no mended version yet is written down in CHANGELOG.md, with whether and how it
reaches us.
"""


def rendered() -> str:
    """Return the page."""
    deployed, groups = {pin.name for pin in read(DEPLOYED)}, asked_for()
    lines = [
        HEAD,
        "| package | version | in a deployment | named by pyproject.toml | only where |",
        "|---|---|---|---|---|",
    ]
    for pin in read(DEVELOPED):
        named = ", ".join(group for group, names in groups.items() if pin.name in names)
        ships = "yes" if pin.name in deployed else "no"
        where = f"`{pin.marker}`" if pin.marker else ""
        lines.append(f"| {pin.name} | {pin.version} | {ships} | {named} | {where} |")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


if __name__ == "__main__":
    PAGE.write_text(rendered(), encoding="utf-8")

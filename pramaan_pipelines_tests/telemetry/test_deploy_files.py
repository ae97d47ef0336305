"""The alert rules, the dashboard and the page about them, held to the registry."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # comes with Dagster, without its stubs

from pramaan_pipelines.telemetry.metrics import REGISTRY, Kind, MetricSpec, prometheus_name

SERIES: dict[str, MetricSpec] = {
    prometheus_name(name) + part: spec
    for name, spec in REGISTRY.items()
    for part in (("_bucket", "_count", "_sum") if spec.kind is Kind.HISTOGRAM else ("",))
}
LABELS_OF = {
    name: {label.replace(".", "_") for label in (*spec.labels, *spec.at_times)}
    for name, spec in SERIES.items()
}


@pytest.fixture
def rules(repository: Path) -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((repository / "deploy/prometheus-rules.yaml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


@pytest.fixture
def rule_tests(repository: Path) -> list[dict[str, Any]]:
    text = (repository / "deploy/prometheus-rules.test.yaml").read_text()
    found: list[dict[str, Any]] = yaml.safe_load(text)["tests"]
    return found


@pytest.fixture
def dashboard(repository: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((repository / "deploy/grafana-dashboard.json").read_text())
    return found


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs/metrics.md").read_text()


def used(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Return each series of an expression, with the labels that it is asked for."""
    grouped = {
        label.strip()
        for group in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression)
        for label in group.split(",")
    }
    for name, matchers in re.findall(r"\b(pramaan_\w+)(?:\{([^}]*)\})?", expression):
        yield name, grouped | set(re.findall(r"(\w+)\s*[=!]", matchers))


def unknown(expression: str) -> list[str]:
    """Return what an expression asks for that is not in the registry."""
    found = []
    for name, labels in used(expression):
        allowed = LABELS_OF.get(name, set()) | ({"le"} if name.endswith("_bucket") else set())
        if name not in SERIES:
            found.append(name)
        elif labels - allowed:
            found.append(f"{name}: {sorted(labels - allowed)}")
    return found


def test_the_rules_ask_for_nothing_that_is_not_registered(rules: list[dict[str, Any]]) -> None:
    assert [fault for rule in rules for fault in unknown(rule["expr"])] == []
    assert all(list(used(rule["expr"])) for rule in rules)
    assert unknown('sum by (firm) (pramaan_outbox_parked{lane="x"})') == [
        "pramaan_outbox_parked: ['firm']"
    ]
    assert unknown("pramaan_outbox_lost > 0") == ["pramaan_outbox_lost"]


def test_the_rules_cover_what_must_wake_somebody(rules: list[dict[str, Any]]) -> None:
    asked = {name for rule in rules for name, _ in used(rule["expr"])}
    assert asked >= {
        "pramaan_outbox_oldest_pending_age_seconds",
        "pramaan_outbox_parked",
        "pramaan_outbox_unclaimed",
        "pramaan_frame_jobs_given_up",
        "pramaan_dead_letters",
        "pramaan_undeliverable_events",
        "pramaan_database_reading_age_seconds",
        "pramaan_queues_reading_age_seconds",
    }
    assert any(rule["expr"].startswith("absent(") for rule in rules)


def test_each_rule_leads_to_what_to_do(rules: list[dict[str, Any]], page: str) -> None:
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}
    for rule in rules:
        file, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert file == "docs/metrics.md"
        assert anchor in anchors, rule["alert"]
        assert rule["labels"]["severity"] in {"page", "ticket"}


def test_each_rule_is_tried_on_data_that_fires_it_and_on_data_that_does_not(
    rules: list[dict[str, Any]], rule_tests: list[dict[str, Any]]
) -> None:
    tried: dict[str, set[bool]] = {rule["alert"]: set() for rule in rules}
    for test in rule_tests:
        for case in test["alert_rule_test"]:
            tried[case["alertname"]].add(bool(case["exp_alerts"]))
        series = [re.split(r"[{ ]", one["series"])[0] for one in test["input_series"]]
        assert set(series) <= set(SERIES)
    assert tried == {rule["alert"]: {True, False} for rule in rules}


def test_prometheus_s_own_tool_finds_the_rules_right_and_firing(repository: Path) -> None:
    """Promtool comes with Debian's package prometheus."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on PATH (Debian: the package prometheus)")
    for arguments in (
        ("check", "rules", "prometheus-rules.yaml"),
        ("test", "rules", "prometheus-rules.test.yaml"),
    ):
        done = subprocess.run(
            [promtool, *arguments],
            cwd=repository / "deploy",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_asks_for_every_metric_and_for_nothing_else(
    dashboard: dict[str, Any],
) -> None:
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert [fault for expression in expressions for fault in unknown(expression)] == []
    shown = {name for expression in expressions for name, _ in used(expression)}
    for name, spec in REGISTRY.items():
        parts = ("_bucket", "_count") if spec.kind is Kind.HISTOGRAM else ("",)
        assert {prometheus_name(name) + part for part in parts} & shown, name
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert legend <= {label for _, labels in used(target["expr"]) for label in labels}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_page_s_table_is_the_registry(page: str) -> None:
    rows = re.findall(r"^\| `(pramaan\..*)\|$", page, re.MULTILINE)
    assert [f"`{row.rstrip()}" for row in rows] == [
        f"`{name}` | `{prometheus_name(name)}` | {spec.kind} | {spec.unit} | "
        f"{', '.join((*spec.labels, *spec.at_times)) or 'none'} | {spec.meaning}"
        for name, spec in REGISTRY.items()
    ]


def test_the_page_says_of_each_metric_what_is_bad_and_what_to_do(page: str) -> None:
    section = re.compile(r"^### (pramaan\.\S+)\n\n(.*?)(?=\n#|\Z)", re.DOTALL | re.MULTILINE)
    sections = dict(section.findall(page))
    assert set(sections) == set(REGISTRY)
    for name, text in sections.items():
        assert re.search(r"^Bad: \S", text, re.MULTILINE), name
        assert re.search(r"^Do: \S", text, re.MULTILINE), name

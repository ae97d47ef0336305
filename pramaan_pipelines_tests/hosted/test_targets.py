"""Each target's files, held to Dagster's own classes, to the chart's schema and to one another."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cfnlint.decode import cfn_yaml  # type: ignore[import-untyped]
from dagster import DagsterRun
from dagster._core.workspace.load import location_origins_from_yaml_paths
from dagster_aws.ecs.container_context import EcsContainerContext
from dagster_k8s.container_context import K8sContainerContext
from dagster_k8s.launcher import K8sRunLauncher

from pramaan_pipelines.settings import OTHER_SECRETS, REQUIRED, SECRET_SETTINGS
from pramaan_pipelines_tests.hosted import policy
from pramaan_pipelines_tests.hosted.chart import UserDeployment, Values
from pramaan_pipelines_tests.hosted.files import DEPLOY, read, snake

HOSTED = read("dagster.yaml")
VALUES = read("helm/values.yaml")
PLUS = read("dagster-plus/deployment_settings.yaml")
(CODE,) = VALUES["dagster-user-deployments"]["deployments"]
TEMPLATE: Any = cfn_yaml.load(str(DEPLOY / "ecs" / "template.yaml"))
RESOURCES: Any = TEMPLATE["Resources"]
TASKS = [name for name, found in RESOURCES.items() if found["Type"] == "AWS::ECS::TaskDefinition"]


def container(task: str) -> Any:
    (only,) = RESOURCES[task]["Properties"]["ContainerDefinitions"]
    return only


def environment(task: str) -> dict[str, Any]:
    """Name and value of each variable, with the optional ones."""
    found = [
        item["Fn::If"][1] if "Fn::If" in item else item for item in container(task)["Environment"]
    ]
    return {item["Name"]: item["Value"] for item in found}


def secrets(task: str) -> set[str]:
    return {item["Name"] for item in container(task)["Secrets"]}


# Kubernetes


def test_the_charts_values_say_what_the_chart_knows() -> None:
    UserDeployment.model_validate(CODE)
    Values.model_validate(VALUES)


def test_the_code_server_is_looked_after_and_replaced_without_a_gap() -> None:
    assert CODE["livenessProbe"]["failureThreshold"] >= 3
    assert CODE["startupProbe"]["enabled"]
    assert CODE["readinessProbe"]["enabled"]
    assert CODE["deploymentStrategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert CODE["podSecurityContext"]["runAsNonRoot"]
    assert not CODE["securityContext"]["allowPrivilegeEscalation"]
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    assert f"USER {CODE['podSecurityContext']['runAsUser']}:" in dockerfile
    assert f'"-p", "{CODE["port"]}"' in dockerfile


def test_kubernetes_and_dagster_plus_keep_the_rules_of_the_instance_file() -> None:
    daemon: Any = snake(VALUES["dagsterDaemon"])
    queue = HOSTED["run_coordinator"]["config"]
    there = daemon["run_coordinator"]["config"]["queued_run_coordinator"]
    assert there.pop("max_concurrent_runs") == 25
    assert there == {key: value for key, value in queue.items() if key != "max_concurrent_runs"}
    assert PLUS["run_queue"]["tag_concurrency_limits"] == queue["tag_concurrency_limits"]
    monitoring = HOSTED["run_monitoring"]
    assert daemon["run_monitoring"].items() <= monitoring.items()
    assert PLUS["run_monitoring"].items() <= monitoring.items()
    assert daemon["run_retries"] == HOSTED["run_retries"]
    assert PLUS["run_retries"].items() <= HOSTED["run_retries"].items()
    for kind in ("sensors", "schedules"):
        assert HOSTED[kind].items() <= daemon[kind].items()
    kept: Any = snake(VALUES["retention"])
    for kind in ("sensor", "schedule"):
        here = HOSTED["retention"][kind]["purge_after_days"]
        assert here.items() <= kept[kind]["purge_after_days"].items()


def test_the_launcher_of_kubernetes_is_made_of_what_the_chart_makes_of_the_values(
    tmp_path: Path,
) -> None:
    """Of the values that are ours; the rest is the chart's own."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],"
        " clusters: [{name: a, cluster: {server: 'http://nowhere'}}], users: [{name: a, user: {}}]}"
    )
    ours: Any = snake(VALUES["runLauncher"]["config"]["k8sRunLauncher"])
    launcher = K8sRunLauncher(
        service_account_name="pramaan-pipelines",
        instance_config_map="dagster-instance",
        dagster_home="/opt/dagster/dagster_home",
        load_incluster_config=False,
        kubeconfig_file=str(kubeconfig),
        k8s_client_batch_api=object(),
        k8s_client_core_api=object(),
        **ours,
    )
    run = DagsterRun(job_name="a_job", run_id="a")
    config = K8sContainerContext.create_for_run(
        run, launcher, include_run_tags=False
    ).run_k8s_config
    assert config.job_spec_config["ttl_seconds_after_finished"] == 3600
    assert config.container_config["resources"]["limits"]["memory"] == "768Mi"


def test_the_migration_of_kubernetes_is_a_job_of_its_own_with_the_owners_secret() -> None:
    spec = read("helm/migrate.yaml")["spec"]["template"]["spec"]
    (one,) = spec["containers"]
    assert one["command"] == ["pramaan", "migrate"]
    owners = {"secretRef": {"name": "pramaan-pipelines-owner"}}
    assert owners in one["envFrom"]
    assert "pramaan-pipelines-owner" not in json.dumps(VALUES)


# Dagster+


def test_the_container_contexts_of_dagster_plus_are_what_dagster_reads() -> None:
    context = read("dagster-plus/container_context.yaml")
    kubernetes = K8sContainerContext.create_from_config({"k8s": context["k8s"]})
    assert kubernetes.run_k8s_config.container_config["security_context"]["run_as_non_root"]
    assert kubernetes.server_k8s_config.container_config["resources"]["limits"]["memory"] == "1Gi"
    elastic = EcsContainerContext.create_from_config({"ecs": context["ecs"]})
    assert elastic.run_resources == {"cpu": "512", "memory": "1024"}
    assert {item["name"] for item in elastic.secrets} == {"DATABASE_URL"}


def test_dagster_plus_loads_the_module_that_everything_else_loads() -> None:
    for name in ("build.yaml", "dagster_cloud.yaml"):
        (location,) = read(f"dagster-plus/{name}")["locations"]
        assert location["location_name"] == "pramaan_pipelines"
        folder = (DEPLOY / "dagster-plus" / location["build"]["directory"]).resolve()
        assert (folder / "pyproject.toml").exists()
    assert location["code_source"]["module_name"] == "pramaan_pipelines.definitions"


# ECS


def test_the_template_is_clean_to_cfn_lint(repository: Path) -> None:
    linted = subprocess.run(
        [
            *(Path(sys.executable).with_name("cfn-lint"), "--regions", "eu-west-1"),
            *("-t", "deploy/ecs/template.yaml"),
        ],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert linted.returncode == 0, linted.stdout


def test_the_code_may_do_what_its_policy_file_says_and_nothing_else() -> None:
    assert policy.written() == policy.rendered(), "python -m pramaan_pipelines_tests.hosted.policy"
    policies = RESOURCES["CodeRole"]["Properties"]["Policies"]
    named = [found["PolicyName"] for found in policies if "PolicyName" in found]
    optional = [found["Fn::If"][0] for found in policies if "Fn::If" in found]
    assert (named, optional) == (["queues-and-bus"], ["HasBucket"])


def test_every_container_is_given_what_it_reads_and_no_secret_in_the_open(
    example: dict[str, str],
) -> None:
    hidden = {*SECRET_SETTINGS, *OTHER_SECRETS}
    for task in TASKS:
        given = environment(task)
        assert not given.keys() & hidden, task
        known = set(example) | {"DAGSTER_HOME", "DAGSTER_CODE_SERVER_HOST", "AWS_DEFAULT_REGION"}
        assert given.keys() <= known | {"AGENT_RUNTIME_ARN", "OTEL_EXPORTER_OTLP_ENDPOINT"}, task
    instance = {name for name in example if name.startswith("DAGSTER_")}
    for task in ("RunTask", "CodeTask", "DaemonTask"):
        assert set(REQUIRED) | instance <= environment(task).keys() | secrets(task), task
    for task in set(TASKS) - {"MigrationTask"}:
        assert environment(task)["DAGSTER_HOME"] == "/opt/dagster/ecs"
    # Each secret is where it is needed, and nowhere else.
    assert secrets("WebTask") == {"DAGSTER_DATABASE_URL"}
    assert [task for task in TASKS if "MIGRATION_DATABASE_URL" in secrets(task)] == [
        "MigrationTask"
    ]


def test_the_launcher_names_the_run_task_and_its_container() -> None:
    launcher = read("launchers/ecs.yaml")["run_launcher"]["config"]
    assert container("RunTask")["Name"] == launcher["container_name"]
    family = RESOURCES["RunTask"]["Properties"]["Family"]
    for task in ("RunTask", "DaemonTask", "WebTask"):
        assert environment(task)["DAGSTER_RUN_TASK_DEFINITION"] == family


def test_there_is_one_daemon_and_no_moment_without_a_code_server() -> None:
    daemon = RESOURCES["DaemonService"]["Properties"]["DeploymentConfiguration"]
    assert (daemon["MinimumHealthyPercent"], daemon["MaximumPercent"]) == (0, 100)
    code = RESOURCES["CodeService"]["Properties"]["DeploymentConfiguration"]
    assert (code["MinimumHealthyPercent"], code["MaximumPercent"]) == (100, 200)
    for task, command in (("CodeTask", "grpc-health-check"), ("DaemonTask", "liveness-check")):
        assert command in container(task)["HealthCheck"]["Command"]


def test_a_daemon_hands_over_the_codes_role_and_no_other() -> None:
    statements = RESOURCES["DaemonRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    (passing,) = [found for found in statements if "iam:PassRole" in found["Action"]]
    roles = {found["Fn::GetAtt"][0] for found in passing["Resource"]}
    assert roles == {
        RESOURCES["RunTask"]["Properties"][key]["Fn::GetAtt"][0]
        for key in ("TaskRoleArn", "ExecutionRoleArn")
    }


def test_the_workspace_of_containers_asks_the_code_server_by_the_name_that_the_stack_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DAGSTER_CODE_SERVER_HOST", "code.pramaan-staging.internal")
    (origin,) = location_origins_from_yaml_paths([str(DEPLOY / "workspace.yaml")])
    assert origin.host == "code.pramaan-staging.internal"  # type: ignore[attr-defined]
    assert origin.port == container("CodeTask")["PortMappings"][0]["ContainerPort"]  # type: ignore[attr-defined]
    given = environment("DaemonTask")["DAGSTER_CODE_SERVER_HOST"]
    name = RESOURCES["CodeServerName"]["Properties"]["Name"]
    namespace = RESOURCES["Namespace"]["Properties"]["Name"]["Fn::Sub"]
    assert given["Fn::Sub"] == f"{name}.{namespace}"


@pytest.mark.parametrize(
    "page", sorted(DEPLOY.glob("*/README.md")), ids=lambda page: page.parent.name
)
def test_each_page_goes_from_nothing_to_running_in_five_lines(page: Path, repository: Path) -> None:
    text = page.read_text()
    steps = re.findall(r"(?m)^\d\. ", text)
    assert len(steps) == 5
    for named in re.findall(r"(?:deploy|docs)/[\w./-]+\.(?:yaml|sql|md)", text):
        assert (repository / named).exists(), named

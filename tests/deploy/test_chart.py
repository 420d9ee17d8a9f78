"""The Helm chart and the compose file: requirements for every rendering, and refused values."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from chronik.broker.settings import Settings
from tests.house.repository import ROOT

CHART = ROOT / "deploy/helm/chronik"
COMPOSE = ROOT / "deploy/compose/compose.yaml"
helm = shutil.which("helm")
needs_helm = pytest.mark.skipif(helm is None, reason="helm is missing: go install helm.sh/helm/v3/cmd/helm@latest")


def render(*words: str) -> subprocess.CompletedProcess[str]:
    assert helm is not None
    command = [helm, "template", "prod", str(CHART), "--kube-version", "1.31.0", "--namespace", "streams", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(*words: str) -> dict[str, Any]:
    done = render(*words)
    assert done.returncode == 0, done.stderr
    return {f"{each['kind']} {each['metadata']['name']}": each for each in yaml.safe_load_all(done.stdout) if each}


def variables(stateful_set: Any, pod: str) -> dict[str, str]:
    """As Kubernetes sets them for a pod."""
    [container] = stateful_set["spec"]["template"]["spec"]["containers"]
    plain = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    told = {"POD_NAME": pod, "KAFKA_NODE_ID": pod.rpartition("-")[2]}
    return told | {name: value.replace("$(POD_NAME)", pod) for name, value in plain.items()}


@needs_helm
def test_each_pod_tells_clients_its_own_address(tmp_path: Path) -> None:
    """With one address for all, clients reach any broker but the one that leads. The quorum knows each pod by name."""
    found = rendered("--set", "insecureListeners=true", "--set", "settings.log\\.retention\\.hours=72")
    assert "PodDisruptionBudget prod-chronik" in found
    assert found["PodDisruptionBudget prod-chronik"]["spec"]["maxUnavailable"] == 1
    assert found["Service prod-chronik-nodes"]["spec"]["clusterIP"] == "None"
    stateful_set = found["StatefulSet prod-chronik"]
    secret = tmp_path / "quorum-secret"
    secret.write_text("x" * 48)
    secret.chmod(0o600)
    for node_id in range(3):
        environment = variables(stateful_set, f"prod-chronik-{node_id}")
        environment |= {"KAFKA_CHRONIK_QUORUM_SECRET_FILE": str(secret), "KAFKA_LOG_DIRS": str(tmp_path)}
        settings = Settings.load(None, environment=environment, overrides={})
        host = f"prod-chronik-{node_id}.prod-chronik-nodes.streams.svc.cluster.local"
        assert [str(each) for each in settings.advertised_listeners] == [f"CLIENTS://{host}:9092"]
        assert settings.node_id == node_id
        assert f"{node_id}@{host}:9093" in environment["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",")
        assert environment["KAFKA_LOG_RETENTION_HOURS"] == "72"


@needs_helm
def test_a_pod_runs_without_root_and_hands_over_before_it_ends() -> None:
    """A security review's first question, and a requirement of rolling restarts."""
    pod = rendered("--set", "insecureListeners=true")["StatefulSet prod-chronik"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == 10001
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not pod["automountServiceAccountToken"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["lifecycle"]["preStop"]["exec"]["command"][0] == "/usr/bin/python3"
    assert pod["terminationGracePeriodSeconds"] > 60


@needs_helm
def test_an_open_cluster_must_be_asked_for() -> None:
    """With other charts' defaults, every client in the network can delete everything."""
    refused = render()
    assert (refused.returncode, "insecureListeners=true" in refused.stderr) == (1, True)
    guarded = rendered("--set", "listener.protocol=SASL_SSL")["StatefulSet prod-chronik"]
    [container] = guarded["spec"]["template"]["spec"]["containers"]
    assert variables(guarded, "prod-chronik-0")["KAFKA_CHRONIK_ADMIN_LISTENER"].startswith("127.0.0.1:")
    assert "exec" in container["readinessProbe"]


@needs_helm
@pytest.mark.parametrize(("replicas", "factor"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_replicas_follow_the_number_of_nodes(replicas: int, factor: str) -> None:
    """A topic with more replicas than nodes cannot be created."""
    found = rendered("--set", "insecureListeners=true", "--set", f"replicas={replicas}")["StatefulSet prod-chronik"]
    environment = variables(found, "prod-chronik-0")
    assert environment["KAFKA_DEFAULT_REPLICATION_FACTOR"] == factor
    assert len(environment["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",")) == replicas


def test_every_value_is_used_and_explained() -> None:
    """A value without effect is a promise that is not kept."""
    text = (CHART / "values.yaml").read_text()
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    for key, value in yaml.safe_load(text).items():
        names = [f"{key}.{inner}" for inner in value] if isinstance(value, dict) and value else [key]
        whole = re.search(rf"\.Values\.{key}\b(?!\.)", templates)
        assert whole or all(re.search(rf"\.Values\.{name}\b", templates) for name in names), key
    assert len(re.findall(r"^# ", text, re.MULTILINE)) >= 15


def test_the_compose_file_starts_a_broker_that_only_this_machine_reaches(tmp_path: Path) -> None:
    """A drop-in for the usual `kafka` service: settings that a node takes, and no port open to the network."""
    service = yaml.safe_load(COMPOSE.read_text())["services"]["kafka"]
    environment = {**service["environment"], "KAFKA_LOG_DIRS": str(tmp_path)}
    settings = Settings.load(None, environment=environment, overrides={})
    assert [str(each) for each in settings.advertised_listeners] == ["INTERNAL://kafka:9092", "HOST://localhost:29092"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["read_only"] is True
    assert service["user"] == "10001:10001"
    assert service["healthcheck"]["test"][:2] == ["CMD", "python3"]

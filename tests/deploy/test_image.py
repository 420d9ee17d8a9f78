"""The image of `make image`: small, and a broker in it serves without root and without a writable root file system."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.repository import ROOT, SOURCE

TOOLS = ("umoci", "skopeo", "bwrap")
IMAGE_BYTES_MAX = 30_000_000
USER = 10001
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not all(map(shutil.which, TOOLS)),
        reason="needs umoci, skopeo and bwrap: apt-get install umoci skopeo bubblewrap",
    ),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("image") / "image"
    command = [sys.executable, str(ROOT / "tools/build_image.py"), "--output", str(output)]
    subprocess.run(command, check=True, cwd=ROOT)
    return output


@pytest.fixture
def rootfs(image: Path, tmp_path: Path) -> Iterator[Path]:
    bundle = tmp_path / "bundle"
    subprocess.run(["umoci", "unpack", "--rootless", "--image", f"{image}:latest", str(bundle)], check=True)
    yield bundle / "rootfs"
    shutil.rmtree(bundle)


def test_the_image_is_small_and_says_how_to_run_it(image: Path) -> None:
    """Every new machine pulls it."""
    assert image.with_suffix(".tar").stat().st_size < IMAGE_BYTES_MAX
    command = ["skopeo", "--insecure-policy", "inspect", "--config", f"oci-archive:{image.with_suffix('.tar')}"]
    config = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["config"]
    assert config["User"] == f"{USER}:{USER}"
    assert config["Entrypoint"] == ["/usr/bin/chronik"]
    assert "/data" in config["Volumes"]
    assert "KAFKA_LOG_DIRS=/data" in config["Env"]


def test_a_broker_serves_without_root_on_a_read_only_root(rootfs: Path, tmp_path: Path) -> None:
    """As Kubernetes runs it. Only /data and /tmp can be written."""
    data = tmp_path / "data"
    data.mkdir()
    sandbox = ["bwrap", "--unshare-user", "--uid", str(USER), "--gid", str(USER), "--unshare-pid", "--die-with-parent"]
    sandbox += ["--ro-bind", str(rootfs), "/", "--bind", str(data), "/data", "--tmpfs", "/tmp"]
    sandbox += ["--proc", "/proc", "--dev", "/dev", "--clearenv", "--setenv", "PATH", "/usr/bin"]
    settings = {
        "KAFKA_LOG_DIRS": "/data",
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "KAFKA_CHRONIK_ADMIN_LISTENER": "none",
    }
    for name, value in settings.items():
        sandbox += ["--setenv", name, value]
    refused = subprocess.run(
        [*sandbox, "/usr/bin/python3", "-c", "open('/usr/probe', 'w')"], capture_output=True, text=True, check=False
    )
    assert "Read-only file system" in refused.stderr
    node = subprocess.Popen([*sandbox, "/usr/bin/chronik", "server"], stdout=subprocess.PIPE, text=True)
    try:
        assert node.stdout is not None
        address = node.stdout.readline().removeprefix("ready on ").strip()
        client = [*sandbox, "/usr/bin/chronik"]
        produced = subprocess.run(
            [*client, "produce", "greetings", "--create", "--bootstrap", address],
            input="hello\n",
            text=True,
            check=True,
        )
        assert produced.returncode == 0
        ours = [sys.executable, "-m", "chronik.cli", "consume", "greetings", "--from", "earliest", "--count", "1"]
        consumed = subprocess.run(
            [*ours, "--bootstrap", address], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True
        )
        assert "hello" in consumed.stdout
    finally:
        node.kill()
        node.communicate()
    assert any(data.iterdir())

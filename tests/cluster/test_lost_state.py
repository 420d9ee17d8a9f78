"""Nodes as processes that lose a part of their state: a journal, the metadata, a bit of a segment, files under them.

No acknowledged record is lost, and the cluster mends itself or a node says what to do.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import Cluster
from chronik.testing.local_cluster import node_directory
from chronik.testing.processes import NodeProcess
from tests.cluster.asking import Asked
from tests.cluster.load import Load, check_survived, eventually, live_view, wait_for_full_isr

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

TOPIC = "kept"
NODES = (1, 2, 3)
EXIT_FAILED, EXIT_CANNOT_START = 1, 2
# The scrubber comes by every few seconds instead of once a week.
SETTINGS = {"min.insync.replicas": "2", "chronik.scrub.interval.ms": "1"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings=SETTINGS, in_process=False) as cluster:
        node = Asked(cluster, 1)
        assert node.create(TOPIC) == {TOPIC: 0}
        node.close()
        yield cluster


def start_refused(settings: dict[str, str], capfd: pytest.CaptureFixture[str]) -> str:
    """What a node says that does not start."""
    capfd.readouterr()
    refused = NodeProcess.start(settings)
    assert refused.wait_ready() is None
    refused.wait()
    assert refused.exit_code() == EXIT_CANNOT_START
    return capfd.readouterr().err


def test_a_node_that_lost_its_journal_stays_down_until_it_is_repaired(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    """Started first after all were killed, it would lead an older log, and the others would cut theirs to match."""
    load = Load(cluster, TOPIC)
    load.wait_for_more(100)
    for node_id in NODES:
        cluster.kill(node_id)
    folder = node_directory(cluster.data, 1)
    shutil.rmtree(folder / "journal")
    said = start_refused(cluster.settings[0], capfd)
    assert f"`chronik storage repair {folder}`" in said
    cluster._start((2, 3))
    load.wait_for_more()
    repaired = subprocess.run(
        [sys.executable, "-m", "chronik.cli", "storage", "repair", str(folder)], capture_output=True, text=True
    )
    assert repaired.returncode == 0, repaired.stderr
    assert f"{TOPIC}-0" in repaired.stdout
    cluster.start_again(1)
    load.wait_for_more()
    load.stop()
    check_survived(cluster, load)


def test_a_replica_with_a_flipped_bit_is_mended_under_load(cluster: Cluster) -> None:
    """Two good copies exist: no client is refused anything for good, and all three copies are equal in the end."""
    load = Load(cluster, TOPIC)
    load.wait_for_more(200)
    wait_for_full_isr(cluster, TOPIC)
    leader = live_view(cluster, 1, TOPIC)[0].leader
    cluster.stop(leader)
    segment = node_directory(cluster.data, leader) / f"{TOPIC}-0" / f"{0:020}.log"
    flip(segment, 80)
    damaged = segment.read_bytes()[:200]
    cluster.start_again(leader)
    load.wait_for_more(200)
    eventually(lambda: segment.exists() and segment.read_bytes()[:200] not in (b"", damaged), "the segment is mended")
    load.wait_for_more()
    load.stop()
    check_survived(cluster, load)


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def test_a_partition_that_is_removed_under_a_running_node_is_copied_again(cluster: Cluster) -> None:
    load = Load(cluster, TOPIC)
    load.wait_for_more(200)
    wait_for_full_isr(cluster, TOPIC)
    leader = live_view(cluster, 1, TOPIC)[0].leader
    folder = node_directory(cluster.data, leader) / f"{TOPIC}-0"
    shutil.rmtree(folder)
    eventually(lambda: list(folder.glob("*.log")) or None, "the partition is there again")
    load.wait_for_more(100)
    load.stop()
    check_survived(cluster, load)


def test_a_node_whose_data_is_removed_under_it_ends(cluster: Cluster) -> None:
    """It would acknowledge into files that are gone with its end."""
    load = Load(cluster, TOPIC)
    load.wait_for_more(100)
    shutil.rmtree(node_directory(cluster.data, 2) / "journal")
    node = cluster._runners[1]._process
    node.wait()
    assert node.exit_code() == EXIT_FAILED
    shutil.rmtree(node_directory(cluster.data, 2))
    cluster.start_again(2)
    load.wait_for_more()
    load.stop()
    check_survived(cluster, load)


@pytest.mark.parametrize("lost", ["raft", "metadata disk"])
def test_a_single_node_without_its_metadata_keeps_every_record(
    lost: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = {} if lost == "raft" else {"metadata.log.dir": str(tmp_path / "metadata")}
    with Cluster(nodes=1, settings=settings, in_process=False, data=tmp_path / "data") as cluster:
        node = Asked(cluster, 1)
        assert node.create(TOPIC, replicas=1) == {TOPIC: 0}
        node.close()
        load = Load(cluster, TOPIC)
        load.wait_for_more(100)
        load.stop()
        cluster.stop(1)
        place = Path(cluster.settings[0]["log.dirs"]) / "raft" if lost == "raft" else tmp_path / "metadata"
        place.rename(f"{place}.away")
        said = start_refused(cluster.settings[0], capfd)
        assert "holds no metadata" in said
        shutil.rmtree(place, ignore_errors=True)
        Path(f"{place}.away").rename(place)
        cluster.start_again(1)
        check_survived(cluster, load)


def test_a_single_node_never_starts_with_an_old_copy_of_its_metadata(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """However often a supervisor tries: an attempt that adds to the copy would make it look new enough in the end."""
    with Cluster(nodes=1, in_process=False, data=tmp_path) as cluster:
        raft, old = tmp_path / "raft", tmp_path / "old"
        shutil.copytree(raft, old)
        node = Asked(cluster, 1)
        assert node.create(TOPIC, replicas=1) == {TOPIC: 0}
        node.close()
        load = Load(cluster, TOPIC)
        load.wait_for_more(10)
        load.stop()
        cluster.stop(1)
        raft.rename(tmp_path / "new")
        shutil.copytree(old, raft)
        said = {start_refused(cluster.settings[0], capfd).partition("cannot start: ")[2] for _ in range(4)}
        assert len(said) == 1, "an attempt adds no entry"
        assert "it is an old copy" in said.pop()
        shutil.rmtree(raft)
        (tmp_path / "new").rename(raft)
        cluster.start_again(1)
        check_survived(cluster, load)

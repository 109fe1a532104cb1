"""property: a served pool publishes its metrics to a real Prometheus and a real gmond."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ..pool.real import Folder
from ..ports import free_port

PATIENCE_S = 150


def wait_for(result: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not result():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write("job.sub", "executable = /bin/true\nqueue 3\n")
    return folder


def get(port: int, path: str = "/metrics", **headers: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    return response.status, response.getheader("Content-Type", ""), response.read().decode()


def answers(port: int) -> bool:
    try:
        return get(port)[0] in (200, 401)
    except (ConnectionError, http.client.HTTPException):  # it ends just now
        return False


@contextmanager
def process(*command: str) -> Iterator[None]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        try:
            yield
        finally:
            started.kill()


def config(folder: Folder, text: str) -> tuple[str, str]:
    folder.write("pool.conf", f"SPOOL = {folder.path}\nMETRICD_INTERVAL = 1\nMETRICD_VERBOSITY = 2\n{text}")
    return "-config", "pool.conf"


def test_a_served_pool_writes_the_file_and_answers_over_http_until_it_is_killed(folder: Folder) -> None:
    port = free_port()
    options = config(
        folder,
        f"use feature:METRICD\nPROMETHEUS_METRICS_FILE = {folder.path}/metrics.prom\nPROMETHEUS_HTTP_PORT = {port}\n",
    )
    with folder.served(*options) as server:
        folder.call("submit", "job.sub")
        file = folder.path / "metrics.prom"
        wait_for(lambda: file.exists() and "htcondor_JobsCompleted_jobs{" in file.read_text())
        wait_for(lambda: "poolbook_jobs_submitted_total 3\n" in file.read_text())
        wait_for(lambda: answers(port))
        wait_for(lambda: 'poolbook_run_ends_total{outcome="exited"} 3\n' in get(port)[2])
        status, kind, text = get(port)
        assert (status, kind) == (200, "text/plain; version=0.0.4")
        values = {sample.name: sample.value for family in parse_text(text) for sample in family.samples}
        assert values["htcondor_JobsCompleted_jobs"] == values["htcondor_JobsStarted_jobs"] == 3
        assert values["htcondor_SchedulerMonitorSelfResidentSetSize_bytes"] > 10_000_000
        assert get(port, "/")[0] == 404
        status, kind, text = get(port, Accept="application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text")
        kinds = {family.name: family.type for family in parse_open_metrics(text)}  # type: ignore[no-untyped-call]
        assert kinds["poolbook_run_ends"] == "counter" and kinds["poolbook_build"] == "info"
        server.kill()
        server.wait()
        wait_for(lambda: not answers(port))


def test_promtool_finds_no_problem_and_prometheus_stores_the_metrics(folder: Folder) -> None:
    port, own_port = free_port(), free_port()
    folder.write(
        "prometheus.yml",
        "scrape_configs: [{job_name: pool, scrape_interval: 1s, "
        f"static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]",
    )
    options = config(folder, f"use feature:METRICD\nPROMETHEUS_HTTP_PORT = {port}\n")
    with (
        folder.served(*options),
        process(
            "prometheus", f"--config.file={folder.path}/prometheus.yml", f"--storage.tsdb.path={folder.path}/data",
            f"--web.listen-address=127.0.0.1:{own_port}",
        ),
    ):  # fmt: skip
        folder.call("submit", "job.sub")
        wait_for(lambda: answers(port))
        text = get(port)[2]
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        problems = [line for line in checked.stderr.splitlines() if line.startswith("poolbook_")]
        assert problems == []

        def stored() -> bool:
            query = f"http://127.0.0.1:{own_port}/api/v1/query?query=poolbook_jobs_submitted_total"
            try:
                result = json.load(urllib.request.urlopen(query))["data"]["result"]
            except OSError:
                return False
            return [sample["value"][1] for sample in result] == ["3"]

        wait_for(stored)


def test_a_password_file_keeps_others_out(folder: Folder) -> None:
    port = free_port()
    digest = base64.b64encode(hashlib.sha1(b"secret").digest()).decode()
    folder.write("passwords", f"alice:{{SHA}}{digest}\n")
    options = config(
        folder,
        f"use feature:METRICD\nPROMETHEUS_HTTP_PORT = {port}\nPROMETHEUS_HTTP_AUTH_FILE = {folder.path}/passwords\n",
    )

    def status(user: str) -> int:
        return get(port, Authorization=f"Basic {base64.b64encode(user.encode()).decode()}")[0]

    with folder.served(*options):
        wait_for(lambda: answers(port) and status("alice:secret") == 200)
        tried = [get(port)[0], status("alice:wrong"), status("bob:secret"), status("alice"), get(port, "/other")[0]]
        assert tried == [401, 401, 401, 401, 404]


def test_gmond_shows_the_metrics_of_a_pool(folder: Folder) -> None:
    udp, tcp = free_port(), free_port()
    folder.write(
        "gmond.conf",
        f"""globals {{ daemonize = no setuid = no mute = no deaf = no host_dmax = 0 }}
        cluster {{ name = "pool" }}
        udp_send_channel {{ host = 127.0.0.1 port = {udp} ttl = 1 }}
        udp_recv_channel {{ port = {udp} bind = 127.0.0.1 }}
        tcp_accept_channel {{ port = {tcp} bind = 127.0.0.1 }}
        """,
    )
    options = config(
        folder,
        f"""use feature:GANGLIA
        GANGLIAD_INTERVAL = 1
        GANGLIA_CONFIG = {folder.path}/gmond.conf
        GANGLIA_SEND_DATA_FOR_ALL_HOSTS = true
        """,
    )
    with process("gmond", "-c", f"{folder.path}/gmond.conf"), folder.served(*options):
        folder.call("submit", "job.sub")

        def values() -> dict[str, str]:
            try:
                with socket.create_connection(("127.0.0.1", tcp), timeout=PATIENCE_S) as connection:
                    text = b"".join(iter(lambda: connection.recv(65536), b""))
            except ConnectionError:
                return {}
            found = ElementTree.fromstring(text.decode("latin-1")).iter("METRIC")
            return {str(metric.get("NAME")): str(metric.get("VAL")) for metric in found}

        shown = {"JobsCompleted": "3", "Pool Slot Count": "1", "Jobs in Pool": "0"}
        wait_for(lambda: values().items() >= shown.items())


def test_an_invalid_definition_ends_the_command_with_an_error(folder: Folder) -> None:
    folder.call("submit", "job.sub")
    (folder.path / "metrics.d").mkdir()
    (folder.path / "metrics.d/10_mine").write_text('[ Name = "Jobs"; ]')
    options = config(folder, f"METRICD_METRICS_CONFIG_DIR = {folder.path}/metrics.d\n")
    output = folder.call("metrics", "-once", *options, code=1)
    assert output == (
        f'poolbook metrics: {folder.path}/metrics.d/10_mine: the metric "Jobs" has no TargetType. Each metric needs '
        'the type of the ads that it describes, such as TargetType = "Scheduler" (or "Any")\n'
    )


def test_the_dashboard_shows_metrics_that_exist(folder: Folder) -> None:
    dashboard = (Path(__file__).parent.parent.parent / "docs/examples/grafana.json").read_text()
    with folder.served():
        folder.call("submit", "job.sub")
        published = folder.call("metrics", "-once", *config(folder, ""))
    names = re.findall(r"\b(?:poolbook|htcondor)_\w+", dashboard)
    assert {name for name in names if f"# TYPE {name} " not in published} == set()
    assert len(set(names)) >= 8


def test_a_path_of_libganglia_is_reported_to_have_no_effect(folder: Folder) -> None:
    options = config(folder, "GANGLIA_LIB = /usr/lib/libganglia.so\nPROMETHEUS_METRICS_FILE = prom\n")
    with folder.served():
        output = folder.call("metrics", "-once", *options)
    assert "GANGLIA_LIB = /usr/lib/libganglia.so has no effect: packets are sent without libganglia" in output
    assert "GANGLIA_LIB" not in folder.call("metrics", "-once", *config(folder, "GANGLIA_LIB = NOOP\n"))


def test_the_metrics_of_several_pools_are_published_by_pool(tmp_path: Path) -> None:
    folders = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        folder = Folder(tmp_path / name)
        folder.write("job.sub", f"executable = /bin/true\nhold = true\nqueue {2 if name == 'a' else 3}\n")
        folder.write("poolbook.conf", "NUM_CPUS = 1\n")
        with folder.served():
            folder.call("submit", "job.sub")
        folders.append(folder)
    here = Folder(tmp_path)
    pools = ", ".join(f"{folder.path.name}/{folder.path}/pool.db" for folder in folders)
    labels = "PROMETHEUS_DEFAULT_LABELS = [pool = MetricPool]\n"
    options = config(here, f"MONITOR_MULTIPLE_COLLECTORS = {pools}, c/127.0.0.1:1#sha256=0\n{labels}")
    output = here.call("metrics", "-once", *options)
    held = dict(re.findall(r'^htcondor_\w*HeldJobs\w*\{.*?pool="(\w)".*?\} (\d+)', output, re.MULTILINE))
    assert held == {"a": "2", "b": "3"}, output
    assert "the ads of c cannot be read, which is tried again in 30 minutes: https://127.0.0.1:1 does not" in output
    assert "poolbook_" not in output.replace("poolbook metrics:", "")
    wrong = config(here, "MONITOR_MULTIPLE_COLLECTORS = pool1\n")
    assert "pool1 is not NAME/ADDRESS" in here.call("metrics", "-once", *wrong, code=1)

"""The AWS stand-in: one process, ours, and gone when told."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import boto3
import psutil
import pytest
from botocore.exceptions import ClientError

from pramaan_pipelines.local.aws import EmbeddedAws
from pramaan_pipelines.local.processes import holder, is_held

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

Run = Callable[[str], "subprocess.Popen[str]"]
START = "from pathlib import Path; from pramaan_pipelines.local.aws import EmbeddedAws; "


def sqs(aws: EmbeddedAws, account: str | None = None) -> "SQSClient":
    return boto3.client(
        "sqs",
        endpoint_url=aws.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=account or aws.account,
        aws_secret_access_key="local",
    )


def main_process(aws: EmbeddedAws) -> psutil.Process:
    process = holder(aws.lock, aws._pid_hint())
    assert process is not None
    return process


def test_send_and_receive(aws: EmbeddedAws) -> None:
    assert not aws.is_running()
    assert aws.start()
    assert not aws.start()
    client = sqs(aws)
    url = client.create_queue(QueueName="q")["QueueUrl"]
    assert aws.account in url
    client.send_message(QueueUrl=url, MessageBody="hello")
    assert client.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "hello"
    with pytest.raises(ClientError, match="NonExistentQueue"):  # another account sees nothing
        sqs(aws, "111122223333").get_queue_url(QueueName="q")
    listening = [c for c in main_process(aws).net_connections() if c.status == psutil.CONN_LISTEN]
    assert [tuple(c.laddr) for c in listening] == [("127.0.0.1", aws.port)]


def test_kill_9_then_start(aws: EmbeddedAws) -> None:
    aws.start()
    account, endpoint = aws.account, aws.endpoint_url
    client = sqs(aws)
    url = client.create_queue(QueueName="q")["QueueUrl"]
    main_process(aws).kill()
    assert aws.start()
    assert (aws.account, aws.endpoint_url) == (account, endpoint)
    with pytest.raises(ClientError, match="NonExistentQueue"):  # it forgets: provision again
        client.send_message(QueueUrl=url, MessageBody="x")


def test_two_starts_at_once_and_an_end_from_elsewhere(aws: EmbeddedAws, python: Run) -> None:
    code = f"{START} a = EmbeddedAws(Path({str(aws.root)!r})); print(a.start(), a.endpoint_url)"
    answers = [run.communicate(timeout=60)[0].split() for run in (python(code), python(code))]
    assert sorted(answer[0] for answer in answers) == ["False", "True"]
    assert {answer[1] for answer in answers} == {aws.endpoint_url}
    process = main_process(aws)
    aws.stop()
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    aws.stop()


def test_outlives_ctrl_c(aws: EmbeddedAws, python: Run) -> None:
    code = f"{START} import time; EmbeddedAws(Path({str(aws.root)!r})).start();"
    starter = python(code + "print('up', flush=True); time.sleep(60)")
    assert starter.stdout
    assert starter.stdout.readline() == "up\n"
    os.killpg(starter.pid, signal.SIGINT)
    assert starter.wait(10) != 0
    assert aws.is_running()


def test_hung_server_is_ended(aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> None:
    aws.start()
    monkeypatch.setattr(EmbeddedAws, "ending", ((signal.SIGTERM, 0.2), (signal.SIGKILL, 5.0)))
    main_process(aws).suspend()
    aws.stop()
    assert not is_held(aws.lock)


def test_pid_file_that_names_a_stranger(aws: EmbeddedAws) -> None:
    aws.start()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        try:
            (aws.root / "pid").write_text(str(stranger.pid))
            aws.stop()
            assert not is_held(aws.lock)
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_stranger_on_the_port_is_not_taken_for_it(aws: EmbeddedAws) -> None:
    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"services": {}, "edition": "light"}).encode())

        def log_message(self, *_: object) -> None:
            pass

    aws.start()
    former = aws.endpoint_url
    aws.stop()
    with HTTPServer(("127.0.0.1", aws.port or 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert not aws.is_running()
            assert not aws._answers()  # not even while a process of ours holds the lock
            assert aws.start()
        finally:
            server.shutdown()
            thread.join()
    assert aws.endpoint_url != former
    assert aws.issued(former)
    assert aws.issued(aws.endpoint_url)
    assert not aws.issued("http://127.0.0.1:4566")

"""outbox-sqs: its own relay and its own SQS publisher, as many relays as there are workers."""

from threading import Thread
from time import perf_counter
from typing import Any

import boto3
from outbox_sqs import Relay, SQSPublisher
from outbox_sqs.models import Base
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker

from pramaan_pipelines_tests.bench.workers.protocol import Seen, order, serve


def main(asked: dict[str, Any]) -> None:
    """Drain."""
    url = asked["owner_url"].replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url, pool_size=asked["workers"])
    Base.metadata.create_all(engine)
    sessions = sessionmaker(engine)
    where = {"region_name": "us-east-1", "endpoint_url": asked["settings"]["aws_endpoint_url"]}
    relays = [
        Relay(
            sessions,
            SQSPublisher(boto3.session.Session().client("sqs", **where)),
            batch_size=asked["batch"],
        )
        for _ in range(asked["workers"])
    ]

    def until_empty(relay: Relay) -> None:
        while relay.run_once():
            pass

    def drain() -> Seen:
        threads = [Thread(target=until_empty, args=(relay,)) for relay in relays]
        started = perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return perf_counter() - started, []

    serve(drain)


if __name__ == "__main__":
    main(order())

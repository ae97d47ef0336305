"""The story's own algorithm: one transaction, and row by row a send and an update (story 1608).

In bare psycopg and boto3, so that what is compared is the algorithm.
"""

import json
from time import perf_counter
from typing import Any

import boto3
import psycopg

from pramaan_pipelines_tests.bench.workers.bare import SELECT, STAFF
from pramaan_pipelines_tests.bench.workers.protocol import Seen, attributes, order, serve

UPDATE = "UPDATE {table} SET dispatched_at = now() WHERE id = %s"


def main(asked: dict[str, Any]) -> None:
    """Drain."""
    places = {"table": asked["table"], "body": asked["body"]}
    select, update = SELECT.format(**places), UPDATE.format(**places)
    settings = asked["settings"]
    connection = psycopg.connect(settings["database_url"], prepare_threshold=None)
    session = boto3.session.Session()
    where = {"region_name": "us-east-1", "endpoint_url": settings["aws_endpoint_url"]}
    client: Any = session.client("sqs" if asked["sink"] == "sqs" else "events", **where)

    def send(row: tuple[Any, ...]) -> None:
        body = row[6]
        if asked["sink"] == "sqs":
            names = ("event_type", "traceparent", "tracestate")
            headers = dict(zip(names, (asked["event_type"], *row[3:5]), strict=True))
            client.send_message(
                QueueUrl=asked["queue_url"], MessageBody=body, MessageAttributes=attributes(headers)
            )
        else:
            name = json.loads(body)["event_type"]
            entry = {"Source": "pramaan", "DetailType": name, "Detail": body}
            client.put_events(Entries=[entry | {"EventBusName": settings["event_bus_name"]}])

    def drain() -> Seen:
        started = perf_counter()
        while True:
            with connection.transaction():
                connection.execute(STAFF)
                rows = connection.execute(select, [asked["event_type"], asked["batch"]]).fetchall()
                if not rows:
                    break
                for row in rows:
                    send(row)
                    connection.execute(update, [row[0]])
        return perf_counter() - started, []

    serve(drain)


if __name__ == "__main__":
    main(order())

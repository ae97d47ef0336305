"""faststream-outbox: a subscriber whose handler sends, as its documentation shows for a relay.

It has no SQS broker, so the handler calls aiobotocore; a handler gets one row, so each is a call.
"""

import asyncio
from time import perf_counter
from typing import Any

from aiobotocore.session import get_session
from faststream_outbox import OutboxBroker, make_outbox_table
from faststream_outbox.annotations import OutboxMessage
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import create_async_engine

from pramaan_pipelines_tests.bench.workers.protocol import Seen, attributes, order, serve

FLUSH = 100
LEFT = text("SELECT EXISTS (SELECT FROM public.outbox)")
SENT_AS_ATTRIBUTES = ("event_type", "traceparent", "tracestate")


async def make(asked: dict[str, Any], metadata: MetaData) -> None:
    """Make its table."""
    engine = create_async_engine(_url(asked))
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    await engine.dispose()


async def drain(asked: dict[str, Any], table: Any) -> float:
    """Run a broker until its table is empty."""
    engine = create_async_engine(_url(asked), pool_size=asked["workers"] + 4)
    broker = OutboxBroker(engine, outbox_table=table, logger=None)
    where = {"region_name": "us-east-1", "endpoint_url": asked["settings"]["aws_endpoint_url"]}
    async with get_session().create_client("sqs", **where) as client:

        @broker.subscriber(  # type: ignore[untyped-decorator]  # not installed where mypy runs
            "bench",
            max_workers=asked["workers"],
            fetch_batch_size=asked["batch"],
            terminal_flush_batch_size=FLUSH,
            min_fetch_interval=0.01,
        )
        async def relay(body: str, message: OutboxMessage) -> None:
            headers = {name: message.headers[name] for name in SENT_AS_ATTRIBUTES}
            await client.send_message(
                QueueUrl=asked["queue_url"], MessageBody=body, MessageAttributes=attributes(headers)
            )

        async with engine.connect() as connection:
            looking = await connection.execution_options(isolation_level="AUTOCOMMIT")
            started = perf_counter()
            await broker.start()
            while await looking.scalar(LEFT):  # noqa: ASYNC110 - it is in the database
                await asyncio.sleep(0.01)
            seconds = perf_counter() - started
        await broker.stop()
    await engine.dispose()
    return seconds


def _url(asked: dict[str, Any]) -> str:
    return str(asked["owner_url"]).replace("postgresql://", "postgresql+asyncpg://")


def main(asked: dict[str, Any]) -> None:
    """Drain."""
    metadata = MetaData()
    table = make_outbox_table(metadata, table_name="outbox")
    asyncio.run(make(asked, metadata))

    def once() -> Seen:
        return asyncio.run(drain(asked, table)), []

    serve(once)


if __name__ == "__main__":
    main(order())

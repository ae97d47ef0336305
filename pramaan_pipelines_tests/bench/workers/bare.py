"""The ceiling: the same select, lock and update in bare psycopg, and nothing else.

The same columns and the same body, made in the database; the same role under the same row level
security; a batch of the same size; one transaction a batch. No span, no checks, no answers.
"""

from time import perf_counter
from typing import Any

import psycopg

from pramaan_pipelines_tests.bench.workers.protocol import Seen, order, serve

STAFF = "SELECT set_config('app.is_staff', 'true', true)"
SELECT = """
    SELECT id, event_id, firm_id, traceparent, tracestate, created_at, {body}
    FROM {table}
    WHERE dispatched_at IS NULL AND parked_at IS NULL
      AND event_type = %s AND next_attempt_at <= now()
    ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
"""
UPDATE = "UPDATE {table} SET dispatched_at = now(), last_dispatch_error = NULL WHERE id = ANY(%s)"


def main(asked: dict[str, Any]) -> None:
    """Drain."""
    names = {"table": asked["table"], "body": asked["body"]}
    select, update = SELECT.format(**names), UPDATE.format(**names)
    connection = psycopg.connect(asked["settings"]["database_url"], prepare_threshold=None)

    def drain() -> Seen:
        seen: list[str] = []
        started = perf_counter()
        while True:
            with connection.transaction():
                connection.execute(STAFF)
                rows = connection.execute(select, [asked["event_type"], asked["batch"]]).fetchall()
                if not rows:
                    break
                seen += [str(row[1]) for row in rows]
                connection.execute(update, [[row[0] for row in rows]])
        return perf_counter() - started, seen

    serve(drain)


if __name__ == "__main__":
    main(order())

// pg-transactional-outbox: its polling listener with one general handler, which sends to SQS.
// A handler gets one message, so each is a call. The protocol is that of protocol.py.

import { createRequire } from 'node:module';
import readline from 'node:readline';

const require = createRequire(import.meta.url);
const { Client } = require('pg');
const { SQSClient, SendMessageCommand } = require('@aws-sdk/client-sqs');
const {
  DatabaseSetup,
  getDisabledLogger,
  initializePollingMessageListener,
} = require('pg-transactional-outbox');

const say = (what) => process.stdout.write(JSON.stringify(what) + '\n');
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const place = { outboxOrInbox: 'outbox', schema: 'public', table: 'trx_outbox' };
// What is in flight at once. A batch here is a pool that is topped up one by one, and a fetch locks
// the row that a handler may just be locking (NOWAIT, on both sides): the loser waits out its lock.
const inFlightPerWorker = 5;
const lockMs = 1000;
const functionOfNext = { nextMessagesSchema: 'public', nextMessagesName: 'next_outbox_messages' };

async function prepare(order) {
  const looking = new Client({ connectionString: order.owner_url });
  await looking.connect();
  await looking.query(DatabaseSetup.dropAndCreateTable(place));
  await looking.query(DatabaseSetup.createPollingFunction({ ...place, ...functionOfNext }));
  await looking.query(DatabaseSetup.setupPollingIndexes(place));
  const sqs = new SQSClient({
    endpoint: order.settings.aws_endpoint_url,
    region: 'us-east-1',
    useQueueUrlAsEndpoint: false,
  });
  return { looking, sqs };
}

async function drain(order, { looking, sqs }) {
  const attribute = (value) => ({ DataType: 'String', StringValue: value });
  const handler = {
    handle: async ({ payload, metadata }) => {
      const named = Object.entries(metadata).map(([name, value]) => [name, attribute(value)]);
      await sqs.send(
        new SendMessageCommand({
          QueueUrl: order.queue_url,
          MessageBody: payload,
          MessageAttributes: Object.fromEntries(named),
        }),
      );
    },
  };
  const config = {
    outboxOrInbox: 'outbox',
    dbListenerConfig: { connectionString: order.owner_url },
    dbHandlerConfig: { connectionString: order.owner_url, max: order.workers },
    settings: {
      dbSchema: 'public',
      dbTable: 'trx_outbox',
      enableMaxAttemptsProtection: false,
      enablePoisonousMessageProtection: false,
      nextMessagesFunctionName: 'next_outbox_messages',
      nextMessagesBatchSize: order.workers * inFlightPerWorker,
      nextMessagesLockInMs: lockMs,
      nextMessagesPollingIntervalInMs: 10,
    },
  };
  // Its default strategy begins with one message a query, as a guard against a poisonous one.
  const strategies = { batchSizeStrategy: async () => order.workers * inFlightPerWorker };
  const started = performance.now();
  const [shutdown] = initializePollingMessageListener(
    config,
    handler,
    getDisabledLogger(),
    strategies,
  );
  const left =
    'SELECT EXISTS (SELECT FROM public.trx_outbox WHERE processed_at IS NULL) AS some';
  while ((await looking.query(left)).rows[0].some) {
    await pause(10);
  }
  const seconds = (performance.now() - started) / 1000;
  await shutdown();
  return seconds;
}

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const order = JSON.parse((await lines.next()).value);
const prepared = await prepare(order);
say({ ready: true });
for await (const line of lines) {
  if (line === 'go') {
    say({ seconds: await drain(order, prepared), seen: [] });
  }
}
process.exit(0);

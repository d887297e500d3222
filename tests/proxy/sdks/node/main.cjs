// RocketMQ's official Node SDK through a proxy: every row of its own table of features but lite
// topics. `node main.cjs 127.0.0.1:8081`; and with `priority`, the row that needs brokers like 5.5.
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer,
} = require('rocketmq-client-nodejs');
// The SDK's index has no enums of its protocol.
const { FilterType, TransactionResolution,
} = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');
const endpoints = process.argv[2];
const quiet = { info() {}, warn() {}, error() {}, debug() {} };
const common = { endpoints, namespace: '', logger: quiet, requestTimeout: 60000 };
const text = message => message.body.toString();

async function producing(topic, checker) {
  const producer = new Producer({ ...common, topics: [ topic ], checker });
  await producer.startup();
  return producer;
}

function made(topic, body, more = {}) {
  return { topic, tag: 'new', body: Buffer.from(body), ...more };
}

async function consuming(consumerGroup, topic, filter) {
  const consumer = new SimpleConsumer({ ...common, consumerGroup, awaitDuration: 5000,
    subscriptions: new Map([ [ topic, filter ] ]) });
  await consumer.startup();
  return consumer;
}

async function some(consumer, count) {
  const found = [];
  while (found.length < count) found.push(...await consumer.receive(16, 20000));
  return found;
}

// Acknowledges so many messages of a topic, and returns what is in them.
async function consumed(group, topic, count, filter = '*') {
  const consumer = await consuming(group, topic, filter);
  const found = await some(consumer, count);
  for (const message of found) await consumer.ack(message);
  await consumer.shutdown();
  return found.map(text).sort();
}

// A consumer that runs until it is shut down, and a promise of the first messages that it sees.
async function pushing(consumerGroup, topic, count, ok = () => true) {
  const seen = [];
  let done;
  const all = new Promise(resolve => { done = resolve; });
  const consumer = new PushConsumer({ ...common, consumerGroup,
    subscriptions: new Map([ [ topic, '*' ] ]),
    messageListener: { async consume(message) {
      seen.push(text(message));
      if (seen.length >= count) done(seen);
      return ok(message) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
    } } });
  await consumer.startup();
  return { consumer, all };
}

async function pushed(group, topic, count) {
  const { consumer, all } = await pushing(group, topic, count);
  await all;
  await consumer.shutdown();
  return all;
}

async function normal() {
  const producer = await producing('orders');
  await producer.send(made('orders', 'zero', { tag: 'old' }));
  await producer.send(made('orders', 'one'));
  await producer.send(made('orders', 'two', { properties: new Map([ [ 'number', '2' ] ]) }));
  await producer.shutdown();

  const consumer = await consuming('simple', 'orders', 'new');
  for (const message of await some(consumer, 2)) {
    if (text(message) === 'one') await consumer.changeInvisibleDuration(message, 1000);
    else await consumer.ack(message);
  }
  const [ again ] = await some(consumer, 1);
  await consumer.ack(again);
  console.log('simple', text(again), again.deliveryAttempt, again.tag);
  await consumer.shutdown();

  const second = new FilterExpression('number = 2', FilterType.SQL);
  console.log('sql', ...await consumed('sql', 'orders', 1, second));
  console.log('push', ...(await pushed('push', 'orders', 3)).sort());
}

async function ordered() {
  const producer = await producing('payments');
  for (const each of [ '1', '2', '3', '4' ]) {
    await producer.send(made('payments', each, { messageGroup: 'customer-17' }));
  }
  await producer.shutdown();
  console.log('fifo', ...await pushed('fifo', 'payments', 4));
}

// Two messages for later, of which the first is taken back; what is returned waits for the other.
async function delayed() {
  const producer = await producing('later');
  const due = Date.now() + 20000;
  const never = made('later', 'never', { deliveryTimestamp: new Date(due) });
  const { recallHandle } = await producer.send(never);
  await producer.send(made('later', 'due', { deliveryTimestamp: new Date(due + 2000) }));
  await producer.recallMessage('later', recallHandle);
  await producer.shutdown();
  return async () => {
    console.log('delayed', ...await consumed('delayed', 'later', 1), Date.now() >= due + 2000);
  };
}

// Transactions that end by their producer, or when the broker asks for it.
async function transactions() {
  const asked = new Set();
  const producer = await producing('deals', { async check(message) {
    asked.add(text(message));
    return text(message) === 'forgotten' ? TransactionResolution.ROLLBACK
      : TransactionResolution.COMMIT;
  } });
  for (const each of [ 'rollback', 'forgotten', 'asked', 'commit' ]) {
    const transaction = producer.beginTransaction();
    await producer.send(made('deals', each), transaction);
    if (each === 'commit') await transaction.commit();
    if (each === 'rollback') await transaction.rollback();
  }
  console.log('transactions', ...await consumed('deals', 'deals', 2));
  console.log('asked', ...[ ...asked ].sort());
  await producer.shutdown();
}

async function failing() {
  const producer = await producing('retried');
  await producer.send(made('retried', 'bad'));
  await producer.shutdown();
  // Open until the message is dead: closed before, nobody may say that the second try failed.
  const { consumer, all } = await pushing('retried', 'retried', 2, () => false);
  // At once: this SDK does not know a backoff that is a list, as this group's is.
  console.log('retried', ...await all);
  console.log('dead', ...await dead());
  await consumer.shutdown();
}

// The dead letters of the group, whose topic is made with the first of them.
async function dead() {
  for (;;) {
    try {
      return await consumed('undertaker', '%DLQ%retried', 1);
    } catch (untilItHasATopic) {
      await new Promise(resolve => setTimeout(resolve, 200));
    }
  }
}

async function priority() {
  const producer = await producing('urgent');
  for (const value of [ 1, 3, 2 ]) {
    await producer.send(made('urgent', String(value), { priority: value }));
  }
  await producer.shutdown();
  const consumer = await consuming('urgent', 'urgent', '*');
  console.log('priority', ...(await some(consumer, 3)).map(text));
  await consumer.shutdown();
}

async function all() {
  const later = await delayed();
  await normal();
  await ordered();
  await transactions();
  await failing();
  await later();
}

(process.argv[3] ? priority() : all()).then(() => process.exit(0));

// RocketMQ's official Node SDK through a proxy. `node main.cjs 127.0.0.1:8081`
const { ConsumeResult, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');
const endpoints = process.argv[2];
const quiet = { info() {}, warn() {}, error() {}, debug() {} };
const common = { endpoints, namespace: '', logger: quiet, requestTimeout: 10000 };
const bodies = messages => messages.map(each => each.body.toString());

async function send(topic, group, ...texts) {
  const producer = new Producer({ ...common, topics: [ topic ] });
  await producer.startup();
  for (const text of texts) {
    await producer.send({ topic, tag: 'new', body: Buffer.from(text),
      ...(group ? { messageGroup: group } : {}) });
  }
  await producer.shutdown();
}

async function some(consumer, count) {
  const found = [];
  while (found.length < count) found.push(...await consumer.receive(16, 20000));
  return found;
}

async function simple() {
  await send('orders', '', 'one', 'two');
  const consumer = new SimpleConsumer({ ...common, consumerGroup: 'node-simple',
    awaitDuration: 5000, subscriptions: new Map([ [ 'orders', 'new' ] ]) });
  await consumer.startup();
  for (const message of await some(consumer, 2)) {
    if (message.body.toString() === 'two') await consumer.ack(message);
    else await consumer.changeInvisibleDuration(message, 1000);
  }
  const [ again ] = await some(consumer, 1);
  await consumer.ack(again);
  console.log('simple', again.body.toString(), again.deliveryAttempt, again.tag);
  await consumer.shutdown();
}

async function push(consumerGroup, topic, count, ok = () => true) {
  const seen = [];
  let done;
  const all = new Promise(resolve => { done = resolve; });
  const consumer = new PushConsumer({ ...common, consumerGroup,
    subscriptions: new Map([ [ topic, '*' ] ]),
    messageListener: { async consume(message) {
      seen.push(message);
      if (seen.length >= count) done();
      return ok(message) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
    } } });
  await consumer.startup();
  await all;
  await consumer.shutdown();
  return bodies(seen);
}

(async () => {
  await simple();
  console.log('push', (await push('node-push', 'orders', 2)).sort().join(' '));
  await send('payments', 'customer-17', '1', '2', '3', '4');
  console.log('fifo', (await push('fifo', 'payments', 4)).join(' '));
  process.exit(0);
})();

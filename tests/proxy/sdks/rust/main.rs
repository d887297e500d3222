// RocketMQ's official Rust SDK through a proxy: every row that it has of the SDKs' table of
// features. It has no recall, no priority, no push consumer, and so neither retries nor dead
// letters; its simple consumer cannot hide a message again. `cargo run -- 127.0.0.1:8081`
use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};

type Done<T> = Result<T, Box<dyn Error>>;

fn place() -> ClientOption {
    let mut option = ClientOption::default();
    option.set_access_url(std::env::args().nth(1).expect("where is the proxy?"));
    option.set_timeout(Duration::from_secs(60));
    option
}

fn publishing(topic: &str) -> ProducerOption {
    let mut option = ProducerOption::default();
    option.set_topics(vec![topic]);
    option
}

async fn producing(topic: &str) -> Done<Producer> {
    let mut producer = Producer::new(publishing(topic), place())?;
    producer.start().await?;
    Ok(producer)
}

fn made(topic: &str, body: &str) -> MessageBuilder {
    MessageBuilder::builder().set_topic(topic).set_body(body.into()).set_tag("new")
}

fn text(message: &MessageView) -> String {
    String::from_utf8_lossy(message.body()).into_owned()
}

async fn consuming(group: &str, topic: &str) -> Done<SimpleConsumer> {
    let mut option = SimpleConsumerOption::default();
    option.set_consumer_group(group);
    option.set_topics(vec![topic]);
    let mut consumer = SimpleConsumer::new(option, place())?;
    consumer.start().await?;
    Ok(consumer)
}

/// Acknowledges so many messages of a topic, and returns what is in them, in their order.
async fn consumed(
    group: &str, topic: &str, filter: &FilterExpression, count: usize,
) -> Done<Vec<String>> {
    let consumer = consuming(group, topic).await?;
    let mut bodies = Vec::new();
    while bodies.len() < count {
        for message in consumer.receive(topic, filter).await? {
            bodies.push(text(&message));
            consumer.ack(&message).await?;
        }
    }
    consumer.shutdown().await?;
    Ok(bodies)
}

fn sorted(mut bodies: Vec<String>) -> Vec<String> {
    bodies.sort();
    bodies
}

fn seconds_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64
}

async fn normal() -> Done<()> {
    let producer = producing("orders").await?;
    producer.send(made("orders", "zero").set_tag("old").build()?).await?;
    producer.send(made("orders", "one").build()?).await?;
    let number = HashMap::from([("number", "2")]);
    producer.send(made("orders", "two").set_properties(number).build()?).await?;
    producer.shutdown().await?;

    let new = FilterExpression::new(FilterType::Tag, "new");
    println!("tag {:?}", sorted(consumed("simple", "orders", &new, 2).await?));
    let second = FilterExpression::new(FilterType::Sql, "number = 2");
    println!("sql {:?}", consumed("sql", "orders", &second, 1).await?);
    Ok(())
}

async fn ordered(all: &FilterExpression) -> Done<()> {
    let producer = producing("payments").await?;
    for each in ["1", "2", "3", "4"] {
        producer.send(made("payments", each).set_message_group("customer-17").build()?).await?;
    }
    producer.shutdown().await?;
    println!("fifo {:?}", consumed("fifo", "payments", all, 4).await?);
    Ok(())
}

async fn delayed(all: &FilterExpression) -> Done<()> {
    let producer = producing("later").await?;
    let due = seconds_now() + 5;
    producer.send(made("later", "due").set_delivery_timestamp(due).build()?).await?;
    producer.shutdown().await?;
    let bodies = consumed("delayed", "later", all, 1).await?;
    println!("delayed {:?} {}", bodies, seconds_now() >= due);
    Ok(())
}

/// Transactions that end by their producer, or when the broker asks for it.
async fn transactions(all: &FilterExpression) -> Done<()> {
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = asked.clone();
    let check = move |_transaction_id: String, message: MessageView| {
        noted.lock().expect("nobody fails").insert(text(&message));
        if text(&message) == "forgotten" {
            TransactionResolution::ROLLBACK
        } else {
            TransactionResolution::COMMIT
        }
    };
    let mut producer =
        Producer::new_transaction_producer(publishing("deals"), place(), Box::new(check))?;
    producer.start().await?;
    for each in ["rollback", "forgotten", "asked", "commit"] {
        let half = made("deals", each).enable_transaction().build()?;
        let transaction = producer.send_transaction_message(half).await?;
        match each {
            "commit" => transaction.commit().await?,
            "rollback" => transaction.rollback().await?,
            _ => (),
        }
    }
    let bodies = sorted(consumed("deals", "deals", all, 2).await?);
    println!("transactions {:?} {:?}", bodies, asked.lock().expect("nobody fails"));
    producer.shutdown().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Done<()> {
    let all = FilterExpression::new(FilterType::Tag, "*");
    normal().await?;
    ordered(&all).await?;
    delayed(&all).await?;
    transactions(&all).await
}

"""Generated questions to ACL 1.0: what RocketMQ 4.9.8's own code answers is a golden file."""

from __future__ import annotations

import json
import random
from typing import Any

SEED = 39
FILES = 32
REQUESTS = 24
"""Of each file."""

PERMS = ("PUB", "SUB", "PUB|SUB", "SUB|PUB", "DENY", "pub", "ANY", " PUB ")
TOPICS = ("orders", "bills", "orders-eu", "RMQ_SYS_TRACE_TOPIC")
GROUPS = ("billing", "mail")
WHITE = (
    "*", "10.0.0.1", "10.0.0.*", "10.0.*.*", "10.0.1-9.*", "10.0.0.5-9", "10.0.0.{1,2,7}",
    "10.0.0.1,192.168.0.7", "fe80::1", "fe80:0:0:0:0:0:0:1", "fe80::*", "fe80::1-20",
    "fe80::ac5:78:1-200:*", "fe80::{1,2}", "fe80::1,10.0.0.2", "", None,
    "10.0.0", "10.0.0.300", "x", "10.0.0.9-5", "10.0.0.-5",
)  # fmt: skip
SOUND = 17
"""So many of them are patterns; the others make the whole file useless."""
CLIENTS = ("10.0.0.1", "10.0.0.7", "10.0.5.7", "192.168.0.7", "172.16.0.1", "fe80:0:0:0:0:0:0:1",
           "fe80:0:0:0:0:0:0:15", "fe80:0:0:0:ac5:78:1ff:7")  # fmt: skip
KEYS = ("RocketMQ", "shopkey", "officekey", "nobodys")
CODES = (10, 310, 320, 36, 11, 12, 34, 35, 38, 15, 14, 17, 25, 200, 207, 215, 50, 28, 203, 30, 39)


def drawn(seed: int = SEED) -> list[dict[str, Any]]:
    """Files, each with the requests that are judged by it."""
    dice = random.Random(seed)
    return [_file(dice) for _ in range(FILES)]


def _file(dice: random.Random) -> dict[str, Any]:
    is_sound = dice.random() < 0.8
    accounts = [_account(dice, key, is_sound) for key in KEYS[:3]]
    white = [_white(dice, is_sound) for _ in range(dice.choice((0, 0, 0, 1, 2)))]
    content: dict[str, Any] = {"accounts": accounts}
    if white:
        content["globalWhiteRemoteAddresses"] = [each or "10.9.9.9" for each in white]
    # JSON is YAML; a number as secret is read as text
    text = json.dumps(content).replace('"12345678"', "12345678")
    requests = [_request(dice) for _ in range(REQUESTS)]
    return {"yaml": text, "requests": requests}


def _white(dice: random.Random, is_sound: bool) -> str | None:
    return dice.choice(WHITE[1:SOUND] if is_sound else WHITE[1:])


def _account(dice: random.Random, key: str, is_sound: bool) -> dict[str, Any]:
    account: dict[str, Any] = {"accessKey": key, "secretKey": _secret(key)}
    if not is_sound and dice.random() < 0.3:
        account["secretKey"] = "short1"
    if dice.random() < 0.3:
        account["whiteRemoteAddress"] = _white(dice, is_sound)
    if dice.random() < 0.4:
        account["admin"] = dice.choice((True, False, "true"))
    for name in ("defaultTopicPerm", "defaultGroupPerm"):
        if dice.random() < 0.6:
            account[name] = dice.choice(PERMS)
    for name, known in (("topicPerms", TOPICS), ("groupPerms", GROUPS)):
        if dice.random() < 0.6:
            chosen = dice.sample(known, dice.randint(1, 2))
            account[name] = [f"{each}={dice.choice(PERMS)}" for each in chosen]
            if not is_sound and dice.random() < 0.2:
                account[name].append("nothing")
    return account


def _secret(key: str) -> str:
    return "12345678" if key == "RocketMQ" else f"secret-of-{key}"


def _request(dice: random.Random) -> dict[str, Any]:
    code = dice.choice(CODES)
    topic, group = dice.choice(TOPICS), dice.choice(GROUPS)
    if dice.random() < 0.2:
        topic = f"%RETRY%{group}"
    fields: dict[str, str] = {"z": "zoë"}
    body = None
    if code in (310, 320):
        fields |= {"b": topic, "a": group}
    elif code == 36:
        fields |= {"group": group}
    elif code == 34:
        one = {"topic": topic, "subString": "*"}
        consumer = {"groupName": group, "subscriptionDataSet": [one]}
        body = json.dumps({"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []})
    elif code == 35:
        fields |= {"clientID": "c", "consumerGroup": group}
    elif code == 38:
        fields |= {"consumerGroup": group}
    elif code == 15:
        queue = {"queueId": "0", "commitOffset": "1"}
        fields |= {"topic": topic, "consumerGroup": group, **queue}
    elif code == 12:
        fields |= {"topic": topic, "key": "k", "_UNIQUE_KEY_QUERY": "true"}
    else:
        fields |= {"topic": topic, "group": group, "consumerGroup": group}
    key = dice.choice(KEYS)
    secret: str | None = _secret(key)
    if dice.random() < 0.1:
        secret = dice.choice((None, "another-secret"))
    if dice.random() < 0.93:
        fields["AccessKey"] = key
    # A server of 4.9 does not look at the query flag: whoever signs it is refused.
    client = f"{dice.choice(CLIENTS)}:4711"
    return {"code": code, "fields": fields, "body": body, "secret": secret, "address": client}

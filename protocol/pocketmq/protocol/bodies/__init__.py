"""Structured bodies of requests and replies, each declared once, in one file per family (E-60).

`pocketmq.protocol.body` encodes them as JSON or msgpack. The header of a request says which are its
own: `BODY`, `RESPONSE_BODY`.
"""

"""Explains why a group gets no messages, gets them twice, or lags: `pocketmq group explain`.

`facts.py` asks brokers and members, `findings.py` looks for problems in the answers.
"""

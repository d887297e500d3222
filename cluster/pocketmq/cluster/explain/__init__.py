"""Why a group gets nothing, gets things twice, or is late: `pocketmq group explain`.

`facts.py` asks brokers and members, `findings.py` judges what they said.
"""

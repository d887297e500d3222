"""SQL92 expressions over a message's properties, as RocketMQ reads and judges them.

    from pocketmq.protocol.filters import compile_sql92
    wanted = compile_sql92("price > 5 AND region IN ('east', 'west')")
    wanted.matches({"price": "6", "region": "east"})

`tokens.py` cuts the text, `parser.py` says what may follow what, `nodes.py` refuses what RocketMQ
refuses and makes one closure per operation, `values.py` compares as Java does. Nothing is ever
handed to `eval`. A filter is compiled once, and judged as often as there are messages.
"""

from pocketmq.protocol.filters.sql92 import CompiledFilters, Sql92Filter, compile_sql92

__all__ = ["CompiledFilters", "Sql92Filter", "compile_sql92"]

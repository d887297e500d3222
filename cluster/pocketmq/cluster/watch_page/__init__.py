"""The page of `pocketmq watch`, and what it asks of a running cluster or a recording.

page/            its files: plain HTML, CSS and JavaScript modules, nothing to build or to fetch
page.py          finds them, and puts a whole recording into one HTML file
present.py       what is there when somebody begins to watch, as events
store_bytes.py   files of a running broker's store, byte by byte
message_tail.py  messages of a topic as they come
routes.py        serves all of it
"""

"""The page on which a cluster is watched, running or recorded: `pocketmq watch`.

page/          its files: plain HTML, CSS and JavaScript modules, with nothing to build or to fetch
page.py        finds them, and puts a whole recording into one HTML file
selection.py   part of a recording, by seconds
present.py     what is there when somebody begins to watch, as events
store_bytes.py files of a running broker's store, byte by byte
routes.py      serves all of it
recording_server.py   serves a recording
recorder.py    writes what the control address tells into a recording
demo.py        a small cluster with clients, to be watched
"""

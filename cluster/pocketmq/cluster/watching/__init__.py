"""What is watched, running or recorded: `pocketmq watch`. The page is in watch_page/.

selection.py   part of a recording, by seconds
export.py      a recording as one HTML file
recording_server.py   serves a recording
recorder.py    writes what the control address tells into a recording
demo.py        a small cluster with clients, to be watched
"""

"""What applications send and receive, before it is a frame or a record (S-6 to S-8, P-20 to P-24).

Read in this order:

    properties.py      the names of properties, and the string they travel as
    message.py         `Message`, `MessageExt`, and the queue between them
    validation.py      what a broker would refuse, checked before sending
    subscription.py    what a group wants of a topic
    ids.py, receipts.py   what names one message, and what a client hands back to a broker
    batch.py           several messages in one request
"""

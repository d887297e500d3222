"""The program runs in threads; the test moves time and kills a broker under it."""

import socketserver
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from shop import make_app

from pocketmq.testing import Cluster


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


def test_orders_of_many_threads_survive_their_broker(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync  # started, and ready
    topic = cluster.create_topic("orders")
    with cluster.producer() as producer, cluster.consumer("billing", topic) as billing:
        with Server(("127.0.0.1", 0), WSGIRequestHandler) as server:
            server.set_app(make_app(producer, topic))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}/orders"
            orders = [b"order %d" % number for number in range(16)]
            with ThreadPoolExecutor(4) as pool:
                answers = list(pool.map(lambda order: urllib.request.urlopen(url, order), orders))
            assert {answer.status for answer in answers} == {202}
            server.shutdown()
        cluster.kill("broker-a")  # as kill -9 does
        cluster.restart("broker-a")
        cluster.advance(minutes=31)
        assert {billing.receive().body for _ in orders} == set(orders)

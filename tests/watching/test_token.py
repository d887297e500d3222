"""The page of a cluster whose control address wants a token."""

from __future__ import annotations

import pytest

from pocketmq.cluster.control_address.client import ControlClient
from pocketmq.cluster.control_address.server import ControlServer
from pocketmq.testing import start_cluster
from support.browser import chromium, seen

pytestmark = pytest.mark.browser

TOKEN = "a secret & more"


def test_the_page_is_opened_once_with_the_token() -> None:
    with start_cluster() as cluster:

        async def serve() -> ControlServer:
            return await ControlServer(cluster.control, port=0, token=TOKEN).__aenter__()

        server = cluster.thread.result(serve())
        try:
            with chromium() as browser:
                without = browser.new_context().new_page()
                for path in ("/watch", "/watch/main.js", "/events", "/watch?token=wrong"):
                    answer = without.request.get(f"{server.url}{path}")
                    assert answer.status == 401
                with seen(browser) as page:
                    page.open(ControlClient(server.url, TOKEN).page)
                    page.until("pocketmqWatch.badge === 'live'")
                    page.page.wait_for_selector("[data-key='thing broker-a']")
                    assert TOKEN not in page.page.url
                    [cookie] = page.page.context.cookies()
                    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
                other = browser.new_context().new_page()
                answer = other.request.get(f"{server.url}/cluster?token={TOKEN}")
                assert answer.status == 401  # only the page takes it in its address
        finally:
            cluster.thread.result(server.__aexit__(None, None, None))

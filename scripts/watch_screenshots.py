"""Make the pictures of docs/watch.md: a demo cluster, watched in headless Chromium.

Run it with `python scripts/watch_screenshots.py`. It needs Chromium, Playwright and
Pillow (`make setup`).
"""

import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
CHROMIUM = "/usr/bin/chromium"
MOST_BYTES = 200_000


def shoot(page: Page, name: str) -> None:
    """Save what the page shows."""
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path)
    with Image.open(path) as picture:  # few colours take a third of the bytes
        few = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
        few.save(path, optimize=True)
    size = path.stat().st_size
    assert size < MOST_BYTES, f"{path} has {size} bytes"
    print(f"{path.name}: {size // 1000} kB")


def ask(page: Page, path: str, body: str = "{}") -> None:
    """Ask the control address, as a button of the page does."""
    page.evaluate(
        "([path, body]) => fetch(path, {method: 'POST', body})"
        ".then((answer) => answer.text())",
        [path, body],
    )  # fmt: skip


def has_chinese() -> bool:
    """Whether this machine can draw the button `中文`."""
    found = subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=False)
    return bool(found.stdout.strip())


def until(page: Page, condition: str) -> None:
    page.wait_for_function(f"() => {condition}", timeout=120_000)


def watch(page: Page, url: str) -> None:
    """Look at each view of a cluster in which something happens."""
    state = "pocketmqWatch.timeline.newest"
    page.goto(url)
    if not has_chinese():
        page.add_style_tag(content="[data-language] { visibility: hidden }")
    until(
        page,
        f"Object.values({state}.clients).filter((each) => each.kind === 'consumer').length >= 4",
    )
    until(page, f"{state}.totals.consumed > 40")
    page.wait_for_timeout(1500)
    shoot(page, "watch-cluster")
    until(page, f"Object.values({state}.clients).some((each) => each.state !== 'running')")
    page.click("[data-view=queues]")
    page.wait_for_timeout(1500)
    shoot(page, "watch-queues")
    page.click("[data-view=offsets]")
    page.wait_for_timeout(500)
    shoot(page, "watch-offsets")
    page.click("[data-view=files]")
    page.click("[data-do=play]")
    page.locator("[data-record]").last.click()
    page.wait_for_selector("[data-field]")
    page.locator("[data-field=TOPIC]").first.click()
    page.evaluate("document.querySelector('.bytes').scrollIntoView({block: 'center'})")
    page.wait_for_timeout(300)
    shoot(page, "watch-files")
    page.click("[data-view=time]")
    page.click("[data-do=follow]")
    ask(page, "/clock/freeze")
    until(page, "document.querySelector('#view').innerText.includes('Step to the next deadline')")
    page.wait_for_timeout(1600)
    shoot(page, "watch-time")
    ask(page, "/roles/broker-b/freeze")
    ask(page, "/clock/advance", '{"seconds": 126}')
    ask(page, "/clock/run", '{"speed": 1}')
    page.emulate_media(color_scheme="dark")
    page.click("[data-view=cluster]")
    until(page, f"Object.keys({state}.forgot).length === 2")
    page.wait_for_timeout(2000)
    shoot(page, "watch-forgotten")
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="light")
    page.wait_for_timeout(500)
    shoot(page, "watch-small")


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pocketmq.cluster.cli.main", "watch", "--demo", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            url = demo.stdout.readline().strip()
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM)
                page = browser.new_page(viewport={"width": 1280, "height": 800}, locale="en-US")
                watch(page, url)
                browser.close()
        finally:
            demo.terminate()


if __name__ == "__main__":
    main()
